"""Snapshots: every group of a cluster with its state and committed offsets, as Parquet rows and a manifest.

In: a ``GroupAdmin`` and a ``Layout``. Out: ``SnapshotManifest`` and rows that ``SnapshotReader`` gives back, verified.
``collect`` takes a snapshot, ``reader`` reads one, ``backlog`` cuts one group out of it for a Spark job.
"""
