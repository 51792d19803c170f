"""Reading ``__consumer_offsets`` by Spark: from where to where, what was found, and the last commits of groups.

Its last record never proves idleness: no group becomes older by it. Commits of aborted and open transactions count too,
since somebody made them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.judge.evidence import REQUIRED, Evidence, LastCommits
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.spark.bundle import ship
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from airflow_kafka_groups.spark.kafka.reader import read_ranges
from airflow_kafka_groups.spark.session import SPARK_ERRORS, prepare_kafka, settings_of
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import CORRUPT, FUTURE, RECORDS

TOPIC = "__consumer_offsets"
RIGHTS = (
    f"The user needs Describe and Read on the topic {TOPIC}, and Read on groups whose names begin with spark-kafka- "
    "(managed clusters often refuse the first: snapshots then tell when a group moved)"
)
# Spark's Kafka source silently omits internal topics, unless it uses its deprecated offset fetching.
_CLOCK_SLACK = timedelta(hours=1)
_TIMES = ("last_commit_at", "last_record_at")
_NOT_PERMITTED = "AuthorizationException"
_INTERNAL_TOPICS = {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true"}


class NoAccessError(JobError):
    """The log of commits is hidden from this user, or may not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """The decoded log.

    :param rows: rows of ``SCAN_SCHEMA``, or what they were reduced to; ``kept`` is what executors keep of them.
    :param counts: the number of records of each kind.
    :param offsets: the number of offsets that were read.
    """

    rows: DataFrame
    counts: dict[str, int]
    offsets: int
    kept: tuple[DataFrame, ...] = ()

    def release(self) -> None:
        """Let executors forget the rows, which cannot be used any more."""
        for each in self.kept:
            each._jdf.queryExecution().analyzed().rdd().unpersist(False)

    @property
    def doubts(self) -> list[str]:
        """What may be missing in the rows, as sentences."""
        doubts = []
        if self.counts[CORRUPT]:
            doubts.append(f"{self.counts[CORRUPT]} record(s) could not be decoded: groups or commits may be missing")
        if self.counts[FUTURE]:
            doubts.append(
                f"{self.counts[FUTURE]} record(s) are of a version that this job does not know: groups or commits are "
                "missing. Use a version of this job that knows the brokers' version"
            )
        return doubts


def log_partitions(admin: KafkaAdmin) -> list[Partition]:
    """Return the partitions of the log. Raises ``NoAccessError`` if it is hidden from this user."""
    try:
        partitions = admin.partitions([TOPIC])
    except JobError as exc:
        if _NOT_PERMITTED not in str(exc):
            raise
        partitions = set()
    if not partitions:
        raise NoAccessError(
            f"the cluster shows no topic {TOPIC}: nothing was ever committed, or it is hidden. {RIGHTS}"
        )
    return sorted(partitions)


def ranges_of(
    admin: KafkaAdmin, partitions: Sequence[Partition], *, since: datetime | None = None, read_committed: bool = True
) -> list[Range]:
    """Return the offsets to read, by default all that are before the first open transaction.

    :param since: leave out records that were appended before this time.
    """
    ends = admin.log_ends(partitions, read_committed=read_committed)
    if since is None:
        return [Range(where, log.start, log.end) for where, log in ends.items()]
    starts = admin.offsets_at(partitions, since)
    return [Range(where, min(starts.get(where, log.end), log.end), log.end) for where, log in ends.items()]


def behind_ends(admin: KafkaAdmin, ranges: Sequence[Range], *, read_committed: bool) -> list[Range]:
    """Return what was appended while these offsets were read; none if nothing was.

    A commit is compacted when its group has committed again. If that was before it was read, the newer one is there.
    """
    ends = admin.log_ends([each.partition for each in ranges], read_committed=read_committed)
    behind = [Range(each.partition, each.end, ends[each.partition].end) for each in ranges]
    return [each for each in behind if each.offsets > 0]


def scanned(
    spark: SparkSession,
    admin: KafkaAdmin,
    properties: KafkaProperties,
    ranges: Sequence[Range],
    *,
    read_committed: bool = True,
    reduced: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    joined: Callable[[DataFrame, DataFrame], DataFrame] | None = None,
) -> Scanned:
    """Read and decode these offsets once: the rows are kept, so that nothing of the log is read again.

    If an executor is lost with a part of them, the job fails: what is read again lacks what was compacted meanwhile.

    :param reduced: returns what is kept of the rows. Default: all.
    :param joined: joins these rows and those that were appended while they were read. Default: leave these out.

    Raises ``JobError`` if there are offsets and Spark would read none of them.
    """
    level = "read_committed" if read_committed else "read_uncommitted"
    offsets = sum(each.offsets for each in ranges)
    with settings_of(spark, _INTERNAL_TOPICS):
        records = read_ranges(spark, properties, ranges, isolation_level=level)
        if offsets and not records._jdf.queryExecution().toRdd().getNumPartitions():  # Spark omits the topic
            raise JobError(f"{TOPIC} has {offsets} offsets and Spark would read none of them. {RIGHTS}")
        rows = records.transform(scan).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = _counts(rows)
            kept = reduced(rows).localCheckpoint()
        finally:
            rows.unpersist()
    log = Scanned(rows=kept, counts=counts, offsets=offsets, kept=(kept,))
    if joined is None or not (behind := behind_ends(admin, ranges, read_committed=read_committed)):
        return log
    later = scanned(spark, admin, properties, behind, read_committed=read_committed, reduced=reduced)
    counts = {name: log.counts.get(name, 0) + later.counts.get(name, 0) for name in log.counts | later.counts}
    rows, kept_of_both = joined(log.rows, later.rows), (*log.kept, *later.kept)
    return Scanned(rows=rows, counts=counts, offsets=offsets + later.offsets, kept=kept_of_both)


def scan(records: DataFrame) -> DataFrame:
    """Convert records of the log, as returned by Spark's Kafka source, to rows of ``SCAN_SCHEMA``."""
    # It needs numpy, and --help does not.
    from airflow_kafka_groups.observe.offsets_topic.scan import COLUMNS, SCAN_SCHEMA, scan_batches

    ship(records.sparkSession)
    return records.select(*COLUMNS).mapInArrow(scan_batches, SCAN_SCHEMA)


def _counts(rows: DataFrame) -> dict[str, int]:
    found = rows.where("kind = 'count'").groupBy("name").agg(F.sum("number").alias("number")).collect()
    counts = {row["name"]: row["number"] for row in sorted(found) if row["number"]}
    return {RECORDS: 0, CORRUPT: 0, FUTURE: 0, **counts}


def read_log(
    spark: SparkSession, path: str, mode: str, judged: SnapshotManifest, min_idle_seconds: float
) -> LastCommits:
    """Read the log of commits, as far as it concerns the idle times of a snapshot's groups.

    :param mode: ``"required"``, or ``"auto"``: without access to the log there are no commits, and the evidence says
        why.

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
        warnings = prepare_kafka(spark)
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
