"""Backups: the committed offsets of groups, read again, written, and verified by reading the file.

In: a plan (``planned``) or group ids (``named``). Out: a ``Backup`` that a deletion requires and a restore reads.
``file`` is the format: Parquet rows and a manifest with their SHA-256.
"""
