"""Archive unread records of groups to be deleted.

Run it before the groups are deleted. The summary is also written next to the archive, as the last file: an archive
without it is incomplete.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError, FileExistsAlreadyError, JobError
from airflow_kafka_groups.observe.history.fleet import check_cluster
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition, Range
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import ARCHIVE_SCHEMA, WHOLE, read_stored
from airflow_kafka_groups.spark.hadoop_storage import require_shared, storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.kafka.reader import read_ranges
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, add_base, add_reading, add_table, folder_path
from airflow_kafka_groups.spark.program import Program, logged
from airflow_kafka_groups.spark.session import prepare_kafka, settings_of
from airflow_kafka_groups.spark.snapshots import logs_since, read_snapshot, rows_of_groups, with_other_ids
from airflow_kafka_groups.spark.unread.group import commits_in_snapshot
from airflow_kafka_groups.spark.unread.ranges import Backlog, BacklogPolicy, parse_ranges, plan_backlog, range_rows
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.formats import FORMAT, check_format, digest_of

JOB = "archive_backlog"
_ARCHIVES = paths.TableName.ARCHIVES
_POLICY = ("on_data_loss", "on_beyond_end", "on_missing_topic")  # only partitions with a commit are archived
_REQUEST = ("plan_id", "format", "table", "isolation_level", *_POLICY, "require_exact")
_THERE = (
    "{} is of the same request, and its archive is complete: nothing was archived now. What was written to the topics "
    "since is not in it: to archive that, too, give another --output"
)
_HIDDEN = (
    "{} unread offsets are behind the beginning of an open transaction and are not archived. Archive again when it has "
    "ended, or with --isolation-level read_uncommitted"
)

_WITHOUT_COMMIT = (
    "{} time(s), a group has no commit in a partition with records, and has one in another partition of the topic, as "
    "if it was added later (first: group {!r}, {}). These records are not archived"
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(KAFKA_PROPERTIES, required=True, metavar="FILE", help="properties of Kafka's Java client; holds all secrets")
    add_base(parser)
    add("--cluster", required=True, help="name of the cluster, as the snapshots have it")
    add("--plan-id", help="archive the groups of this deletion plan")
    add("--group", action="append", default=[], help="archive this group; repeatable")
    add("--snapshot-id", help="take the offsets from this snapshot (default: the plan's, or the newest)")
    add("--output", type=folder_path, help="folder that must not exist (default in BASE/CLUSTER/tables/archives)")
    add_table(parser, "the records")
    add("--format", default="parquet", help="format of the archive (default parquet)")
    add_reading(parser, _POLICY)
    add("--require-exact", action="store_true", help="fail if any offset has no record")


def _check(arguments: argparse.Namespace) -> None:
    check_cluster(arguments.cluster)
    if bool(arguments.plan_id) == bool(arguments.group):
        raise ArgumentError("--plan-id", arguments.plan_id, "give either a plan or groups (--group)")
    if arguments.output is None and arguments.format.lower() != "parquet":
        remedy = f"give a folder for an archive as {arguments.format}: the table archives is Parquet, for all readers"
        raise ArgumentError("--output", None, remedy)


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Archive, verify and write the summary; return it."""
    started = time.monotonic()
    warnings = logged(prepare_kafka(spark))
    properties = load_properties(spark, arguments.kafka_properties)
    folder = f"{arguments.base}/{arguments.cluster}"
    group_ids, snapshot_id = set(arguments.group), arguments.snapshot_id
    if arguments.plan_id:
        group_ids, planned = read_plan(spark, folder, arguments.plan_id)
        snapshot_id = snapshot_id or planned
    history = find_history(
        storage_of(spark, folder),
        arguments.base,
        arguments.cluster,
        snapshot_id=snapshot_id,
        max_snapshots=1,
        of_named=True,
    )
    snapshot = history.judged
    of_groups_only = archive_name(snapshot.snapshot_id, group_ids)
    name = arguments.plan_id or of_groups_only
    request = {"archive": of_groups_only, **{option: getattr(arguments, option) for option in _REQUEST}}
    output, summary_path = _places(arguments.output, folder, name)
    there = archive_there(spark, summary_path, request)
    if there is None:
        if storage_of(spark, output).exists(output):
            raise JobError(f"{output} exists: {NEVER_OVERWRITTEN}")
        require_shared(spark, output)
    keys = ("cluster", "archive_id")
    table = CatalogueTable(spark, arguments.table, ARCHIVE_SCHEMA, keys) if arguments.table else None
    if there is not None:
        if table:
            written = read_archive(spark, there["output"], arguments.format)
            table.replace(arguments.cluster, written, {name: there["records"]})
        lacks = [warning for warning in there["warnings"] if warning not in warnings]  # whoever died told nobody
        return {**there, "warnings": warnings + logged([*lacks, _THERE.format(summary_path)])}
    rows, _ = read_snapshot(spark, history)
    groups = commits_in_snapshot(rows_of_groups(rows, group_ids), group_ids)
    with KafkaAdmin(spark, properties) as admin:
        admin.cluster_id(snapshot.kafka_cluster_id, "the snapshot is of")
        committed = {where for commits in groups.values() for where in commits}
        logs, recreated, ids = logs_since(admin, snapshot, rows, committed, groups)
        backlogs = _plan(admin, arguments, groups, logs, recreated)
        hidden = sum(backlog.hidden for backlog in backlogs.values())
        without = _without_commit(admin, groups)
        ranges = shared_ranges(backlogs)
        records = read_ranges(spark, properties, ranges, isolation_level=arguments.isolation_level)
        write_archive(of_groups(records, backlogs), output, arguments.format)
        counts = check_archive(spark, output, arguments.format, backlogs)
        _check_nothing_expired(admin, ranges, ids)
    lacks = [_HIDDEN.format(hidden)] if hidden else []
    warnings += logged([*lacks, *([_WITHOUT_COMMIT.format(len(without), *without[0])] if without else [])])
    decided = sorted({what for backlog in backlogs.values() for what in backlog.decided})
    summary = {
        "job": JOB,
        "format": FORMAT,
        "cluster": arguments.cluster,
        "kafka_cluster_id": snapshot.kafka_cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "plan_id": arguments.plan_id,
        "groups": len(groups),
        "request": request,
        "isolation_level": arguments.isolation_level,
        **counts,
        "exact": counts["exact"] and not (hidden or decided),
        "offsets_behind_open_transaction": hidden,
        "partitions_without_commit": len(without),
        "offsets_lost": sum(sum(backlog.lost.values()) for backlog in backlogs.values()),
        "decided": decided,
        "output": output,
        "table": arguments.table,
        "file_format": arguments.format,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }
    if arguments.require_exact and not summary["exact"]:
        also = f"; {len(decided)} partition(s) were decided on, first {decided[0]}" if decided else ""
        raise JobError(
            f"{summary['offsets_without_record'] + hidden} offsets have no record (compaction, or transactions){also}, "
            f"and exact counts are required. The archive in {output} has no summary, and so does not count"
        )
    if table:
        written = read_archive(spark, output, arguments.format)
        table.replace(arguments.cluster, written, {name: summary["records"]})
    try:
        storage_of(spark, summary_path).create(summary_path, (json.dumps(summary, indent=1) + "\n").encode())
    except FileExistsAlreadyError:
        raise JobError(
            f"{summary_path} exists: another job has archived the same meanwhile, and an archive is never overwritten. "
            f"The archive in {output} has no summary, and so does not count"
        ) from None
    return summary


