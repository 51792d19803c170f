"""Snapshots: every group of a cluster with its state and committed offsets, as Parquet rows and a manifest.

In: a ``GroupAdmin`` and a ``Layout``. Out: ``SnapshotManifest`` and rows, which ``SnapshotReader`` reads and verifies.
``collect`` takes a snapshot, ``group_rows`` and ``table`` hold its rows, ``reader`` reads one, and ``backlog`` extracts
one group for a Spark job.
"""
