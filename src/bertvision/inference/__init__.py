"""Frozen models over whole splits: states of layers, computed or stored, and outputs."""
