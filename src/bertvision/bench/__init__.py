"""Measuring: timings side by side, and records that say where they come from."""
