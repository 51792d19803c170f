"""Last commits and group records as signs of life that snapshots cannot show.

A consumer that commits the same offset repeatedly, or that comes and goes between two snapshots without a commit, is
alive, but no snapshot shows it; the log of commits does. Its last record never proves idleness: no group becomes older
by it.

The commits come from the log itself, or from the output of the job ``commit_history``. Of the log, only the part since
the beginning of the required idle time is read: an older commit decides nothing. Commits of aborted and open
transactions count too, since somebody made them.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError, JobError, StorageError
from airflow_kafka_groups.judge.evidence import REQUIRED, Evidence
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA, read_stored
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.offsets_topic.known_commits import LastCommits
from airflow_kafka_groups.spark.offsets_topic.reading import (
    RIGHTS,
    TOPIC,
    NoAccessError,
    log_partitions,
    ranges_of,
    scanned,
)
from airflow_kafka_groups.spark.session.preflight import prepare_kafka
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import footer_of
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import is_data_file
from airflow_kafka_groups.storage.schemas import CORRUPT, FUTURE, RECORDS

_CLOCK_SLACK = timedelta(hours=1)
_SAME_TIME = timedelta(seconds=1)  # object stores tell no less
_TIMES = ("last_commit_at", "last_record_at")
_NOT_PERMITTED = "AuthorizationException"


def read_log(
    spark: SparkSession, path: str, mode: str, judged: SnapshotManifest, min_idle_seconds: float
) -> LastCommits:
    """Read the log of commits, as far as it concerns the idle times of a snapshot's groups.

    :param path: properties of Kafka's Java client.
    :param mode: ``"required"``, or ``"auto"``: without access to the log there are no commits, and the evidence has
        the reason.

    Raises ``NoAccessError`` if the log is required and there is no access, and ``JobError`` for every other error: an
    error of the moment must not weaken the evidence.
    """
    try:
        found = _read_log(spark, path, judged, min_idle_seconds)
    except NoAccessError as exc:
        if mode == REQUIRED:
            raise
        return LastCommits(evidence=Evidence(not_read=str(exc)))
    except ArgumentError:
        raise
    except JobError as exc:
        raise JobError(f"the log of commits cannot be read: {exc}. Use --commit-log off to judge without it") from exc
    if mode == REQUIRED and found.warnings:
        raise JobError(f"the log of commits is required, and was not read completely: {'; '.join(found.warnings)}")
    return found


def _read_log(spark: SparkSession, path: str, judged: SnapshotManifest, min_idle_seconds: float) -> LastCommits:
    begun = time.monotonic()
    try:
        warnings = prepare_kafka(spark, arrow_on_workers=True)
    except JobError as exc:
        raise NoAccessError(str(exc)) from exc
    properties = load_properties(spark, path)
    since = judged.started_at - timedelta(seconds=min_idle_seconds) - _CLOCK_SLACK
    with KafkaAdmin(spark, properties) as admin:
        if (found := admin.cluster_id()) != judged.kafka_cluster_id:
            raise JobError(
                f"the Kafka properties are of the cluster {found}, the snapshots of {judged.kafka_cluster_id}: use the "
                "connection that takes the snapshots"
            )
        partitions = log_partitions(admin)
        # The snapshot exists, so what is read now includes what was committed while it was taken, whatever the clock.
        until = max(datetime.now(UTC), judged.observed_at)
        ranges = ranges_of(admin, partitions, since=since, read_committed=False)
        try:
            log = scanned(
                spark, admin, properties, ranges, joined=DataFrame.union, reduced=last_commits, read_committed=False
            )
        except SPARK_ERRORS as exc:
            if _NOT_PERMITTED in str(exc):
                raise NoAccessError(f"Spark is not permitted to read {TOPIC}. {RIGHTS}") from exc
            raise
    # Commits of today may have times of last week then, from before what is read.
    off = "" if judged.clocks is None else judged.clocks.why_off(since)
    doubts = [*log.doubts, *([off] if off else ())]
    return LastCommits(
        rows=log.rows.groupBy("group_id").agg(*(F.max(name).alias(name) for name in _TIMES)),
        evidence=Evidence(
            commits_until=None if doubts else until,
            commits_since=None if doubts else since,
            not_read="; ".join(doubts),
        ),
        summary={"offsets": log.offsets, "records": log.counts[RECORDS], "seconds": round(time.monotonic() - begun, 1)},
        warnings=(*warnings, *doubts),
    )


def last_commits(scan: DataFrame) -> DataFrame:
    """Reduce a scan to each group's last commit, by its own time or the log's, if that is later, and group record."""
    is_record = "CASE WHEN kind = 'record' THEN recorded_at END"
    commit = "CASE WHEN kind <> 'record' THEN greatest(committed_at, recorded_at) END"
    at = F.expr(f"max({commit}) AS last_commit_at"), F.expr(f"max({is_record}) AS last_record_at")
    return scan.where("kind IN ('commit', 'removed', 'record')").groupBy("group_id").agg(*at)


def read_folder(spark: SparkSession, folder: str, kafka_cluster_id: str | None) -> LastCommits:
    """Read the result of the job ``commit_history``.

    :param folder: its ``--output``.

    Raises ``JobError`` if it is missing, incomplete, or of another cluster, or if its summary is that of another run.
    """
    remedy = "run the job commit_history first, or leave --commit-history out"
    storage, place = storage_of(spark, folder), f"{folder}/summary.json"
    try:
        summary = json.loads(storage.read_text(place))
        found = summary["kafka_cluster_id"]
        counts, until, _ = summary["records"], summary["read_until"], (summary["run_id"], summary["files"])
        if summary["groups"] == 0:  # Spark writes no file then, and cannot tell the columns
            stored = spark.createDataFrame([], COMMIT_GROUP_SCHEMA)
        else:
            stored = read_stored(spark).parquet(f"{folder}/groups")
        rows = stored.select("group_id", *_TIMES)
    except StorageError as exc:
        raise JobError(
            f"{folder} has no summary of commit_history, so it is incomplete or not there: {remedy}"
        ) from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise JobError(
            f"the summary in {folder} is not one of commit_history ({type(exc).__name__}): {remedy}"
        ) from exc
    except SPARK_ERRORS as exc:
        raise JobError(f"the groups in {folder} cannot be read ({first_line(exc)}): {remedy}") from exc
    if found != kafka_cluster_id:
        raise JobError(f"{folder} is of the Kafka cluster {found}, the snapshots are of {kafka_cluster_id}: {remedy}")
    _check_files(storage, folder, summary, remedy)
    if counts.get(CORRUPT) or counts.get(FUTURE):
        return LastCommits(rows=rows, evidence=Evidence(not_read=f"commit_history could not decode all of {folder}"))
    evidence = Evidence.from_json({"commits_until": until})
    if evidence.commits_until is None:
        evidence = Evidence(
            not_read=f"{folder} does not tell until when (an open transaction hid commits): run commit_history again"
        )
    elif (why := _why_too_late(evidence.commits_until, storage.describe(place).written_at)) is not None:
        evidence = Evidence(not_read=f"{folder} says that the log was read until {why}, and run commit_history again")
    return LastCommits(rows=rows, evidence=evidence)


def _why_too_late(read_until: datetime, written_at: datetime) -> str | None:
    """Return a time until which the log cannot have been read, and why, or ``None``: a summary is written afterwards.

    The judgement's own clock helps where the storage's is that of the driver that read.
    """
    now, read = datetime.now(UTC), read_until.isoformat()
    if read_until > written_at + _SAME_TIME:
        return f"{read}, and was written at {written_at.isoformat()}: the clock of its driver was ahead. Correct it"
    if read_until > now + _SAME_TIME:
        known = f"it is {now.isoformat()} by the judging driver's clock"
        return f"{read}, and {known}: the clock of its driver was ahead, or this one is behind. Correct it"
    return None


def _check_files(storage: Storage, folder: str, summary: dict[str, Any], remedy: str) -> None:
    """Raise ``JobError`` if the groups are not those of the run that wrote the summary."""
    files, run_id = table_files(storage, f"{folder}/groups"), summary["run_id"]
    if other := sorted({name.partition("/")[0] for name in files} - {f"run_id={run_id}"}):
        # Of as many groups, and read at another time than the summary says.
        raise JobError(f"{folder} has the groups of {other[0]}, and its summary is of the run {run_id}: {remedy}")
    if sorted(summary["files"]) != files:
        raise JobError(f"{folder} has the groups of another try of the run {run_id}: {remedy}")
    written, there = summary["groups"], sum(footer_of(storage, f"{folder}/groups/{name}")[1] for name in files)
    if written != there:  # another run writes there, or was killed: its summary is elsewhere
        raise JobError(f"{folder} has {there} groups, and its summary says {written}: {remedy}")


def table_files(storage: Storage, folder: str) -> list[str]:
    """Return the files of a table of ``commit_history``, sorted: each with the folder of its run.

    A run that writes has others, which do not count.
    """
    below = storage.sizes_below(folder)
    return sorted(f"{parent}/{name}" for parent, name in below if parent.startswith("run_id=") and is_data_file(name))
