"""Tables of the session's catalogue: each output, once for each snapshot or run, however often a job runs."""

import json
import re
import shutil
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.spark.catalogue import CatalogueTable
from airflow_kafka_groups.spark.frames import schema_of
from airflow_kafka_groups.spark.jobs import archive_backlog, commit_history, lag_report
from airflow_kafka_groups.spark.session import settings_of
from airflow_kafka_groups.storage.formats import TABLE_FORMAT
from airflow_kafka_groups.storage.schemas import columns
from tests.histories.judged import judge, verdict_summary, write_hour
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import hour, seen, snapshot_id
from tests.spark.backlog.test_archive_backlog import snapshot
from tests.spark.kafka import behind, write_properties
from tests.spark.rows import watch_statements

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = schema_of(columns({"group_id": "string", "lag": "int64, null"}))


def counts(spark: SparkSession, table: str, by: str) -> dict[str, int]:
    return {row[by]: row["count"] for row in spark.table(table).groupBy(by).count().collect()}


def rows_of(spark: SparkSession, *rows: tuple[Any, ...]) -> Any:
    return spark.createDataFrame(list(rows), SCHEMA)


def test_a_partition_is_replaced_and_the_others_stay(spark: SparkSession, database: str) -> None:
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    table.replace("c", rows_of(spark, ("a", 1), ("b", 2)), {"s1": 2})
    table.replace("c", rows_of(spark, ("a", 3)), {"s2": 1})
    table.replace("d", rows_of(spark, ("z", 9)), {"s1": 1})
    again = CatalogueTable(spark, f"{database}.lags", SCHEMA)  # as another process finds it
    again.replace("c", rows_of(spark, ("a", 5), ("b", None)), {"s1": 2})
    found = spark.table("akg.lags").orderBy("cluster", "snapshot_id", "group_id").collect()
    assert [tuple(row[name] for name in ("cluster", "snapshot_id", "group_id", "lag")) for row in found] == [
        ("c", "s1", "a", 5),
        ("c", "s1", "b", None),
        ("c", "s2", "a", 3),
        ("d", "s1", "z", 9),
    ]
    assert (again.counts("c"), again.counts("nobody")) == ({"s1": 2, "s2": 1}, {})
    assert str(spark.conf.get("spark.sql.sources.partitionOverwriteMode")).lower() == "static", "as it was"


