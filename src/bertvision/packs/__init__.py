"""A task pack: what changed in an encoder, heads and a threshold, in a few megabytes; and what answers with it."""
