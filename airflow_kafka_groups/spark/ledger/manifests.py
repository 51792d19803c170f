"""Read and check what the manifests of snapshots say. Text in, values out: no Spark here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.spark.errors import SnapshotError
from airflow_kafka_groups.spark.schemas import MANIFEST_FORMAT

SNAPSHOT_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Be what a job needs to know of one snapshot."""

    snapshot_id: str
    cluster: str
    kafka_cluster_id: str | None
    complete: bool
    missing_brokers: str
    rows: int
    files: tuple[str, ...]


def taken_at(snapshot_id: str) -> datetime:
    """Give the time in a snapshot's id.

    :param snapshot_id: ``YYYYMMDDTHHMMSSZ-<8 hex>``.
    """
    return datetime.strptime(snapshot_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def is_snapshot_id(text: str) -> bool:
    """Say whether a text is an id as the contract has it, with a time that exists.

    :param text: a folder's or file's name, without its ending.
    """
    if not SNAPSHOT_ID.fullmatch(text):
        return False
    try:
        taken_at(text)
    except ValueError:
        return False
    return True


def parse_manifest(text: str, *, snapshot_id: str, cluster: str) -> Manifest:
    """Turn a manifest's text into a value; whatever is not as the contract says is an error that names the snapshot.

    :param text: the JSON.
    :param snapshot_id: what the file's name says.
    :param cluster: the cluster in whose folder it lies.
    """
    try:
        content = json.loads(text)
        if content["format"] != MANIFEST_FORMAT:
            raise SnapshotError(
                f"snapshot {snapshot_id} has format {content['format']!r}, this job reads {MANIFEST_FORMAT}: "
                "run the version of the job that belongs to the one that takes the snapshots"
            )
        manifest = _from_content(content)
    except (ValueError, KeyError, TypeError) as exc:
        problem = f"its manifest cannot be used ({type(exc).__name__}: {exc})"
        raise SnapshotError(f"{half_written(snapshot_id, problem)}") from exc
    if (manifest.snapshot_id, manifest.cluster) != (snapshot_id, cluster):
        raise SnapshotError(
            f"manifest {snapshot_id}.json of cluster {cluster} belongs to snapshot {manifest.snapshot_id} of cluster "
            f"{manifest.cluster}: it was copied or renamed. Move it back to its own folder"
        )
    return manifest


def half_written(snapshot_id: str, problem: str) -> str:
    """Say what is wrong with a snapshot, and the remedy.

    :param snapshot_id: the snapshot.
    :param problem: what was found, as a clause.
    """
    return (
        f"snapshot {snapshot_id} is incomplete or was changed: {problem}. Nothing was judged. Restore its files, or "
        f"delete manifests/{snapshot_id}.json (the snapshot then no longer counts) and take a new snapshot"
    )


def _from_content(content: dict[str, Any]) -> Manifest:
    complete, rows = content["complete"], content["rows"]
    files = {str(entry["name"]): _count(entry["rows"], "rows of a file") for entry in content["files"]}
    if not isinstance(complete, bool):
        raise TypeError(f"complete is {complete!r}, not true or false")
    if len(files) != len(content["files"]) or any("/" in name or not name.strip(".") for name in files):
        raise ValueError("the names of its files are not plain and different from each other")
    if sum(files.values()) != _count(rows, "rows"):
        raise ValueError(f"its files have {sum(files.values())} rows by their own count, {rows} in all")
    missing = content.get("missing_brokers") or {}
    return Manifest(
        snapshot_id=str(content["snapshot_id"]),
        cluster=str(content["cluster"]),
        kafka_cluster_id=content.get("kafka_cluster_id"),
        complete=complete,
        missing_brokers="; ".join(f"{broker}: {why}" for broker, why in sorted(missing.items())),
        rows=rows,
        files=tuple(sorted(files)),
    )


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{name} is {value!r}, not a count")
    return value
