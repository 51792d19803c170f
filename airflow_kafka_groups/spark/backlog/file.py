"""The JSON files that pass a group's fetched offsets to a job, and the offsets to commit back.

``GroupOffsetsToSparkOperator`` writes the first; docs/formats.md specifies both. No Spark here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.contracts.formats import check_format
from airflow_kafka_groups.spark.errors import ArgumentError
from airflow_kafka_groups.spark.kafka.offsets import Commit, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffsets:
    """The fetched offsets of one group.

    :param ends: the log ends at that time, up to which the job reads.
    """

    backlog_id: str
    kafka_cluster_id: str | None
    group_id: str
    committed: Mapping[Partition, Commit]
    ends: Mapping[Partition, int]


def parse_fetched(text: str, path: str) -> FetchedOffsets:
    """Parse the file. Raises ``ArgumentError`` naming the file if it differs from docs/formats.md."""
    try:
        content = json.loads(text)
        check_format(content)
        committed: dict[Partition, Commit] = {}
        ends: dict[Partition, int] = {}
        for row in content["partitions"]:
            where = Partition(_text(row["topic"]), _count(row["partition"]))
            if where in committed:
                raise ValueError(f"it names {where} twice")
            epoch = None if row["leader_epoch"] is None else _count(row["leader_epoch"])
            committed[where] = Commit(_count(row["committed_offset"]), epoch, row["metadata"] or "")
            if row["log_end"] is not None:
                ends[where] = _count(row["log_end"])
        return FetchedOffsets(
            backlog_id=_text(content["backlog_id"]),
            kafka_cluster_id=content["kafka_cluster_id"],
            group_id=_text(content["group_id"]),
            committed=committed,
            ends=ends,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        remedy = f"it is not what GroupOffsetsToSparkOperator writes ({type(exc).__name__}: {exc}): fetch them again"
        raise ArgumentError("--backlog", path, remedy) from exc


def commit_rows(commits: Mapping[Partition, Commit]) -> list[dict[str, Any]]:
    """Return commits as JSON rows."""
    return [{**where._asdict(), **commit._asdict()} for where, commit in sorted(commits.items())]


def parse_commits(rows: Iterable[Mapping[str, Any]]) -> dict[Partition, Commit]:
    """Return the commits of JSON rows, as ``commit_rows`` made them."""
    return {
        Partition(row["topic"], row["partition"]): Commit(row["offset"], row["leader_epoch"], row["metadata"])
        for row in rows
    }


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is not a string")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is not an integer of at least 0")
    return value
