"""The archive of records that groups planned for deletion never read: groups, ranges, rows, and counts.

Groups that read the same partition share one read: a record is read once, and written for every group whose range
contains it. The counts are checked against the offsets: a range of 100 offsets has 100 records, unless compaction
removed some or transactions left markers; these two cannot be distinguished. That retention removed none is verified by
reading the log start again afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.spark.frames import ARCHIVE_SCHEMA, WHOLE, read_stored
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.session import settings_of
from airflow_kafka_groups.spark.unread.ranges import Backlog, parse_ranges, range_rows
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.formats import check_format, digest_of

# Neither "end" nor "offset" may be bare in a session with spark.sql.ansi.enforceReservedKeywords.
_RANGE_SCHEMA = "group_id string, topic string, partition int, range_start long, range_end long"
_COUNTS = """
SELECT group_id, topic, partition,
       count(*) AS records, count(DISTINCT `offset`) AS offsets, min(`offset`) AS first, max(`offset`) AS last
FROM {written}
GROUP BY group_id, topic, partition
"""
_COMPACTED = "compaction or transaction markers"
NEVER_OVERWRITTEN = "an archive is never overwritten. Give another --output"
_FOLDERS = ("topic", "day")
# A producer's clock may say anything: what is no day of people's has one folder.
_DAY = """
CASE WHEN timestamp >= TIMESTAMP '1970-01-01' AND timestamp < TIMESTAMP '3000-01-01'
     THEN date_format(timestamp, 'yyyy-MM-dd') ELSE 'unknown' END AS day