def _places(asked: str | None, folder: str, name: str) -> tuple[str, str]:
    # Each attempt has its own folder, so an incomplete one does not stop a retry; the summary names the valid one.
    output = asked or f"{folder}/{paths.table(_ARCHIVES)}/archive_id={name}-{uuid.uuid4().hex[:8]}"
    return output, f"{output}.json" if asked else f"{folder}/{paths.summary(_ARCHIVES, name)}"


def archive_name(snapshot_id: str, group_ids: Collection[str]) -> str:
    """Return the name of an archive of chosen groups: others of the same snapshot have another one."""
    return f"{snapshot_id}-{hashlib.sha256(json.dumps(sorted(group_ids)).encode()).hexdigest()[:16]}"


def _plan(
    admin: KafkaAdmin,
    arguments: argparse.Namespace,
    groups: Mapping[str, Mapping[Partition, Commit]],
    logs: Mapping[Partition, LogEnds],
    recreated: Mapping[Partition, str],
) -> dict[str, Backlog]:
    policy = BacklogPolicy(**{name: getattr(arguments, name) for name in _POLICY})
    stable: dict[Partition, int] = {}
    if arguments.isolation_level == "read_committed":
        stable = {where: log.end for where, log in admin.log_ends(logs, read_committed=True).items()}
    return {
        group_id: plan_backlog(
            commits,
            {where: logs[where] for where in commits if where in logs},
            policy,
            stable=stable,
            missing=commits.keys() - logs.keys(),
            recreated=recreated,
        )
        for group_id, commits in groups.items()
    }