def test_only_the_partitions_that_are_replaced_are_counted(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """To count all of them takes longer with each run: nine seconds of processor time for 1,500."""
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    table.replace("c", rows_of(spark, ("a", 1)), {"s1": 1})
    (damaged,) = (tmp_path / "warehouse").glob("lags/cluster=c/snapshot_id=s1/*.parquet")
    damaged.write_bytes(b"no Parquet" * 9)
    for lag in (2, 3):
        table.replace("c", rows_of(spark, ("a", lag)), {"s2": 1})
    assert spark.table("akg.lags").where("cluster = 'c' AND snapshot_id = 's2'").collect()[0]["lag"] == 3


def test_a_partition_that_would_have_no_rows_any_more_is_refused(spark: SparkSession, database: str) -> None:
    """Spark replaces only the partitions that it is given rows of."""
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    table.replace("c", rows_of(spark, ("a", 1), ("b", 2)), {"s1": 2})
    more = rows_of(spark, ("z", 9)).selectExpr("*", "'s2' AS snapshot_id")
    with pytest.raises(JobError, match="has 2 rows where cluster is c and snapshot_id is s1, and 0 were written"):
        table.replace("c", more, {"s1": 0, "s2": 1, "s4": 0})
    table.replace("c", rows_of(spark), {"s3": 0})
    assert table.counts("c") == {"s1": 2, "s2": 1}


@pytest.mark.safety
def test_a_table_with_other_rows_than_were_written_fails_the_job(spark: SparkSession, database: str) -> None:
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    with pytest.raises(JobError, match="has 1 rows where cluster is c and snapshot_id is s1, and 2 were written"):
        table.replace("c", rows_of(spark, ("a", 1)), {"s1": 2})


def test_a_table_that_is_not_the_jobs_is_refused(spark: SparkSession, database: str) -> None:
    spark.sql("CREATE TABLE akg.other (group_id STRING, lag INT, cluster STRING, snapshot_id STRING) USING parquet")
    spark.sql("INSERT INTO akg.other VALUES ('a', 1, 'c', 's1')")
    with pytest.raises(
        ArgumentError, match=r"--table \(got 'akg.other'\): its column lag is int, not bigint"
    ) as refused:
        CatalogueTable(spark, "akg.other", SCHEMA)
    (statement,) = re.findall(r"if its format cannot, (ALTER TABLE .+): the job", str(refused.value))
    spark.sql(statement)
    CatalogueTable(spark, "akg.other", SCHEMA).replace("c", rows_of(spark, ("a", 2)), {"s1": 1})
    assert [spark.table(f"akg.other{name}").collect()[0]["lag"] for name in ("", "_before")] == [2, 1]
    spark.sql("CREATE TABLE akg.short (cluster STRING, snapshot_id STRING, lag BIGINT) USING parquet")
    with pytest.raises(ArgumentError, match="its column group_id is missing, not string"):
        CatalogueTable(spark, "akg.short", SCHEMA)
    with pytest.raises(ArgumentError, match=r"it cannot be created or read .*Create its database"):
        CatalogueTable(spark, "nowhere.lags", SCHEMA)
    CatalogueTable(spark, "akg.newer", SCHEMA)
    spark.sql(f"ALTER TABLE akg.newer SET TBLPROPERTIES ('kafka_groups.format' = '{TABLE_FORMAT + 1}')")
    with pytest.raises(ArgumentError, match=f"of version {TABLE_FORMAT + 1}, and this job writes {TABLE_FORMAT}"):
        CatalogueTable(spark, "akg.newer", SCHEMA)


LATER_SCHEMA = schema_of(columns({"rate": "double, null", "group_id": "string", "at": "timestamp, added"}))


@pytest.mark.safety
def test_a_table_grows_by_columns_of_a_later_version_and_keeps_those_of_a_user(
    spark: SparkSession, database: str
) -> None:
    """Each by its name: whoever made the table, or added to it, had another order of columns."""
    spark.sql(
        "CREATE TABLE akg.grows (note STRING, lag BIGINT, group_id STRING, cluster STRING, snapshot_id STRING) "
        "USING parquet PARTITIONED BY (cluster, snapshot_id)"
    )
    spark.sql("INSERT INTO akg.grows VALUES ('mine', 1, 'a', 'c', 's0')")
    later = StructType([*LATER_SCHEMA, *SCHEMA.fields[1:]])
    rows = spark.createDataFrame([(0.5, "b", hour(1), 2)], later)
    for taken, schema, written in (("s1", SCHEMA, rows), ("s2", later, rows), ("s3", SCHEMA, rows_of(spark, ("c", 3)))):
        table = CatalogueTable(spark, f"{database}.grows", schema)
        table.replace("c", written, {taken: 1})
    table.replace("c", rows_of(spark, ("c", None)), {"s4": 1})
    found = (
        spark.table("akg.grows")
        .orderBy("snapshot_id")
        .selectExpr("snapshot_id", "note", "group_id", "lag", "rate", "unix_micros(at) IS NOT NULL AS has_time")
    )
    assert [tuple(row) for row in found.collect()] == [
        ("s0", "mine", "a", 1, None, False),
        ("s1", None, "b", 2, None, False),
        ("s2", None, "b", 2, 0.5, True),
        ("s3", None, "c", 3, None, False),
        ("s4", None, "c", None, None, False),
    ]


def test_a_column_that_another_job_adds_at_the_same_time_is_used(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    CatalogueTable(spark, f"{database}.lags", schema_of(columns({"group_id": "string"})))
    asked = SparkSession.sql
    watch_statements(monkeypatch, lambda text: text.startswith("ALTER") and asked(spark, text))
    CatalogueTable(spark, f"{database}.lags", SCHEMA).replace("c", rows_of(spark, ("a", 1)), {"s1": 1})
    assert counts(spark, "akg.lags", "snapshot_id") == {"s1": 1}

    def fail(text: str) -> None:
        if text.startswith("ALTER"):
            raise PySparkException("no rights")

    watch_statements(monkeypatch, fail)
    with pytest.raises(JobError, match=r"akg\.lags cannot get rate: no rights"):
        CatalogueTable(spark, f"{database}.lags", schema_of(columns({"group_id": "string", "rate": "double, null"})))


def test_a_catalogue_that_does_not_answer_is_no_wrong_argument(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is not tried again after exit code 2."""
    with pytest.raises(ArgumentError) as lasting:
        CatalogueTable(spark, "nowhere.lags", SCHEMA)

    def fail(*_: Any) -> None:
        raise AnalysisException("org.apache.thrift.transport.TTransportException: Connection refused")

    monkeypatch.setattr(type(spark.catalog), "refreshTable", fail)
    with pytest.raises(JobError, match=r"--table \(got 'akg.lags'\): .*Connection refused") as passing:
        CatalogueTable(spark, "akg.lags", SCHEMA)
    assert (lasting.value.exit_code, passing.value.exit_code) == (2, 1)


@pytest.mark.safety
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (cluster)"])
def test_a_table_whose_other_rows_would_be_replaced_is_refused(spark: SparkSession, database: str, by: str) -> None:
    spark.sql(
        f"CREATE TABLE akg.mine (group_id STRING, lag BIGINT, cluster STRING, snapshot_id STRING) USING parquet {by}"
    )
    with pytest.raises(ArgumentError, match=f"it is partitioned by {'cluster' if by else 'nothing'}, so a run would"):
        CatalogueTable(spark, "akg.mine", SCHEMA)


@pytest.mark.parametrize("name", ["", "a b", "a;DROP TABLE b", "a.`b`", "a.b.c.d.e", ".a", "a."])
def test_a_name_that_is_none_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lag_report.parse_arguments(["--base", "/b", "--cluster", "c", "--table", name])
    assert "is not the name of a table" in capsys.readouterr().err


def test_verdicts_and_observations_of_each_snapshot_are_there_once(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    tables = ("--table", f"{database}.verdicts", "--observations-table", f"{database}.observations")
    for number in range(3):
        write_hour(tmp_path, number)
    judge(tmp_path)  # before anybody asked for tables
    summary = judge(tmp_path, *tables, spark=spark)
    assert summary["tables"] == [f"{database}.verdicts", f"{database}.observations"]
    assert counts(spark, "akg.verdicts", "snapshot_id") == {snapshot_id(2): 3}
    every = {snapshot_id(0): 2, snapshot_id(1): 2, snapshot_id(2): 3}
    assert counts(spark, "akg.observations", "snapshot_id") == every
    write_hour(tmp_path, 3)
    for _ in range(2):
        summary = judge(tmp_path, *tables, "--min-idle-seconds", "1", spark=spark)
    assert counts(spark, "akg.verdicts", "snapshot_id") == {snapshot_id(2): 3, snapshot_id(3): 3}
    assert counts(spark, "akg.observations", "snapshot_id") == every | {snapshot_id(3): 3}
    stale = spark.sql(
        f"SELECT count(*) FROM akg.verdicts WHERE verdict = 'stale' AND snapshot_id = '{snapshot_id(3)}'"
    ).collect()[0][0]
    assert stale == summary["verdicts"]["stale"] > 0


@pytest.mark.safety
def test_what_a_killed_run_left_out_is_added_by_the_next(spark: SparkSession, database: str, tmp_path: Path) -> None:
    table = ("--observations-table", f"{database}.observations")
    for number in range(2):
        write_hour(tmp_path, number)
    judge(tmp_path, *table, spark=spark)
    (partition,) = (tmp_path / "warehouse" / "observations").glob(f"**/snapshot_id={snapshot_id(0)}")
    for file in partition.glob("*.parquet"):
        file.unlink()
    spark.catalog.refreshTable("akg.observations")
    assert counts(spark, "akg.observations", "snapshot_id") == {snapshot_id(1): 2}
    judge(tmp_path, *table, spark=spark)
    assert counts(spark, "akg.observations", "snapshot_id") == {snapshot_id(0): 2, snapshot_id(1): 2}


def test_observations_made_anew_replace_those_of_another_version(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """They are as many, and have other digests: beside newer ones, each group would seem to have moved."""
    table = ("--observations-table", f"{database}.observations")
    write_snapshot(tmp_path, 0, [], files=[], groups=0)
    for number in (1, 2):
        write_snapshot(tmp_path, number, seen(number))
    judge(tmp_path, *table, spark=spark)
    (partition,) = (tmp_path / "warehouse" / "observations").glob(f"**/snapshot_id={snapshot_id(1)}")
    (file,) = partition.glob("*.parquet")
    rows = pq.read_table(file)
    earlier = pa.array([7], pa.int64())
    pq.write_table(rows.set_column(rows.column_names.index("digest_xor"), "digest_xor", earlier), file)
    file.with_name(f".{file.name}.crc").unlink()
    for path in (tmp_path / CLUSTER / "summaries" / "observations").glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    assert judge(tmp_path, *table, spark=spark)["snapshots_reduced"] == 3
    assert spark.table("akg.observations").select("digest_xor").distinct().count() == 1


@pytest.mark.safety
def test_verdicts_without_their_table_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    write_hour(tmp_path, 0)
    judge(tmp_path)
    before = verdict_summary(tmp_path, 0).read_text()
    with pytest.raises(ArgumentError, match="--table"):
        judge(tmp_path, "--table", "nowhere.verdicts", spark=spark)
    assert verdict_summary(tmp_path, 0).read_text() == before, "a wrong argument touches nothing"


def test_lag_is_there_once(spark: SparkSession, database: str, tmp_path: Path) -> None:
    for number in range(2):
        write_snapshot(tmp_path, number, [*seen(number, group="a"), *seen(number, group="b")])
    for number in (0, 1, 1):
        given = ["--base", tmp_path.as_uri(), "--cluster", CLUSTER, "--table", f"{database}.lag"]
        lag_report.run(spark, lag_report.parse_arguments([*given, "--snapshot-id", snapshot_id(number)]))
    assert counts(spark, "akg.lag", "snapshot_id") == {snapshot_id(0): 2, snapshot_id(1): 2}
    assert [row["lag"] for row in spark.sql("SELECT sum(lag) AS lag FROM akg.lag GROUP BY snapshot_id").collect()] == [
        180,
        180,
    ]


def test_the_commits_of_each_run_are_there_once(spark: SparkSession, kafka: str, database: str, tmp_path: Path) -> None:
    behind(kafka, "ct-g", {("ct-t", 0): (1, 1)})
    given = ["--kafka-properties", str(write_properties(tmp_path, kafka)), "--output", f"{tmp_path.as_uri()}/out"]
    given += ["--table", f"{database}.commits", "--groups-table", f"{database}.groups"]

    def read(*more: str) -> dict[str, Any]:
        return commit_history.run(spark, commit_history.parse_arguments([*given, *more]))

    read("--run-id", "one")
    again, other = read("--run-id", "one"), read()
    assert counts(spark, "akg.commits", "run_id") == {"one": again["commits"], other["run_id"]: other["commits"]}
    assert counts(spark, "akg.groups", "run_id") == {"one": again["groups"], other["run_id"]: other["groups"]}
    files = spark.read.parquet(f"{tmp_path.as_uri()}/out/commits")
    assert {row["run_id"] for row in files.select("run_id").distinct().collect()} == {other["run_id"]}
    (mine,) = spark.table("akg.commits").where("run_id = 'one' AND group_id = 'ct-g'").collect()
    assert (mine["topic"], mine["committed_offset"], mine["kafka_cluster_id"]) == (
        *("ct-t", 1),
        other["kafka_cluster_id"],
    )


def test_an_archive_is_there_once(spark: SparkSession, kafka: str, database: str, tmp_path: Path) -> None:
    behind(kafka, "ca-g", {("ca-t", 0): (1, 3)})
    taken = snapshot(kafka, tmp_path, "ca-g")
    given = ["--kafka-properties", str(write_properties(tmp_path, kafka)), "--base", tmp_path.as_uri()]
    given += ["--cluster", "c", "--group", "ca-g", "--table", f"{database}.archives"]
    archive_backlog.run(spark, archive_backlog.parse_arguments(given))
    shutil.rmtree(tmp_path / "c" / "summaries" / "archives")  # as if it had been killed before its end
    archive_backlog.run(spark, archive_backlog.parse_arguments(given))
    name = archive_backlog.archive_name(taken, ["ca-g"])
    spark.sql("TRUNCATE TABLE akg.archives")
    (said,) = archive_backlog.run(spark, archive_backlog.parse_arguments(given))["warnings"]
    assert "is of the same request" in said, "and its rows are in the table afterwards"
    assert counts(spark, "akg.archives", "archive_id") == {name: 2}
    assert sorted(bytes(row["value"]) for row in spark.table("akg.archives").collect()) == [b"ca-t-0-1", b"ca-t-0-2"]


def test_a_write_that_fails_says_why(spark: SparkSession, database: str) -> None:
    """Spark's first line says no more than in which folder a task failed, and a job's last line is that line."""
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    with pytest.raises(JobError, match=r"akg.lags cannot be written: .*TASK_WRITE_FAILED.* Caused by: java.io.IOExc"):
        table.replace("c" * 256, rows_of(spark, ("a", 1)), {"s1": 1})  # no disk has a folder of so long a name


def test_a_table_of_a_session_that_has_ended_is_not_to_be_deleted(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    """Spark's own advice is to remove the folder. Without a metastore, each spark-submit is in this place."""
    CatalogueTable(spark, f"{database}.lags", SCHEMA).replace("c", rows_of(spark, ("a", 1)), {"s1": 1})
    shutil.copytree(tmp_path / "warehouse" / "lags", tmp_path / "warehouse" / "earlier")
    with pytest.raises(JobError, match=r"LOCATION_ALREADY_EXISTS.* Keep that folder.*catalogImplementation=hive"):
        CatalogueTable(spark, f"{database}.earlier", SCHEMA)


def test_a_catalogue_that_the_session_does_not_have_is_said_to_be_missing(spark: SparkSession) -> None:
    """Spark takes its name for that of a database in its own catalogue, and says that it has too many parts."""
    missing = r"--table \(got 'lake.kafka.lags'\): .*This session has no such catalogue: .*spark.sql.catalog.NAME=…"
    with pytest.raises(ArgumentError, match=missing):
        CatalogueTable(spark, "lake.kafka.lags", SCHEMA)
    without_jars = settings_of(spark, {"spark.sql.catalog.lake": "org.nowhere.Catalog"})
    with without_jars, pytest.raises(ArgumentError, match=missing):
        CatalogueTable(spark, "lake.kafka.lags", SCHEMA)


@pytest.mark.safety
def test_a_table_in_which_rows_of_before_would_stay_is_refused(spark: SparkSession, database: str) -> None:
    """Of a partition by verdict, a run that is repeated replaces only the verdicts that it has, too."""
    spark.sql(
        "CREATE TABLE akg.finer (lag BIGINT, cluster STRING, snapshot_id STRING, group_id STRING) USING parquet "
        "PARTITIONED BY (cluster, snapshot_id, group_id)"
    )
    with pytest.raises(ArgumentError, match=r"by cluster and group_id and snapshot_id, so .*\(cluster, snapshot_id\)"):
        CatalogueTable(spark, "akg.finer", SCHEMA)


def test_a_table_has_instants_whatever_type_the_session_calls_timestamp(spark: SparkSession, database: str) -> None:
    schema = schema_of(columns({"group_id": "string", "at": "timestamp"}))
    with settings_of(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        for _ in range(2):
            CatalogueTable(spark, f"{database}.times", schema)
    assert dict(spark.table("akg.times").dtypes)["at"] == "timestamp"


@pytest.mark.safety
def test_jobs_in_threads_of_one_session_replace_their_own_partitions_only(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one puts back, as it found it, lets Spark replace the complete table in the second one."""
    table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
    table.replace("before", rows_of(spark, ("a", 1)), {"s1": 1})
    inside, ended = Event(), Event()

    def slowly(text: str) -> None:
        if text.startswith("INSERT") and current_thread() is second:
            inside.set()
            ended.wait(20)
        elif text.startswith("INSERT"):
            second.start()
            inside.wait(1)

    def replace() -> None:
        table.replace("second", rows_of(spark, ("b", 2)), {"s1": 1})

    second = Thread(target=replace)
    watch_statements(monkeypatch, slowly)
    table.replace("first", rows_of(spark, ("c", 3)), {"s1": 1})
    ended.set()
    second.join()
    assert counts(spark, "akg.lags", "cluster") == {"before": 1, "first": 1, "second": 1}
    assert str(spark.conf.get("spark.sql.sources.partitionOverwriteMode")).lower() == "static", "as it was"


def test_a_table_that_another_job_creates_at_the_same_time_is_used(
    spark: SparkSession, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta ends all but one of several concurrent statements with an error, also with IF NOT EXISTS."""

    def conflict(text: str) -> None:
        if text.startswith("CREATE TABLE"):
            raise PySparkException("[DELTA_PROTOCOL_CHANGED] by a concurrent update")

    watch_statements(monkeypatch, after=conflict)
    CatalogueTable(spark, f"{database}.lags", SCHEMA).replace("c", rows_of(spark, ("a", 1)), {"s1": 1})
    assert counts(spark, "akg.lags", "snapshot_id") == {"s1": 1}


def test_a_table_is_of_sparks_default_format_also_where_older_sessions_made_hives(
    spark: SparkSession, database: str
) -> None:
    """Hive's default is text: a line break in a name would be the end of a row."""
    with settings_of(spark, {"spark.sql.legacy.createHiveTableByDefault": "true"}):
        table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
        table.replace("c", rows_of(spark, ("a\nb", 1)), {"s1": 1})
    assert [row["group_id"] for row in spark.table("akg.lags").collect()] == ["a\nb"]


def test_a_table_of_sparks_catalogue_is_written_while_another_one_is_the_default(
    spark: SparkSession, database: str
) -> None:
    elsewhere = {
        "spark.sql.catalog.elsewhere": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.elsewhere.url": "jdbc:nowhere",
        "spark.sql.catalog.elsewhere.driver": "java.lang.Object",
        "spark.sql.defaultCatalog": "elsewhere",
    }
    with settings_of(spark, elsewhere):
        table = CatalogueTable(spark, f"{database}.lags", SCHEMA)
        for snapshot, lag in (("s1", 1), ("s2", 2), ("s1", 3)):
            table.replace("c", rows_of(spark, ("a", lag)), {snapshot: 1})
    found = spark.table("akg.lags").orderBy("snapshot_id").collect()
    assert [(row["snapshot_id"], row["lag"]) for row in found] == [("s1", 3), ("s2", 2)]
