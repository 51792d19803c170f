"""The queries of docs/spark/tables.md, as they are there, on tables that the jobs wrote."""

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import ARCHIVE_SCHEMA, COMMIT_SCHEMA, OBSERVATION_SCHEMA
from airflow_kafka_groups.spark.jobs import judge_staleness, lag_report
from tests.histories.judged import judge
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import HOUR, hour, seen, snapshot_id
from tests.pages import DOCS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = (DOCS / "spark" / "tables.md").read_text()
QUERIES = dict(re.findall(r"\n\*\*(.+?)\*\*[^\n]*\n\n```sql\n(.+?)\n```", PAGE, re.DOTALL))
NOW = datetime.now(UTC)
LATER = {"lag_trend", "data_loss_not_before", "nearest", "lag_seconds", "expires_at", "leader_epoch", "headers"}
"""Columns that an earlier version of the tables does not have, here."""
INIT = CatalogueTable.__init__


def of_an_earlier_version(
    table: CatalogueTable, spark: SparkSession, name: str, columns: StructType, *more: Any, **named: Any
) -> None:
    INIT(table, spark, name, StructType([each for each in columns if each.name not in LATER]), *more, **named)


def groups_of(number: int) -> list[dict[str, Any]]:
    """Return the rows of hour 0, 1, 2 or 26: one group is idle, one wakes up, one goes, one comes, one falls behind."""
    return [
        *seen(number, group="idle"),
        *seen(number, group="wakes", offsets={("t", 0): 50 if number < 26 else 60}),
        *(seen(number, group="goes") if number < 2 else []),
        *(seen(number, group="comes", offsets={("u", 0): 100}) if number > 1 else []),
        *seen(number, group="behind", state="Stable", members=1, log_end=100 + 10 * number),
    ]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = tmp_path_factory.mktemp("queries")
    spark.sql(f"CREATE DATABASE queries LOCATION '{base.as_uri()}/warehouse'")
    given = ["--base", base.as_uri(), "--cluster", CLUSTER, "--table"]
    more = ["--observations-table", "queries.observations", "--min-idle-seconds", str(HOUR)]
    patched = pytest.MonkeyPatch()
    patched.setattr(CatalogueTable, "__init__", of_an_earlier_version)
    for number in (0, 1, 2, 26):
        if number > 2:
            lag_report.run(spark, lag_report.parse_arguments([*given, "queries.lag"]))
            CatalogueTable(spark, "queries.archives", ARCHIVE_SCHEMA, ("cluster", "archive_id"))
            CatalogueTable(spark, "queries.commits", COMMIT_SCHEMA, ("kafka_cluster_id", "run_id"))
            for table in ("verdicts", "observations", "lag", "archives", "commits"):
                spark.sql(f"ALTER TABLE queries.{table} ADD COLUMNS (team STRING COMMENT 'ours')")
            patched.undo()
        if number > 2:  # others, in which most groups are absent without being gone
            write_snapshot(base, 12, seen(12, group="idle"), complete=False, missing_brokers={"1": "no answer"})
            write_snapshot(base, 14, seen(14, group="idle"), scope={"group_ids": ["idle"]})
            write_snapshot(base, 20, groups_of(20))  # the last one of its day, which no job judges
        write_snapshot(base, number, groups_of(number))
        judge_staleness.run(spark, judge_staleness.parse_arguments([*given, "queries.verdicts", *more]))
    of_one = write_snapshot(base, 27, seen(27, group="idle"), scope={"group_ids": ["idle"]})
    more += ["--snapshot-id", of_one]  # as a clean-up of named groups
    judge_staleness.run(spark, judge_staleness.parse_arguments([*given, "queries.verdicts", *more]))
    lag_report.run(spark, lag_report.parse_arguments([*given, "queries.lag"]))
    commits = CatalogueTable(spark, "queries.commits", COMMIT_SCHEMA, ("kafka_cluster_id", "run_id"))
    for run, ages in (("1", {"old": 90, "new": 80}), ("2", {"old": 60, "new": 1})):
        rows = [("g", topic, 0, 5, None, None, NOW - timedelta(days=age), None, NOW, 3) for topic, age in ages.items()]
        commits.replace("kafka-1", spark.createDataFrame(rows, COMMIT_SCHEMA), {run: 2})
    archives = CatalogueTable(spark, "queries.archives", ARCHIVE_SCHEMA, ("cluster", "archive_id"))
    records: list[Any] = [
        ("gone", topic, 0, offset, hour(offset), 0, b"k", b"v", []) for topic in "tu" for offset in range(3)
    ]
    archives.replace("c", spark.createDataFrame(records[:5], ARCHIVE_SCHEMA), {"plan": 5})
    yield "queries"
    spark.sql("DROP DATABASE queries CASCADE")


def at(number: float) -> datetime:
    """Return a time as Spark hands it to Python."""
    return hour(number).astimezone().replace(tzinfo=None)


EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "Which groups are stale now?": [("c", "idle", at(0), 90), ("c", "comes", at(2), 0)],
    "How did the verdicts develop?": [
        ("c", hour(0).date(), "live", 1, 110),
        ("c", hour(0).date(), "settling", 1, 0),
        ("c", hour(0).date(), "stale", 2, 140),
        ("c", hour(24).date(), "live", 1, 350),
        ("c", hour(24).date(), "moving", 1, 40),
        ("c", hour(24).date(), "stale", 2, 90),
    ],
    "When did each group become stale?": [
        ("c", "goes", at(1)),
        ("c", "idle", at(1)),
        ("c", "wakes", at(1)),
        ("c", "comes", at(26)),
    ],
    "Which stale groups came back to life?": [("c", "wakes", at(26), 2 / 24)],
    "Which groups are gone, and since when?": [("c", "goes", at(1))],
    "How many groups does each cluster gain in a day?": [("c", 4, pytest.approx(0.0))],
    "Whose lag grows fastest?": [("c", "behind", pytest.approx(240.0), 350)],
    "Which topics are read with lag, and where was data lost?": [("t", 480, 0, 0), ("u", 0, 0, 0)],
    "Which topics has no group committed to for thirty days?": [
        ("old", (NOW - timedelta(days=60)).astimezone().replace(tzinfo=None), 1)
    ],
    "What did deleted groups never read?": [
        ("plan", "gone", "t", 3, at(0), at(2)),
        ("plan", "gone", "u", 2, at(0), at(1)),
    ],
}


def test_the_files_of_all_clusters_are_read_as_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    """Their folders are no partitions of one table, which Spark calls conflicting."""
    for number in (0, 1):
        write_snapshot(tmp_path, number, seen(number))
        judge(tmp_path)
    shutil.copytree(tmp_path / CLUSTER, tmp_path / "other")
    (snippet,) = re.findall(r"```\n(spark\.read\.option\(.+?)\n```", PAGE, re.DOTALL)
    rows = eval(snippet.replace("s3a://bucket/kafka-groups", tmp_path.as_uri()), {"spark": spark})
    found = sorted((row["cluster"], row["snapshot_id"], row["verdict"]) for row in rows.collect())
    judged = [(snapshot_id(0), "settling"), (snapshot_id(1), "stale")]
    assert found == [(name, *each) for name in (CLUSTER, "other") for each in judged]


def test_there_are_ten_queries_and_each_is_tested() -> None:
    assert list(QUERIES) == list(EXPECTED)
    assert len(QUERIES) == 10


@pytest.mark.parametrize("question", EXPECTED)
def test_a_query_of_the_page_answers_its_question(spark: SparkSession, tables: str, question: str) -> None:
    found: list[Row] = spark.sql(QUERIES[question].replace("lake.kafka.", f"{tables}.")).collect()
    assert [tuple(row) for row in found] == EXPECTED[question]
    assert snapshot_id(26) > snapshot_id(2)


def test_the_tables_have_rows_of_two_versions_and_a_column_of_the_users(spark: SparkSession, tables: str) -> None:
    for table, later in (("verdicts", "lag_trend"), ("observations", "nearest"), ("lag", "lag_seconds")):
        rows = spark.table(f"{tables}.{table}")
        assert rows.where("team IS NOT NULL").count() == 0
        before = rows.where(f"snapshot_id <= '{snapshot_id(2)}'")
        assert before.count() > before.where(f"{later} IS NOT NULL").count() == 0
        assert rows.where(f"snapshot_id > '{snapshot_id(2)}' AND {later} IS NOT NULL").count() > 0
    for table, later in (("commits", "expires_at"), ("archives", "headers")):
        assert {"team", later} <= {*spark.table(f"{tables}.{table}").columns}


@pytest.mark.safety
def test_a_snapshot_of_some_groups_that_is_judged_itself_is_not_in_the_table_of_observations(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """A clean-up of named groups judges its own one, in which all others would seem to be gone."""
    observations = CatalogueTable(spark, f"{database}.observations", OBSERVATION_SCHEMA)
    given = ["--base", tmp_path.as_uri(), "--cluster", CLUSTER, "--min-idle-seconds", str(HOUR)]
    for number, names, scope in ((0, "ab", {}), (1, "a", {"group_ids": ["a"]}), (2, "ab", {})):
        rows = [row for name in names for row in seen(number, group=name)]
        name = write_snapshot(tmp_path, number, rows, **({"scope": scope} if scope else {}))
        more = ["--observations-table", f"{database}.observations", "--snapshot-id", name]
        judge_staleness.run(spark, judge_staleness.parse_arguments([*given, *more]))
        counts = {snapshot_id(each): 2 for each in (0, number) if each != 1}
        assert observations.counts(CLUSTER) == counts
