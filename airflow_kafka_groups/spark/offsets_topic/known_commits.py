"""The last commits of groups, as a judgement uses them, and what they prove."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.judge.evidence import OFF, Evidence
from airflow_kafka_groups.observe.history.fleet import PLACEHOLDER
from airflow_kafka_groups.storage.manifest import SnapshotManifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommits:
    """When groups committed last, and what that is worth as evidence.

    :param rows: ``group_id`` and ``last_commit_at``, one row per group; ``None``: not known.
    :param warnings: what may be missing.
    """

    rows: DataFrame | None = None
    evidence: Evidence
    summary: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def times(self) -> dict[str, int]:
        """Return the last commits by group, in microseconds since 1970."""
        if self.rows is None:
            return {}
        found = self.rows.where("last_commit_at IS NOT NULL").selectExpr(
            "group_id", "unix_micros(last_commit_at) AS at"
        )
        times: dict[str, int] = {}
        for group_id, at in found.collect():  # toArrow() would hide what failed behind "thrown in awaitResult"
            times[group_id] = max(times.get(group_id, at), at)  # of two rows, which there should not be, the later one
        return times


def reads_commits(arguments: argparse.Namespace) -> bool:
    """Return whether a judgement reads last commits, which needs Spark."""
    of_log = arguments.commit_log != OFF and arguments.kafka_properties is not None
    return of_log or arguments.commit_history is not None


def asked_for(
    session: Callable[[], SparkSession], arguments: argparse.Namespace, judged: SnapshotManifest
) -> LastCommits:
    """Return the last commits that a judgement asks for.

    :param session: returns the session, which is started only if it is needed.
    :param judged: the snapshot that is judged.

    Raises as ``read_folder`` and ``read_log`` do.
    """
    if not reads_commits(arguments):
        why = "it was not asked for" if arguments.commit_log == OFF else "the job was given no --kafka-properties"
        return LastCommits(evidence=Evidence(not_read=why))
    from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder, read_log

    if arguments.commit_history is not None:
        folder = arguments.commit_history.replace(PLACEHOLDER, judged.cluster).rstrip("/")
        return read_folder(session(), folder, judged.kafka_cluster_id)
    path = arguments.kafka_properties.replace(PLACEHOLDER, judged.cluster)
    return read_log(session(), path, arguments.commit_log, judged, arguments.min_idle_seconds)
