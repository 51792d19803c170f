"""Topics that were deleted and created again since a snapshot: its offsets mean other records now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.spark.kafka.offsets import LogEnds, Partition


def with_other_ids(ids: Mapping[str, str], others: Mapping[str, str]) -> set[str]:
    """Return the topics that have another id in one of two readings than in the other."""
    return {topic for topic in ids.keys() & others.keys() if ids[topic] != others[topic]}


def recreated_since(
    snapshot: SnapshotManifest, rows: DataFrame, ids: Mapping[str, str], logs: Mapping[Partition, LogEnds]
) -> set[Partition]:
    """Return the partitions that are not those of a snapshot: the topic has another id, or its log went backwards.

    :param rows: the snapshot's rows.
    :param ids: the topics' ids now; a snapshot has those of some topics only.
    :param logs: where the logs begin and end now.
    """
    others = with_other_ids((snapshot.view or {}).get("topic_ids") or {}, ids)
    return {where for where in logs if where.topic in others} | went_backwards(_logs_of(rows, logs), logs)


def went_backwards(then: Mapping[Partition, LogEnds], now: Mapping[Partition, LogEnds]) -> set[Partition]:
    """Return the partitions whose log begins or ends before where it did then."""
    both = then.keys() & now.keys()
    return {where for where in both if now[where].start < then[where].start or now[where].end < then[where].end}


def _logs_of(rows: DataFrame, wanted: Collection[Partition]) -> dict[Partition, LogEnds]:
    """Return the logs of these partitions only: a snapshot may have a million, too many for the driver."""
    if not wanted:
        return {}
    asked = F.broadcast(rows.sparkSession.createDataFrame(list(wanted), "topic string, partition int"))
    known = rows.where("log_start IS NOT NULL AND log_end IS NOT NULL").join(asked, ["topic", "partition"], "left_semi")
    found = known.groupBy("topic", "partition").agg(F.max("log_start").alias("first"), F.max("log_end").alias("last"))
    return {Partition(row["topic"], row["partition"]): LogEnds(row["first"], row["last"]) for row in found.collect()}
