"""Deletion plans: which groups to delete and why, fixed by a digest."""
