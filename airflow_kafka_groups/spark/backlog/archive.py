"""The archive of records that groups planned for deletion never read: ranges, rows, and counts.

Groups that read the same partition share one read: a record is read once, and written for every group whose range
contains it. The counts are checked against the offsets: a range of 100 offsets has 100 records, unless compaction
removed some or transactions left markers; these two cannot be distinguished. That retention removed none is verified by
reading the log start again afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts.group_states import GroupState
from airflow_kafka_groups.spark.backlog.ranges import Backlog
from airflow_kafka_groups.spark.errors import JobError
from airflow_kafka_groups.spark.kafka.offsets import Commit, Partition, Range
from airflow_kafka_groups.spark.schemas import ARCHIVE_SCHEMA

_RANGE_SCHEMA = "group_id string, topic string, partition int, start long, end long"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """The number of archived records of one group and partition, and the range of its offsets."""

    group_id: str
    range: Range
    records: int
    compacted: bool

    @property
    def missing(self) -> int:
        """The number of offsets without a record."""
        return self.range.offsets - self.records

    def to_json(self) -> dict[str, Any]:
        """Return the count as JSON values."""
        why = None
        if self.missing:
            why = "compaction or transaction markers" if self.compacted else "transaction markers or aborted records"
        return {
            "group_id": self.group_id,
            "topic": self.range.partition.topic,
            "partition": self.range.partition.partition,
            "start": self.range.start,
            "end": self.range.end,
            "records": self.records,
            "without_record": self.missing,
            "why": why,
        }


def read_groups(rows: DataFrame, group_ids: Collection[str]) -> dict[str, dict[Partition, Commit]]:
    """Return the commits of these groups from a snapshot's rows.

    :param group_ids: the groups; each must be in the snapshot, readable and without members.

    Raises ``JobError`` naming the groups for which this is not so.
    """
    if "" in group_ids:
        raise JobError("the group with the empty id cannot be archived: its folder would have no name")
    wanted = rows.sparkSession.createDataFrame([(group_id,) for group_id in group_ids], "group_id string")
    found: dict[str, dict[Partition, Commit]] = {}
    doubts: dict[str, str] = {}
    columns = ("group_id", "state", "topic", "partition", "committed_offset", "error")
    for row in rows.join(F.broadcast(wanted), "group_id").select(*columns).collect():
        commits = found.setdefault(row["group_id"], {})
        if row["error"] is not None:
            doubts[row["group_id"]] = f"could not be read ({row['error']})"
        elif row["state"] != GroupState.EMPTY:
            doubts[row["group_id"]] = f"was {row['state']}, not Empty"
        elif row["topic"] is not None:
            commits[Partition(row["topic"], row["partition"])] = Commit(row["committed_offset"])
    doubts |= {group_id: "is not in the snapshot" for group_id in group_ids if group_id not in found}
    if doubts:
        shown = "; ".join(f"group {group_id!r} {why}" for group_id, why in sorted(doubts.items())[:_SHOWN])
        raise JobError(f"{shown}: nothing was archived. Take a new snapshot, or leave such groups out")
    return found


def shared_ranges(backlogs: Mapping[str, Backlog]) -> list[Range]:
    """Return one range per partition that contains the ranges of all groups."""
    found: dict[Partition, Range] = {}
    for backlog in backlogs.values():
        for each in backlog.ranges:
            known = found.get(each.partition, each)
            found[each.partition] = Range(each.partition, min(known.start, each.start), max(known.end, each.end))
    return sorted(found.values())


def of_groups(records: DataFrame, backlogs: Mapping[str, Backlog]) -> DataFrame:
    """Return each record once for every group whose range contains it."""
    rows = [(group_id, *each.partition, each.start, each.end) for group_id, each in _ranges(backlogs)]
    ranges = F.broadcast(records.sparkSession.createDataFrame(rows, _RANGE_SCHEMA))
    within = (F.col("offset") >= F.col("start")) & (F.col("offset") < F.col("end"))
    joined = records.join(ranges, ["topic", "partition"]).where(within)
    return joined.withColumnRenamed("timestampType", "timestamp_type").select(*ARCHIVE_SCHEMA.names)


def write_archive(archive: DataFrame, output: str, file_format: str) -> None:
    """Write the rows, one folder per group and topic; these columns also remain in the files.

    :param output: a folder that must not exist.
    """
    named = archive.withColumns({"by_group": F.col("group_id"), "by_topic": F.col("topic")})
    writer = named.write.format(file_format).mode("errorifexists").partitionBy("by_group", "by_topic")
    if file_format == "parquet":
        writer = writer.option("compression", "zstd")
    writer.save(output)


def check_archive(
    spark: SparkSession, output: str, file_format: str, backlogs: Mapping[str, Backlog], compacted: Collection[str]
) -> list[PartitionCount]:
    """Read the archive back and compare it with the offsets.

    :param compacted: topics whose clean-up policy includes compaction.

    Raises ``JobError`` if it has rows of other groups or partitions, records outside their range, or duplicate records.
    """
    written = spark.read.format(file_format).schema(ARCHIVE_SCHEMA).load(output)
    found = {
        (row["group_id"], Partition(row["topic"], row["partition"])): row
        for row in written.groupBy("group_id", "topic", "partition")
        .agg(
            F.count("*").alias("records"),
            F.countDistinct("offset").alias("offsets"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
        .collect()
    }
    counts = []
    for group_id, each in _ranges(backlogs):
        row = found.pop((group_id, each.partition), None)
        if row is not None:
            _check_range(group_id, each, row)
        records = 0 if row is None else row["records"]
        counts.append(PartitionCount(group_id, each, records, each.partition.topic in compacted))
    if found:
        group_id, where = sorted(found)[0]
        raise JobError(f"{output} has rows of group {group_id!r}, {where}, which were not asked for")
    return counts


def counts_of(counts: Sequence[PartitionCount]) -> dict[str, Any]:
    """Return the numbers of an archive for a summary, including every partition."""
    gaps = [each for each in counts if each.missing]
    return {
        "offsets": sum(each.range.offsets for each in counts),
        "records": sum(each.records for each in counts),
        "exact": not gaps,
        "offsets_without_record": sum(each.missing for each in gaps),
        "partitions": [each.to_json() for each in counts],
    }


def _ranges(backlogs: Mapping[str, Backlog]) -> Iterable[tuple[str, Range]]:
    return ((group_id, each) for group_id in sorted(backlogs) for each in backlogs[group_id].ranges)


def _check_range(group_id: str, wanted: Range, row: Any) -> None:
    if row["first"] < wanted.start or row["last"] >= wanted.end or row["records"] != row["offsets"]:
        raise JobError(
            f"the archive of group {group_id!r}, {wanted.partition} has {row['records']} records with "
            f"{row['offsets']} offsets from {row['first']} to {row['last']}, and [{wanted.start}, {wanted.end}) was "
            "asked for: it cannot be trusted. Delete it and run the job again"
        )
