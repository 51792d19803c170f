"""Deletions, prunings and restores, and what happens in between, on real brokers."""
