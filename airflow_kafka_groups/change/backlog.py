"""The offsets of one group as JSON for a Spark job, and the job's result as a change to commit; see docs/formats.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_groups.change.restore.reset import CommitRequest
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError, SnapshotError
from airflow_kafka_groups.kafka.admin.lag import partition_lag
from airflow_kafka_groups.kafka.models import GroupState, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Change, Commits
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import parse_json, read_named, write_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import BACKLOGS, new_id
from airflow_kafka_groups.storage.schemas import to_rows

JOB = "process_group_backlog"
_LARGEST_RESULT = 64 << 20
"""Bytes: a group has committed to 100,000 partitions at most, and a partition has some hundreds."""
_RANGE = ("topic", "partition", "start", "end")
_COLUMNS = ["topic", "partition", "committed_offset", "leader_epoch", "metadata", "log_start", "log_end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBacklog:
    """The offsets of one group, written for a job.

    :param offsets: its lag; ``None`` if a log end is unknown, or a commit is beyond one.
    """

    backlog_id: str
    group_id: str
    path: StoragePath
    result_path: StoragePath
    output_path: StoragePath
    partitions: int
    offsets: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedBacklog(CommitRequest):
    """The result of a job: the change to commit, and the resulting offset of each partition.

    :param taken: the ranges of offsets that were processed: ``topic``, ``partition``, ``start``, ``end`` (exclusive).
    """

    targets: dict[str, dict[str, dict[str, int]]]
    taken: tuple[Mapping[str, Any], ...]


def write_backlog(layout: Layout, snapshot_id: str, group_id: str, now: datetime) -> FetchedBacklog:
    """Write the offsets of one group of a snapshot.

    :param group_id: the group; it must have been Empty and readable without errors.

    Raises ``SnapshotError`` if the snapshot shows the group otherwise.
    """
    snapshot = SnapshotReader(layout, snapshot_id)
    blocks = [*snapshot.blocks([group_id], ["state", "members", "observed_at", "error", *_COLUMNS])]
    found = [row for block in blocks for row in to_rows(block.rows)]
    if not found:
        raise ConfigurationError("group_id", group_id, f"is not in snapshot {snapshot_id}")
    if errors := [row["error"] for row in found if row["error"] is not None]:
        raise SnapshotError(f"group {group_id!r} could not be read: {errors[0]}. Take a new snapshot")
    group = found[0]
    if group["state"] != GroupState.EMPTY.value or group["members"]:
        raise SnapshotError(
            f"group {group_id!r} was {group['state']}, with {group['members']} member(s): stop its consumers, then "
            "take a new snapshot"
        )
    rows = [row for row in found if row["committed_offset"] is not None]
    if not rows:
        raise SnapshotError(f"group {group_id!r} has no committed offsets in snapshot {snapshot_id}")
    backlog_id = new_id(now)
    folder = layout.root / BACKLOGS
    content = {
        "format": FORMAT,
        "backlog_id": backlog_id,
        "cluster": layout.cluster,
        "kafka_cluster_id": snapshot.manifest.kafka_cluster_id,
        "snapshot_id": snapshot_id,
        "group_id": group_id,
        "observed_at": group["observed_at"].isoformat(),
        "partitions": [{name: row[name] for name in _COLUMNS} for row in rows],
    }
    lags = [_lag(row) for row in rows]
    return FetchedBacklog(
        backlog_id=backlog_id,
        group_id=group_id,
        path=write_json(folder, f"{backlog_id}.json", content),
        result_path=folder / f"{backlog_id}-result.json",
        output_path=folder / backlog_id,
        partitions=len(rows),
        offsets=None if None in lags else sum(lag or 0 for lag in lags),
    )


def _lag(row: Mapping[str, Any]) -> int | None:
    bounds = row["log_start"], row["log_end"]
    return partition_lag(row["committed_offset"], None if None in bounds else bounds).messages


def read_result(path: StoragePath, backlog_id: str) -> ProcessedBacklog:
    """Read the result of a job.

    :param backlog_id: the id that it must have.

    Raises ``MaintenanceError`` if it is missing, has another id, or the job has already committed.
    """
    what = "the result of the Spark job"
    if (data := read_named(path, what, _LARGEST_RESULT, MaintenanceError)) is None:
        raise MaintenanceError(f"{what} is missing: there is no {path}")
    content = parse_json(data, path, what, MaintenanceError)
    if content.get("job") != JOB or content.get("backlog_id") != backlog_id:
        raise MaintenanceError(f"{path} is not the result of {JOB} for {backlog_id}: run the job again")
    if content.get("outcome") != "processed" or content.get("committed"):
        raise MaintenanceError(
            f"according to {path}, the job ended as {content.get('outcome')!r}, or has committed itself, and not with "
            "everything processed and left to commit: run it again with --no-commit"
        )
    try:
        before, after = _commits(content["before"]), _commits(content["to_commit"])
        targets: dict[str, dict[str, int]] = {}  # partitions are strings, as JSON keys must be
        for row in content["ends"]:
            targets.setdefault(row["topic"], {})[str(row["partition"])] = row["offset"]
        group_id, read_from = content["group_id"], content["kafka_cluster_id"]
        change = Change(group_id=group_id, before=before, after=after)
        taken = tuple({name: row[name] for name in _RANGE} for row in content["processed"])
    except (KeyError, TypeError) as exc:
        raise MaintenanceError(f"{path} is damaged ({type(exc).__name__}: {exc}): run the job again") from exc
    return ProcessedBacklog(
        change=change, kafka_cluster_id=read_from, targets={group_id: targets}, taken=taken, source=str(path)
    )


def _commits(rows: Collection[dict[str, Any]]) -> Commits:
    return {
        TopicPartition(row["topic"], row["partition"]): OffsetAndMetadata(
            row["offset"], row["metadata"], row["leader_epoch"]
        )
        for row in rows
    }
