"""Stage 2: many heads learn in one pass over a frozen encoder."""
