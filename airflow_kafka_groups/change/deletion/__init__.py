"""Deletions: each group is read again right before it is deleted, and every doubt keeps it."""
