"""Snapshots' manifests as the jobs read them: whatever is wrong with one is an error that names the snapshot."""

from __future__ import annotations

import json

from airflow_kafka_groups.contracts import paths
from airflow_kafka_groups.contracts.formats import FORMAT, UnknownFormatError
from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.spark.errors import SnapshotError


def parse_manifest(text: str, *, snapshot_id: str, cluster: str) -> SnapshotManifest:
    """Parse the text of a manifest, and check that it is that of this snapshot.

    :param text: the JSON.
    :param snapshot_id: the snapshot in the file's name.
    :param cluster: the cluster in whose folder it lies.
    """
    try:
        manifest = SnapshotManifest.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        if isinstance(exc, UnknownFormatError) and exc.found is not None:
            remedy = "run the version of the job that belongs to the one that takes the snapshots"
            raise SnapshotError(
                f"snapshot {snapshot_id} has format {exc.found!r}, this job reads {FORMAT}: {remedy}"
            ) from exc
        problem = f"its manifest cannot be used ({type(exc).__name__}: {exc})"
        raise SnapshotError(half_written(snapshot_id, problem)) from exc
    if (manifest.snapshot_id, manifest.cluster) != (snapshot_id, cluster):
        raise SnapshotError(
            f"manifest {snapshot_id}.json of cluster {cluster} belongs to snapshot {manifest.snapshot_id} of cluster "
            f"{manifest.cluster}: it was copied or renamed. Move it back to its own folder"
        )
    return manifest


def half_written(snapshot_id: str, problem: str) -> str:
    """Return the message for a snapshot that cannot be used, with the remedy.

    :param snapshot_id: the snapshot.
    :param problem: what was found, as a clause.
    """
    return (
        f"snapshot {snapshot_id} is incomplete or was changed: {problem}. Nothing was judged. Restore its files, or "
        f"delete {paths.manifest(snapshot_id)} (the snapshot then no longer counts) and take a new snapshot"
    )
