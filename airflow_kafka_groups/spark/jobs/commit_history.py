"""Find the last commit of each group: ``spark-submit commit_history.py --kafka-properties … --output …``.

Decodes ``__consumer_offsets``, and writes the newest commit of each group, topic and partition, and for each group
since when it is quiet, without any snapshot history. It changes nothing in Kafka and joins no group. The last line on
stdout is the summary as JSON. Exit code 0: read; 1: the job failed; 2: invalid argument.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

if find_spec("airflow_kafka_groups") is None:  # neither installed nor in --py-files: submitted from a checkout
    sys.path.extend(str(root) for root in Path(__file__).resolve().parents if (root / "airflow_kafka_groups").is_dir())

from airflow_kafka_groups.spark.errors import ArgumentError, JobError
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.offsets import Range
from airflow_kafka_groups.spark.kafka.properties import OPTION, load_properties
from airflow_kafka_groups.spark.kafka.reader import read_ranges
from airflow_kafka_groups.spark.offsets_topic.scan import CORRUPT, FUTURE, RECORDS, scan
from airflow_kafka_groups.spark.offsets_topic.tables import commits, groups
from airflow_kafka_groups.spark.preflight import fit_shuffles, prepare_kafka
from airflow_kafka_groups.spark.program import run_program
from airflow_kafka_groups.spark.storage import Storage, require_shared

JOB = "commit_history"
TOPIC = "__consumer_offsets"
# Spark's Kafka source silently omits internal topics, unless it uses its deprecated offset fetching.
_INTERNAL_TOPICS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_RIGHTS = (
    f"The user needs Describe and Read on the topic {TOPIC}, and Read on groups whose names begin with spark-kafka- "
    "(managed clusters often refuse the first: snapshots then tell when a group moved)"
)


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line. An error ends the program with exit code 2 and a remedy.

    :param argv: arguments without the program's name. Default: those of the process.
    """
    parser = argparse.ArgumentParser(prog=JOB, description=(__doc__ or "").partition(":")[0] + ".")
    parser.add_argument(OPTION, required=True, metavar="FILE", help="properties of Kafka's Java client")
    parser.add_argument("--output", required=True, help="folder of the tables commits and groups, replaced if there")
    parser.add_argument("--summary", help="file of the summary (default OUTPUT/summary.json)")
    arguments = parser.parse_args(argv)
    arguments.output = arguments.output.rstrip("/")
    if not arguments.output or any(letter in arguments.output for letter in "*?[]{}\\"):
        problem = ArgumentError("--output", arguments.output, "give a folder or URI without any of * ? [ ] { } \\")
        parser.error(str(problem))
    return arguments


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Read and decode the log, write the tables and the summary, and return the summary.

    :param spark: the session; it is set to UTC.
    :param arguments: the result of ``parse_arguments``.
    """
    started = time.monotonic()
    warnings = prepare_kafka(spark, arrow_on_workers=True)
    properties = load_properties(spark, arguments.kafka_properties)
    summary_path = arguments.summary or f"{arguments.output}/summary.json"
    with KafkaAdmin(spark, properties) as admin:
        cluster_id = admin.cluster_id()
        partitions = admin.partitions([TOPIC]).get(TOPIC)
        if not partitions:
            raise JobError(
                f"the cluster shows no topic {TOPIC}: nothing was ever committed, or it is hidden. {_RIGHTS}"
            )
        ends = admin.log_ends(partitions)
    require_shared(spark, arguments.output)
    Storage(spark, summary_path).delete_file(summary_path)
    ranges = [Range(where, log.start, log.end) for where, log in ends.items()]
    offsets = sum(each.offsets for each in ranges)
    fit_shuffles(spark, offsets)
    with _internal_topics(spark):
        scanned = read_ranges(spark, properties, ranges).transform(scan()).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = _counts(scanned, offsets)
            written = {
                name: _write(scanned.transform(table()), f"{arguments.output}/{name}")
                for name, table in (("commits", commits), ("groups", groups))
            }
        finally:
            scanned.unpersist()
    warnings += _doubts(counts)
    for warning in warnings:
        print(f"{JOB}: warning: {warning}", file=sys.stderr)
    summary = {
        "job": JOB,
        "kafka_cluster_id": cluster_id,
        "partitions": len(partitions),
        "offsets": offsets,
        "records": counts,
        **_extent(written["commits"], written["groups"]),
        "output": arguments.output,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }
    Storage(spark, summary_path).write_text(summary_path, json.dumps(summary, indent=1) + "\n")
    return summary


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job in its own session and return the exit code.

    :param argv: arguments without the program's name. Default: those of the process.
    """
    return run_program(JOB, run, parse_arguments(argv), failed=f"Nothing was written that counts. {_RIGHTS}")


@contextmanager
def _internal_topics(spark: SparkSession) -> Iterator[None]:
    """Let Spark's source read internal topics. The setting is restored because it affects other reads."""
    before = spark.conf.get(_INTERNAL_TOPICS, None)
    spark.conf.set(_INTERNAL_TOPICS, "true")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_INTERNAL_TOPICS)
        else:
            spark.conf.set(_INTERNAL_TOPICS, before)


def _counts(scanned: DataFrame, offsets: int) -> dict[str, int]:
    """Add up the tasks' counts. A log with offsets but no record was not readable."""
    rows = scanned.where("kind = 'count'").groupBy("name").agg(F.sum("number").alias("number")).collect()
    counts = {row["name"]: row["number"] for row in sorted(rows) if row["number"]}
    if offsets and not counts.get(RECORDS):
        raise JobError(f"{TOPIC} has {offsets} offsets and Spark read no record of it. {_RIGHTS}")
    return {RECORDS: 0, CORRUPT: 0, FUTURE: 0, **counts}


def _doubts(counts: dict[str, int]) -> list[str]:
    doubts = []
    if counts[CORRUPT]:
        doubts.append(f"{counts[CORRUPT]} record(s) could not be decoded: groups or commits may be missing")
    if counts[FUTURE]:
        doubts.append(
            f"{counts[FUTURE]} record(s) are of a version that this job does not know: groups or commits are missing. "
            "Use a version of this job that knows the brokers' version"
        )
    return doubts


def _write(rows: DataFrame, output: str) -> DataFrame:
    rows.write.mode("overwrite").parquet(output)
    return rows.sparkSession.read.parquet(output)


def _extent(committed: DataFrame, found: DataFrame) -> dict[str, Any]:
    times = [
        F.date_format(when, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'") for when in (F.min("committed_at"), F.max("committed_at"))
    ]
    row = committed.agg(F.count("*"), *times).collect()[0]
    quiet = found.agg(F.count("*"), F.count("quiet_since")).collect()[0]
    return {
        "commits": row[0],
        "oldest_commit": row[1],
        "newest_commit": row[2],
        "groups": quiet[0],
        "quiet_groups": quiet[1],
    }


if __name__ == "__main__":
    sys.exit(main())
