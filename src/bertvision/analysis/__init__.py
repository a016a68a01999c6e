"""From scores to understanding: where models fail, what layers count, what quality costs; numbers only, no plots."""
