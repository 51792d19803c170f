"""Backups: what a plan deletes, or named groups, as files that were read back and compared."""
