"""Snapshots: every group of a cluster with its state and committed offsets, as Parquet rows and a manifest.

In: a ``AdminClient`` and a ``Layout``. Out: ``SnapshotManifest`` and rows, which ``SnapshotReader`` reads and verifies.
``collect`` takes a snapshot, ``table`` has its rows, and ``reader`` reads one.
"""