def _without_commit(admin: KafkaAdmin, groups: Mapping[str, Mapping[Partition, Commit]]) -> list[tuple[str, Partition]]:
    """Return the groups that have no commit in a partition with records, though they have one in its topic."""
    of_topic = defaultdict[str, list[Partition]](list)
    for where in admin.partitions({where.topic for commits in groups.values() for where in commits}):
        of_topic[where.topic].append(where)
    found = sorted(
        (group_id, where)
        for group_id, commits in groups.items()
        for topic in {where.topic for where in commits}
        for where in of_topic[topic]
        if where not in commits
    )
    logs = admin.log_ends({where for _, where in found}, read_committed=False)
    return [(group_id, where) for group_id, where in found if logs[where].end > logs[where].start]


def _check_nothing_expired(admin: KafkaAdmin, ranges: Sequence[Range], ids: Mapping[str, str]) -> None:
    if other := with_other_ids(ids, admin.topic_ids({each.partition.topic for each in ranges})):
        raise JobError(
            f"topic {min(other)!r} was recreated while it was read. Take a new snapshot, and run the job again"
        )
    logs = admin.log_ends([each.partition for each in ranges], read_committed=False)
    for each in ranges:
        if logs[each.partition].start > each.start:
            raise JobError(
                f"retention removed records of {each.partition} while they were read: its log starts at "
                f"{logs[each.partition].start}, and {each.start} was asked for. Run the job again"
            )


# Neither "end" nor "offset" may be bare in a session with spark.sql.ansi.enforceReservedKeywords.
_RANGE_SCHEMA = "group_id string, topic string, partition int, range_start long, range_end long"
_COUNTS = """
SELECT group_id, topic, partition,
       count(*) AS records, count(DISTINCT `offset`) AS offsets, min(`offset`) AS first, max(`offset`) AS last
FROM {written}
GROUP BY group_id, topic, partition
"""
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
    """Return each record, which is read once, for every group whose range contains it."""
    rows = [(group_id, *each.partition, each.start, each.end) for group_id, each in _ranges(backlogs)]
    ranges = F.broadcast(records.sparkSession.createDataFrame(rows, _RANGE_SCHEMA))
    joined = records.join(ranges, ["topic", "partition"]).where("`offset` >= range_start AND `offset` < range_end")
    return joined.withColumnRenamed("timestampType", "timestamp_type").select(*ARCHIVE_SCHEMA.names)


def write_archive(archive: DataFrame, output: str, file_format: str) -> None:
    """Write the rows to a new folder, in one for each topic and day (UTC), in files of a sensible size."""
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
    spark: SparkSession, output: str, file_format: str, backlogs: Mapping[str, Backlog]
) -> dict[str, Any]:
    """Read the archive back, compare it with the offsets, and return its numbers for a summary.

    Fewer records than offsets are there if compaction removed some or transactions left markers. That retention removed
    none is verified by reading the log start again afterwards.

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
        (offsets,) = range_rows([each])
        counts = {"records": records, "without_record": each.offsets - records}
        partitions.append({"group_id": group_id, **offsets, **counts})
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
        found = check_archive(spark, there["output"], request["format"], backlogs)
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


_program = Program(JOB, __doc__, _add_arguments, _check, run, "The archive is not whole", counted=("partitions",))
parse_arguments, main = _program.parse_arguments, _program.main
