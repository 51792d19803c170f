"""Topics that were deleted and created again since a snapshot: its offsets mean other records now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import TYPE_CHECKING

from airflow_kafka_groups.arrow.offsets import LogEnds, Partition
from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    import pyarrow as pa


def with_other_ids(ids: Mapping[str, str], others: Mapping[str, str]) -> set[str]:
    """Return the topics that have another id in one of two readings than in the other."""
    return {topic for topic in ids.keys() & others.keys() if ids[topic] != others[topic]}


def logs_since(
    admin: KafkaAdmin, snapshot: SnapshotManifest, rows: Iterable[pa.Table], wanted: Set[Partition]
) -> tuple[dict[Partition, LogEnds], set[Partition], dict[str, str]]:
    """Return the logs of partitions as they are now, the partitions that are not a snapshot's, and the topics' ids.

    A partition is not the snapshot's if its topic has another id, or its log went backwards. A snapshot has the ids of
    some topics only.

    :param rows: the snapshot's rows, in parts.
    :param wanted: partitions of the snapshot; those that do not exist any more are left out.
    """
    topics = {where.topic for where in wanted}
    ids = admin.topic_ids(topics)
    logs = admin.log_ends(wanted & admin.partitions(topics), read_committed=False)
    others = with_other_ids((snapshot.view or {}).get("topic_ids") or {}, ids)
    recreated = {where for where in logs if where.topic in others} | went_backwards(_logs_of(rows, logs), logs)
    return logs, recreated, ids


def went_backwards(then: Mapping[Partition, LogEnds], now: Mapping[Partition, LogEnds]) -> set[Partition]:
    """Return the partitions whose log begins or ends before where it did then."""
    both = then.keys() & now.keys()
    return {where for where in both if now[where].start < then[where].start or now[where].end < then[where].end}


def _logs_of(rows: Iterable[pa.Table], wanted: Collection[Partition]) -> dict[Partition, LogEnds]:
    """Return the logs of these partitions only: a snapshot may have a million, too many for objects of Python."""
    import pyarrow as pa  # --help needs none

    found: dict[Partition, LogEnds] = {}
    if not wanted:
        return found
    topics, numbers = zip(*wanted, strict=True)
    asked = pa.table({"topic": pa.array(topics, pa.string()), "partition": pa.array(numbers, pa.int32())})
    for part in rows:
        known = part.select(["topic", "partition", "log_start", "log_end"]).drop_null()
        named = known.set_column(0, "topic", known["topic"].cast(pa.string()))
        logs = named.join(asked, asked.column_names, join_type="left semi").group_by(asked.column_names)
        for each in logs.aggregate([("log_start", "max"), ("log_end", "max")]).to_pylist():
            where = Partition(each["topic"], each["partition"])
            before = found.get(where, LogEnds(each["log_start_max"], each["log_end_max"]))
            found[where] = LogEnds(max(before.start, each["log_start_max"]), max(before.end, each["log_end_max"]))
    return found
