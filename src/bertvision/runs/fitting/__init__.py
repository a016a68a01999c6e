"""Stage 2: train many heads in one pass over a frozen encoder."""
