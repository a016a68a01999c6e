"""Measuring: timings side by side, suites of experiments, and records that say where they come from."""
