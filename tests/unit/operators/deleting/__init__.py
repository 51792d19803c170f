"""Deletions, restores and resets over tries, runs and stops."""
