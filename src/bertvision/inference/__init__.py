"""Inference with frozen models on whole splits: hidden states, computed or read from a store, and outputs."""
