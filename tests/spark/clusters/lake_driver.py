"""Run the jobs twice on tables of a lake, in a session of its own: ``lake_driver BASE DATABASE SETTINGS``.

``SETTINGS`` is JSON. The last line on stdout has the rows of each table by partition, and the format of each.
"""

import json
import re
import sys
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import ARCHIVE_SCHEMA, COMMIT_GROUP_SCHEMA, COMMIT_SCHEMA
from airflow_kafka_groups.spark.jobs import judge_staleness, lag_report, roll_up
from airflow_kafka_groups.spark.jobs.archive_backlog import check_archive, of_groups, read_archive, write_archive
from airflow_kafka_groups.spark.jobs.process_group_backlog import OUTPUT_MODES, BacklogOutput
from airflow_kafka_groups.spark.kafka.reader import RECORD_SCHEMA
from airflow_kafka_groups.spark.session import SPARK_ERRORS
from airflow_kafka_groups.spark.unread.ranges import Backlog, BacklogContext
from tests.pages import shown_parts

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
BY = {
    "verdicts": "snapshot_id",
    "observations": "snapshot_id",
    "lag": "snapshot_id",
    "days": "day",
    "commits": "run_id",
    "groups": "run_id",
    "archives": "archive_id",
}
HIDDEN = ("truncate(8, snapshot_id), cluster", "truncate(1, group_id)", "cluster, snapshot_id, bucket(8, group_id)")
"""Partitions by functions of columns: the first ones have the rows of other runs, too, the last one splits a run's."""


def main(base: str, database: str, settings: dict[str, str]) -> None:
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {database}")
    given = ["--base", base, "--cluster", "c"]
    for _ in range(2):
        more = ["--observations-table", f"{database}.observations", "--min-idle-seconds", "3600"]
        asked = [*given, "--table", f"{database}.verdicts", *more]
        judge_staleness.run(spark, judge_staleness.parse_arguments(asked))
        lag_report.run(spark, lag_report.parse_arguments([*given, "--table", f"{database}.lag"]))
        roll_up.run(spark, roll_up.parse_arguments([*given, "--table", f"{database}.days", "--days", "36500"]))
        keys = ("kafka_cluster_id", "run_id")
        commit = ("g", "t", 0, 5, None, "", NOW, None, NOW, 3)
        commits = CatalogueTable(spark, f"{database}.commits", COMMIT_SCHEMA, keys)
        commits.replace("kafka-1", spark.createDataFrame([commit], COMMIT_SCHEMA), {"r": 1})
        group = ("g", "classic", "consumer", "range", 3, None, 0, NOW, 1, NOW, NOW, NOW, NOW)
        groups = CatalogueTable(spark, f"{database}.groups", COMMIT_GROUP_SCHEMA, keys)
        groups.replace("kafka-1", spark.createDataFrame([group], COMMIT_GROUP_SCHEMA), {"r": 1})
        record = ("g", "t", 0, 7, NOW, 0, b"k", b"v", [("h", b"1"), ("h", None)])
        archives = CatalogueTable(spark, f"{database}.archives", ARCHIVE_SCHEMA, ("cluster", "archive_id"))
        archives.replace("c", spark.createDataFrame([record], ARCHIVE_SCHEMA), {"p": 1})
    found: dict[str, Any] = {"evolved": evolved(spark, database), "widened": widened(spark, database)}
    if settings.get("spark.sql.sources.default") == "delta":
        found["merged"] = merged(spark)
        found["archive"] = archived_to_delta(spark, f"{base}/archive")
        found["repeated"] = [repeated_in_delta(spark, f"{base}/{mode}", mode) for mode in OUTPUT_MODES]
        # As the next session finds it, if there is no metastore.
        spark.sql(f"CREATE DATABASE forgotten LOCATION '{settings['spark.sql.warehouse.dir']}/kafka.db'")
        found["refused"] = [why_refused(spark, "forgotten.archives", ARCHIVE_SCHEMA)]
    else:
        found["refused"] = [hidden(spark, f"{database}.hidden", by) for by in HIDDEN]
    for table, by in BY.items():
        counts = {row[by]: row["count"] for row in spark.table(f"{database}.{table}").groupBy(by).count().collect()}
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {database}.{table}").collect()
        provider = next(row["data_type"] for row in described if row["col_name"] == "Provider")
        found[table] = {"rows": counts, "format": provider.lower()}
    (archived,) = spark.table(f"{database}.archives").collect()
    found["headers"] = [
        [header["key"], header["value"] and bytes(header["value"]).decode()] for header in archived["headers"]
    ]
    spark.stop()
    print(json.dumps(found))


