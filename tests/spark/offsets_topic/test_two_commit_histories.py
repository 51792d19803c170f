"""Two jobs that read the log of commits into one folder at once: what one lost by the other is no evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offsets_topic.scan import SCAN_SCHEMA, SCAN_TYPES
from airflow_kafka_groups.spark.jobs import commit_history as job
from airflow_kafka_groups.spark.offsets_topic import reading
from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder
from airflow_kafka_groups.spark.offsets_topic.reading import Scanned
from airflow_kafka_groups.spark.session.settings import settings_of
from tests.histories.shorthand import hour

pytestmark = [pytest.mark.spark, pytest.mark.safety]

GROUPS = tuple(f"g{number}" for number in range(9))


class Brokers:
    """Kafka, as far as the job asks it beside the log."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cluster_id(self) -> str:
        return "k"

    def log_ends(self, *_: Any, **__: Any) -> dict[Any, Any]:
        return {}


@pytest.fixture
def read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., dict[str, Any]]]:
    """Return the job, on a log in which each group has committed once."""

    def scanned(*_: Any, **__: Any) -> Scanned:
        rows = [dict.fromkeys(SCAN_TYPES) | {"kind": "commit", "group_id": name} for name in GROUPS]
        made = [tuple((row | {"committed_at": hour(1), "topic": "t"}).values()) for row in rows]
        counts = {"records": len(rows), "corrupt": 0, "future": 0, "commits": len(rows)}
        return Scanned(rows=spark.createDataFrame(made, SCAN_SCHEMA), counts=counts, offsets=len(rows))

    others: dict[str, Any] = {
        "KafkaAdmin": Brokers,
        "scanned": scanned,
        "prepare_kafka": lambda *_, **__: [],
        "load_properties": lambda *_: None,
        "log_partitions": lambda _: [],
        "ranges_of": lambda *_: [],
        "fit_shuffles": lambda *_: spark.conf.set("spark.sql.shuffle.partitions", "3"),
    }
    for name, other in others.items():
        monkeypatch.setattr(job, name, other)
    arguments = ["--kafka-properties", "-", "--output", str(tmp_path / "out")]

    def run(*more: str) -> dict[str, Any]:
        return job.run(spark, job.parse_arguments([*arguments, *more]))

    yield run
    spark.conf.set("spark.sql.shuffle.partitions", "1")


def replaced_by_another(folder: Path, made: Callable[[DataFrame], DataFrame]) -> Callable[[DataFrame], DataFrame]:
    """Return a query during whose last task another job begins to replace the folder."""

    def replace(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 2:
            shutil.rmtree(folder)  # with what the tasks before this one have written
        yield from batches

    def query(rows: DataFrame) -> DataFrame:
        found = made(rows).repartition(3, "group_id")
        return found.mapInArrow(replace, found.schema)

    return query


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("count", [9, 0])
def test_all_groups_are_written_and_counted(
    spark: SparkSession,
    read: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    adaptive: str,
) -> None:
    monkeypatch.setattr(f"{__name__}.GROUPS", GROUPS[:count])
    with settings_of(spark, {"spark.sql.adaptive.enabled": adaptive}):
        summary = read()
    assert (summary["commits"], summary["groups"]) == (count, count)


def test_what_was_read_is_not_read_again_from_a_log_that_lacks_more_of_it(
    spark: SparkSession, read: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that has rows of the log is lost; what gave way to later commits meanwhile is in neither scan."""
    cleaned, log = tmp_path / "cleaned", vars(job)["scanned"]()  # the log of this test

    def what_is_left(batches: Iterator[Any]) -> Iterator[Any]:
        yield from (batch.slice(0, batch.num_rows - cleaned.exists()) for batch in batches)

    def lost(*_: Any, **__: Any) -> list[Any]:
        spark.catalog.clearCache()
        cleaned.touch()
        return []

    monkeypatch.setattr(job, "scanned", reading.scanned)
    monkeypatch.setattr(reading, "read_ranges", lambda *_, **__: log.rows.coalesce(1))
    monkeypatch.setattr(reading, "scan", lambda records: records.mapInArrow(what_is_left, records.schema))
    monkeypatch.setattr(reading, "behind_ends", lost)
    summary = read()
    assert (summary["commits"], summary["groups"]) == (len(GROUPS), len(GROUPS))


@pytest.mark.parametrize("table", ["commits", "groups"])
def test_what_another_job_deleted_while_it_was_written_is_noticed(
    read: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Airflow starts a task again whose heartbeat it missed; the rows of some tasks are lost, and Spark says nothing.

    A group whose last commit is not in the table looks idle for longer.
    """
    made, *others = job._TABLES[table]
    monkeypatch.setitem(job._TABLES, table, (replaced_by_another(tmp_path / "out" / table, made), *others))
    with pytest.raises(JobError, match=rf"out/{table} has \d rows where 9 were written: another job"):
        read()
    assert not (tmp_path / "out" / "summary.json").exists()


def test_groups_that_an_earlier_try_wrote_after_a_later_one_are_no_evidence(
    spark: SparkSession, read: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the name of the DAG's run. The earlier one stood still, wrote as many groups, and was killed then."""
    out, write = tmp_path / "out", job._write

    def stands_still(*arguments: Any) -> tuple[int, list[str]]:
        monkeypatch.setattr(job, "_write", write)
        later = read("--run-id", "r")
        assert read_folder(spark, str(out), "k").evidence.commits_until == datetime.fromisoformat(later["read_until"])
        monkeypatch.setattr(job, "_extent", killed)
        return write(*arguments)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "_write", stands_still)
    with pytest.raises(KeyboardInterrupt):
        read("--run-id", "r")
    with pytest.raises(JobError, match=r"groups of another try of the run r: run the job commit_history first"):
        read_folder(spark, str(out), "k")


def test_a_file_of_another_job_that_is_committed_with_it_is_noticed(
    spark: SparkSession, read: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write below one folder of tasks, so that a job commits what it finds there, of as many groups."""
    other, out = tmp_path / "other", tmp_path / "out" / "groups"
    spark.createDataFrame([(name,) for name in GROUPS], "group_id string").write.option(
        "mapreduce.output.basename", "part-000000000000007"
    ).parquet(f"{other}/run_id=r")

    def exchange(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 2:
            shutil.rmtree(out)
            shutil.copytree(other, out / "_temporary" / "0" / "task_of_the_other")

    def query(rows: DataFrame) -> DataFrame:
        found = job.groups(rows).repartition(3, "group_id")
        return found.where("group_id = ''").mapInArrow(exchange, found.schema)

    monkeypatch.setitem(job._TABLES, "groups", (query, *job._TABLES["groups"][1:]))
    with pytest.raises(JobError, match=r"has run_id=r/part-000000000000007-.* of another job"):
        read("--run-id", "r")
