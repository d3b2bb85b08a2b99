"""Benchmarks: every number is a ratio measured side by side in one run."""
