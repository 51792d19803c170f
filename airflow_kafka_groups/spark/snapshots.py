"""The rows of a snapshot as a DataFrame that tasks have checked: the driver reads its manifest, and no row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.history.snapshots import History, half_written, rows_of
from airflow_kafka_groups.observe.offset_values import LogEnds, Partition
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.frames import SNAPSHOT_SCHEMA, read_stored
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.session import SPARK_ERRORS
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import SNAPSHOT_COLUMNS

RECREATED = "was recreated or truncated since it was committed at {}"
FORSAKEN = (
    "was committed at {}, and none of these groups has a commit in its topic any more: it may have been recreated, and "
    "the snapshot does not have its id"
)

_PLACE = ["topic", "partition"]
_OF_GROUP = ("group_id", "state", "topic", "partition", "committed_offset", "error")
_LACKING = " OR ".join(f"{each.name} IS NULL" for each in SNAPSHOT_COLUMNS if not each.nullable)
_CHECKS = (
    "count(*) AS rows",
    f"count_if({_LACKING}) AS lacking",
)


def read_snapshot(spark: SparkSession, history: History, *more: str) -> tuple[DataFrame, Row]:
    """Return the rows of the judged snapshot, and what is asked about them in the same reading.

    :param more: aggregates of its rows, in SQL.

    Raises ``SnapshotError`` unless all its rows are there, complete, and its own.
    """
    manifest, problem = history.judged, ""
    rows = read_stored(spark, SNAPSHOT_SCHEMA).parquet(*rows_of(history, manifest))
    foreign = F.max(F.when(F.col("run_id") != manifest.snapshot_id, F.col("run_id"))).alias("foreign")
    try:
        found = rows.agg(*map(F.expr, (*_CHECKS, *more)), foreign).collect()[0]
    except SPARK_ERRORS as exc:
        raise SnapshotError(half_written(manifest.snapshot_id, f"it cannot be read ({first_line(exc)})")) from exc
    if found["foreign"] is not None:
        problem = f"it has rows of snapshot {found['foreign']!r}, so a file was copied or renamed"
    elif found["rows"] != manifest.rows:
        problem = f"{found['rows']} rows where its manifest says {manifest.rows}"
    elif found["lacking"]:
        problem = f"{found['lacking']} rows lack a group, a time, a state or another required column"
    if problem:
        raise SnapshotError(half_written(manifest.snapshot_id, problem))
    return rows, found


def rows_of_groups(rows: DataFrame, group_ids: Collection[str]) -> list[dict[str, Any]]:
    """Return what a snapshot has of these groups, in the driver."""
    asked = F.broadcast(rows.sparkSession.createDataFrame([(name,) for name in group_ids], "group_id string"))
    found = rows.join(asked, "group_id", "left_semi")
    return [row.asDict() for row in found.select(*_OF_GROUP).toLocalIterator()]


def logs_of(rows: DataFrame, wanted: Collection[Partition]) -> dict[Partition, LogEnds]:
    """Return the logs of these partitions, as a snapshot's rows have them."""
    if not wanted:
        return {}
    asked = F.broadcast(rows.sparkSession.createDataFrame(list(wanted), "topic string, partition int"))
    known = rows.join(asked, _PLACE, "left_semi").dropna(subset=["log_start", "log_end"])
    ends = known.groupBy(_PLACE).agg(F.max("log_start"), F.max("log_end")).collect()
    return {Partition(topic, number): LogEnds(start, end) for topic, number, start, end in ends}


def with_other_ids(ids: Mapping[str, str], others: Mapping[str, str]) -> set[str]:
    """Return the topics that have another id in one of two readings than in the other."""
    return {topic for topic in ids.keys() & others.keys() if ids[topic] != others[topic]}


def logs_since(
    admin: KafkaAdmin,
    snapshot: SnapshotManifest,
    rows: DataFrame,
    wanted: Set[Partition],
    groups: Mapping[str, Collection[Partition]] | None = None,
) -> tuple[dict[Partition, LogEnds], dict[Partition, str], dict[str, str]]:
    """Return the logs of partitions as they are now, why partitions are not the snapshot's, and the topics' ids.

    A partition is not the snapshot's if its topic has another id, or its log went backwards, or, where the snapshot has
    no id, if brokers have removed the commits of all groups with the topic.

    :param wanted: partitions of the snapshot; those that do not exist any more are left out.
    :param groups: the partitions in which groups had commits, to ask whether they have some. Default: nobody is asked.
    """
    topics = {where.topic for where in wanted}
    ids, known = admin.topic_ids(topics), (snapshot.view or {}).get("topic_ids") or {}
    logs = admin.log_ends(wanted & admin.partitions(topics), read_committed=False)
    others = with_other_ids(known, ids)
    went_back = went_backwards(logs_of(rows, logs), logs)
    doubtful = {where for where in logs if where.topic not in known.keys() & ids.keys()}
    why = dict.fromkeys(_forsaken(admin, groups, doubtful), FORSAKEN) if groups else {}
    why |= {where: RECREATED for where in logs if where.topic in others or where in went_back}
    return logs, why, ids


def _forsaken(
    admin: KafkaAdmin, groups: Mapping[str, Collection[Partition]], doubtful: Set[Partition]
) -> Set[Partition]:
    topics = {where.topic for where in doubtful}
    for group_id, commits in groups.items():
        if not topics.isdisjoint(where.topic for where in commits):
            topics -= {where.topic for where in admin.known(group_id)}
    return {where for where in doubtful if where.topic in topics}


def went_backwards(then: Mapping[Partition, LogEnds], now: Mapping[Partition, LogEnds]) -> set[Partition]:
    """Return the partitions whose log begins or ends before where it did then."""
    both = then.keys() & now.keys()
    return {where for where in both if now[where].start < then[where].start or now[where].end < then[where].end}
