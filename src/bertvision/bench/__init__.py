"""Benchmarks: timings side by side, suites of experiments, and records with their provenance."""