"""
_SIZE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128MB",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}
"""Settings by which each task writes some 128 MB of one topic and day, or several small ones."""


def read_plan(spark: SparkSession, folder: str, plan_id: str) -> tuple[set[str], str]:
    """Return the groups of a deletion plan and the id of the snapshot they were judged by. An edited one is refused."""
    if not paths.is_id(plan_id):
        raise ArgumentError("--plan-id", plan_id, f"give an id as {paths.ID_EXAMPLE}")
    storage = storage_of(spark, folder)
    path, body = (f"{folder}/{paths.PLANS}/{plan_id}.{ending}" for ending in ("json", "parquet"))
    text = storage.read_text(path)
    try:
        plan = json.loads(text)
        check_format(plan)
        if digest_of(plan) != plan["digest"]:
            raise JobError(f"{path} was changed after it was made: plan again")
        if (plan["plan_id"], plan["cluster"]) != (plan_id, folder.rpartition("/")[2]):
            raise JobError(f"{path} is plan {plan['plan_id']} of cluster {plan['cluster']}: it was copied or renamed")
        snapshot_id = plan["snapshot_id"]
        sha256 = plan["body"]["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise JobError(f"{path} is not a plan ({type(exc).__name__}: {exc})") from exc
    if hashlib.sha256(storage.read_bytes(body)).hexdigest() != sha256:
        raise JobError(f"{body} does not hold the groups of the plan (its SHA-256 differs): plan again")
    rows = read_stored(spark).parquet(body).where("place is not null").select("group_id").collect()
    return {row["group_id"] for row in rows}, snapshot_id


def shared_ranges(backlogs: Mapping[str, Backlog]) -> list[Range]:
    """Return one range per partition that contains the ranges of all groups."""
    found: dict[Partition, Range] = {}
    for _, each in _ranges(backlogs):
        known = found.get(each.partition, each)
        found[each.partition] = Range(each.partition, min(known.start, each.start), max(known.end, each.end))
    return sorted(found.values())


def of_groups(records: DataFrame, backlogs: Mapping[str, Backlog]) -> DataFrame:
    """Return each record once for every group whose range contains it."""
    rows = [(group_id, *each.partition, each.start, each.end) for group_id, each in _ranges(backlogs)]
    ranges = F.broadcast(records.sparkSession.createDataFrame(rows, _RANGE_SCHEMA))
    joined = records.join(ranges, ["topic", "partition"]).where("`offset` >= range_start AND `offset` < range_end")
    return joined.withColumnRenamed("timestampType", "timestamp_type").select(*ARCHIVE_SCHEMA.names)


def write_archive(archive: DataFrame, output: str, file_format: str) -> None:
    """Write the rows, in a folder for each topic and day (UTC) of their timestamps, in files of a sensible size.

    :param output: a folder that must not exist.
    """
    with settings_of(archive.sparkSession, _SIZE):
        rows = archive.selectExpr("*", _DAY).hint("rebalance", *_FOLDERS)
        writer = rows.write.format(file_format).mode("errorifexists").partitionBy(*_FOLDERS)
        if file_format == "parquet":
            writer = writer.option("compression", "zstd")
        writer.save(output)


def read_archive(spark: SparkSession, output: str, file_format: str) -> DataFrame:
    """Read an archive; a file that cannot be read fails the query."""
    reader = spark.read.format(file_format).options(**WHOLE)
    # Delta's tables accept no schema.
    return (reader if file_format.lower() == "delta" else reader.schema(ARCHIVE_SCHEMA)).load(output)


def check_archive(
    spark: SparkSession, output: str, file_format: str, backlogs: Mapping[str, Backlog], compacted: Collection[str]
) -> dict[str, Any]:
    """Read the archive back, compare it with the offsets, and return its numbers for a summary.

    :param compacted: topics whose clean-up policy includes compaction.

    Raises ``JobError`` if it has rows of other groups or partitions, records outside their range, or duplicate records.
    """
    written = read_archive(spark, output, file_format)
    counted = spark.sql(_COUNTS, written=written).collect()
    found = {(row["group_id"], Partition(row["topic"], row["partition"])): row for row in counted}
    partitions = []
    for group_id, each in _ranges(backlogs):
        row = found.pop((group_id, each.partition), None)
        if row is not None:
            _check_range(group_id, each, row)
        records = 0 if row is None else row["records"]
        why = None
        if missing := each.offsets - records:
            is_compacted = each.partition.topic in compacted
            why = _COMPACTED if is_compacted else "transaction markers or aborted records"
        (offsets,) = range_rows([each])
        partitions.append({"group_id": group_id, **offsets, "records": records, "without_record": missing, "why": why})
    if found:
        group_id, where = sorted(found)[0]
        raise JobError(f"{output} has rows of group {group_id!r}, {where}, which were not asked for")
    return {
        "offsets": sum(each.offsets for _, each in _ranges(backlogs)),
        "records": sum(each["records"] for each in partitions),
        "exact": not any(each["without_record"] for each in partitions),
        "offsets_without_record": sum(each["without_record"] for each in partitions),
        "partitions": partitions,
    }


def archive_there(spark: SparkSession, path: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary of an archive of the same request, ``None`` if there is no summary.

    :param path: the summary.
    :param request: what decides about the content of the archive, as the summary has it.

    Raises ``JobError`` if the summary is of another request, or its archive is not what it says.
    """
    if (text := storage_of(spark, path).read(path)) is None:
        return None
    try:
        there: dict[str, Any] = json.loads(text)
        asked = there["request"]
        if other := sorted(name for name in request if name not in asked or asked[name] != request[name]):
            raise JobError(f"{path} exists, and is of another request (its {', '.join(other)}): {NEVER_OVERWRITTEN}")
        rows: dict[str, list[Any]] = {}
        for each in there["partitions"]:
            rows.setdefault(each["group_id"], []).append(each)
        backlogs = {group_id: Backlog(ranges=parse_ranges(of_group), ends={}) for group_id, of_group in rows.items()}
        compacted = {each["topic"] for each in there["partitions"] if each["why"] == _COMPACTED}
        found = check_archive(spark, there["output"], request["format"], backlogs, compacted)
        differ = found["partitions"] != there["partitions"] or found["records"] != there["records"]
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise JobError(
            f"{path} exists, and is no summary of an archive ({type(exc).__name__}): {NEVER_OVERWRITTEN}"
        ) from exc
    if differ:
        raise JobError(f"the archive in {there['output']} is not what {path} says: {NEVER_OVERWRITTEN}")
    return there


def _ranges(backlogs: Mapping[str, Backlog]) -> Iterable[tuple[str, Range]]:
    return ((group_id, each) for group_id in sorted(backlogs) for each in backlogs[group_id].ranges)


def _check_range(group_id: str, wanted: Range, row: Any) -> None:
    if row["first"] < wanted.start or row["last"] >= wanted.end or row["records"] != row["offsets"]:
        raise JobError(
            f"the archive of group {group_id!r}, {wanted.partition} has {row['records']} records with "
            f"{row['offsets']} offsets from {row['first']} to {row['last']}, and [{wanted.start}, {wanted.end}) was "
            "asked for: it cannot be trusted. Delete it and run the job again"
        )