def evolved(spark: SparkSession, database: str) -> list[list[Any]]:
    """Return the rows of a table that two versions of a job and a user have shaped, by their names."""
    first = StructType().add("group_id", "string", nullable=False).add("lag", "long")
    later = StructType().add("rate", "double").add("lag", "long").add("group_id", "string", nullable=False)
    table = f"{database}.evolving"
    for snapshot, schema, row in (("s1", first, ("a", 1)), ("s2", later, (0.5, 2, "b")), ("s3", first, ("c", 3))):
        CatalogueTable(spark, table, schema).replace("c", spark.createDataFrame([row], schema), {snapshot: 1})
        if snapshot == "s1":
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS (note STRING)")
    rows = spark.table(table).orderBy("snapshot_id").select("group_id", "lag", "rate", "note").collect()
    return [list(row) for row in rows]


def widened(spark: SparkSession, database: str) -> list[int]:
    """Return the lags in a table whose column had another type, until the statement ran that the refusal names."""
    name, columns = f"{database}.narrow", StructType().add("group_id", "string").add("lag", "long")
    described = "group_id STRING, lag INT, cluster STRING, snapshot_id STRING"
    spark.sql(f"CREATE TABLE {name} ({described}) PARTITIONED BY (cluster, snapshot_id)")
    spark.sql(f"INSERT INTO {name} VALUES ('a', 1, 'c', 's1')")
    change, start_again = re.findall(r"(ALTER TABLE .+?)(?= or, if its|: the job)", why_refused(spark, name, columns))
    try:
        spark.sql(change)
    except SPARK_ERRORS:  # of Delta, without its property for that
        spark.sql(start_again.partition("if its format cannot, ")[2] or start_again)
    rows = spark.createDataFrame([("a", 2**40)], columns)
    CatalogueTable(spark, name, columns).replace("c", rows, {"s2": 1})
    return sorted(row["lag"] for row in spark.table(name).collect())


def hidden(spark: SparkSession, name: str, by: str) -> str:
    """Create a table of Iceberg's with such partitions, and return why it is refused."""
    columns = "group_id STRING, cluster STRING, snapshot_id STRING"
    spark.sql(f"CREATE OR REPLACE TABLE {name} ({columns}) USING iceberg PARTITIONED BY ({by})")
    return why_refused(spark, name, StructType().add("group_id", "string"))


def why_refused(spark: SparkSession, name: str, columns: StructType) -> str:
    """Return why a table is refused, empty if it is not."""
    try:
        CatalogueTable(spark, name, columns)
    except JobError as exc:
        return str(exc)
    return ""


def archived_to_delta(spark: SparkSession, output: str) -> int:
    """Archive a record to a Delta table, read it back, and return what a table of archives gets of it."""
    wanted = {"g": Backlog(ranges=(Range(Partition("t", 0), 7, 8),), ends={})}
    record = (b"k", b"v", "t", 0, 7, NOW, 0, [("h", b"1")])
    write_archive(of_groups(spark.createDataFrame([record], RECORD_SCHEMA), wanted), output, "delta")
    records: int = check_archive(spark, output, "delta", wanted)["records"]
    assert read_archive(spark, output, "delta").select(*ARCHIVE_SCHEMA.names).count() == records
    return records


def merged(spark: SparkSession) -> list[list[Any]]:
    """Return what a table of the newest value of each key has after slices of which one was repeated, late."""
    names: dict[str, Any] = {"F": F}
    exec(compile(shown_parts()["merged_example"], "merged_example", "exec"), names)
    spark.sql("CREATE TABLE kafka.newest (key BINARY, value BINARY, last BIGINT)")
    slices = [[(b"a", b"1", 0), (b"b", b"2", 1), (b"a", b"3", 2)], [(b"a", b"4", 3), (b"c", b"5", 4)]]
    for number in (0, 0, 1, 0):  # the last one is of a driver that was replaced
        rows: list[Any] = [(key, value, "t", 0, offset, NOW, 0, []) for key, value, offset in slices[number]]
        names["newest"](spark.createDataFrame(rows, RECORD_SCHEMA))
    found = spark.table("kafka.newest").orderBy("key").collect()
    return [[bytes(row["key"]).decode(), bytes(row["value"]).decode(), row["last"]] for row in found]


def repeated_in_delta(spark: SparkSession, output: str, mode: str) -> list[int]:
    """Write slices of a backlog as drivers do that are killed before they record it, and return the offsets there."""
    for slice_, attempt in ((1, 1), (1, 2), (2, 2), (2, 3), (1, 1)):  # the last one is of a driver that was replaced
        context = BacklogContext(
            run_id="r",
            group_id="g",
            kafka_cluster_id="kafka-1",
            slice=slice_,
            slices=2,
            attempt=attempt,
            ranges=(Range(Partition("t", 0), slice_, slice_ + 1),),
            repeats=attempt > slice_,
        )
        BacklogOutput(spark, output, "delta", mode).write(spark.range(slice_, slice_ + 1), context)
    return sorted(row["id"] for row in spark.read.format("delta").load(output).collect())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
