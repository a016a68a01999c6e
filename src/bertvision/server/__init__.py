"""Packs behind HTTP: requests of many clients in one pass, limits, logs, metrics and a page to try them."""
