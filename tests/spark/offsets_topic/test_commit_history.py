"""The job ``commit_history`` on a real cluster, against what the admin client and the clock say."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.observe.offsets_topic.scan import SCAN_SCHEMA, SCAN_TYPES
from airflow_kafka_groups.spark.jobs import commit_history as job
from airflow_kafka_groups.spark.jobs.commit_history import commits, groups, parse_arguments, run
from airflow_kafka_groups.spark.kafka import offsets_topic
from airflow_kafka_groups.spark.kafka.offsets_topic import Scanned
from airflow_kafka_groups.spark.session import settings_of
from tests.histories.shorthand import expect, hour
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer, Protocol
from tests.lab.workload.topics import create_topics
from tests.lab.workload.transactions import open_transaction

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PREFIX = "commithistory-"
HIDDEN = "hidden-commithistory-"
TOPIC = "commithistory-t"
PROTOCOLS: tuple[Protocol, ...] = ("classic", "consumer")


def rows_of(folder: Path, prefix: str = PREFIX) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder, coerce_int96_timestamp_unit="us").to_pylist()
    return [row for row in rows if row["group_id"].startswith(prefix)]


def test_decoded_commits_are_those_that_the_admin_client_gives(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path
) -> None:
    create_topics(kafka41.bootstrap, {TOPIC: 4})
    begun = datetime.now(UTC) - timedelta(seconds=1)
    names = [f"{PREFIX}{number:02d}" for number in range(12)]
    for offset in (1, 7):  # the second time replaces the first
        commit_offsets(kafka41.bootstrap, {name: {(TOPIC, p): offset + p for p in range(4)} for name in names})
    asyncio.run(change(kafka41.bootstrap, names))
    for protocol in PROTOCOLS:
        with LiveConsumer(kafka41.bootstrap, f"{PREFIX}{protocol}", [TOPIC], protocol=protocol, commit_every=None):
            pass
    with LiveConsumer(kafka41.bootstrap, f"{PREFIX}live", [TOPIC], commit_every=None):
        summary = read(spark, kafka41, tmp_path)
    offsets = asyncio.run(offsets_of(kafka41.bootstrap, names))
    found = {
        (row["group_id"], row["topic"], row["partition"]): (
            row["committed_offset"],
            row["leader_epoch"],
            row["metadata"],
        )
        for row in rows_of(tmp_path / "out" / "commits")
    }
    assert found == {
        (name, key.topic, key.partition): (value.offset, value.leader_epoch, value.metadata)
        for name, of_group in offsets.items()
        for key, value in of_group.items()
        if value is not None
    }
    assert len(found) == 39
    until = datetime.now(UTC) + timedelta(seconds=1)
    for row in rows_of(tmp_path / "out" / "commits"):
        assert begun < row["committed_at"].replace(tzinfo=UTC) < until
    told = {row["group_id"]: row for row in rows_of(tmp_path / "out" / "groups")}
    assert told.keys() == {*names[:10], f"{PREFIX}classic", f"{PREFIX}consumer", f"{PREFIX}live"}
    assert (told[names[1]]["partitions"], told[names[1]]["group_type"]) == (3, None)
    assert told[names[1]]["quiet_since"] == told[names[1]]["last_commit_at"]
    live, left = told[f"{PREFIX}live"], told[f"{PREFIX}classic"]
    assert (live["members"], live["group_type"], live["protocol_type"], live["quiet_since"]) == (
        *(1, "classic", "consumer"),
        None,
    )
    assert (left["members"], left["quiet_since"]) == (0, left["state_changed_at"])
    assert begun < left["state_changed_at"].replace(tzinfo=UTC) < until
    assert told[f"{PREFIX}consumer"]["group_type"] == "consumer"
    assert summary["records"]["outdated"] >= 40
    assert summary["records"]["tombstones"] >= 8
    assert (summary["records"]["corrupt"], summary["records"]["future"], summary["warnings"]) == (0, 0, [])
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    assert spark.conf.get("spark.sql.streaming.kafka.useDeprecatedOffsetFetching") == "false"


async def change(bootstrap: str, names: list[str]) -> None:
    """Commit with metadata, delete two groups, and forget one partition of another."""
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        noted = {TopicPartition(TOPIC, 0): OffsetAndMetadata(3, "ünder way", 0)}
        (await admin.alter_consumer_group_offsets({names[0]: noted})).raise_for_errors()
        (await admin.delete_consumer_groups(names[10:])).raise_for_errors()
        await admin.delete_consumer_group_offsets(names[1], [TopicPartition(TOPIC, 3)])


async def offsets_of(bootstrap: str, names: list[str]) -> dict[str, GroupOffsets]:
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        return (await admin.list_consumer_group_offsets(names)).succeeded


def read(spark: SparkSession, cluster: KafkaCluster, folder: Path) -> dict[str, Any]:
    file = folder / "kafka.properties"
    file.write_text(f"bootstrap.servers={cluster.bootstrap}\n")
    kept = {*spark.sparkContext._jsc.getPersistentRDDs()}
    summary = run(spark, parse_arguments(["--kafka-properties", str(file), "--output", str(folder / "out")]))
    assert {*spark.sparkContext._jsc.getPersistentRDDs()} == kept, "a notebook's session has its memory back"
    return summary


def test_nothing_is_claimed_of_what_an_open_transaction_hides(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path
) -> None:
    """A commit after it is in no table: a reader must not take this for all of the log."""
    create_topics(kafka41.bootstrap, {f"{TOPIC}-tx": 2})
    group_id = f"{HIDDEN}{uuid4().hex}"  # its partition of the log is its own again when the test is repeated
    with open_transaction(kafka41.bootstrap, group_id, {(f"{TOPIC}-tx", 0): 1}) as commit:
        commit_offsets(kafka41.bootstrap, {group_id: {(f"{TOPIC}-tx", 1): 5}})
        summary = read(spark, kafka41, tmp_path)
        assert group_id not in {row["group_id"] for row in rows_of(tmp_path / "out" / "groups", HIDDEN)}
        assert summary["read_until"] is None
        assert "open transaction" in summary["warnings"][0]
        commit()
    assert read(spark, kafka41, tmp_path)["read_until"] is not None
    assert group_id in {row["group_id"] for row in rows_of(tmp_path / "out" / "groups", HIDDEN)}


@pytest.mark.connector
def test_a_cluster_that_cannot_be_reached_is_told_and_leaves_no_summary(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\ndefault.api.timeout.ms=2000\nrequest.timeout.ms=1000\n")
    begun = time.monotonic()
    with pytest.raises((JobError, PySparkException), match="does not answer"):
        run(spark, parse_arguments(["--kafka-properties", str(file), "--output", str(tmp_path / "out")]))
    assert time.monotonic() - begun < 60
    assert not (tmp_path / "out").exists()


@pytest.mark.safety
@pytest.mark.connector
def test_a_folder_of_somebody_else_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\n")
    (tmp_path / "groups" / "run_id=r").mkdir(parents=True)  # as this job names them
    (tmp_path / "commits" / "2026").mkdir(parents=True)
    with pytest.raises(ArgumentError, match="commits'\\): has 2026, which this job did not write"):
        run(spark, parse_arguments(["--kafka-properties", str(file), "--output", str(tmp_path)]))


def scanned_row(**fields: Any) -> tuple[Any, ...]:
    return tuple(fields.get(name) for name in SCAN_TYPES)


def test_a_group_is_quiet_since_its_last_commit_or_change_only_if_the_log_proves_it_has_no_members(
    spark: SparkSession,
) -> None:
    def commit(group: str, partition: int, at: float) -> tuple[Any, ...]:
        return scanned_row(kind="commit", group_id=group, topic="t", partition=partition, committed_at=hour(at))

    def own(group: str, kind: str, members: int | None, changed: float | None, recorded: float = 0) -> tuple[Any, ...]:
        return scanned_row(
            **{"kind": "group", "group_id": group, "group_type": kind, "members": members},
            **{"state_changed_at": None if changed is None else hour(changed), "recorded_at": hour(recorded)},
        )

    scanned = spark.createDataFrame(
        [
            *(commit("simple", 0, 1), commit("simple", 1, 3)),
            *(commit("left", 0, 2), own("left", "classic", 0, 5)),
            *(commit("late", 0, 6), own("late", "classic", 0, 5)),
            *(commit("live", 0, 2), own("live", "classic", 2, 1)),
            *(commit("modern", 0, 2), own("modern", "classic", 0, 9, 1), own("modern", "consumer", None, None, 2)),
            own("old", "classic", 0, None),
            scanned_row(kind="count", name="records", number=7),
        ],
        SCAN_SCHEMA,
    )
    expect(
        groups(scanned).toArrow().to_pylist(),
        {"group_id": "late", "partitions": 1, "last_commit_at": hour(6), "quiet_since": hour(6)},
        {"group_id": "left", "partitions": 1, "last_commit_at": hour(2), "quiet_since": hour(5)},
        {"group_id": "live", "partitions": 1, "last_commit_at": hour(2), "quiet_since": None},
        {"group_id": "modern", "partitions": 1, "last_commit_at": hour(2), "quiet_since": None},
        {"group_id": "old", "partitions": 0, "last_commit_at": None, "quiet_since": None},
        {"group_id": "simple", "partitions": 2, "last_commit_at": hour(3), "quiet_since": hour(3)},
    )
    assert commits(scanned).count() == 6


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
def read_meanwhile(
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


@pytest.mark.safety
@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("count", [9, 0])
def test_all_groups_are_written_and_counted(
    spark: SparkSession,
    read_meanwhile: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    adaptive: str,
) -> None:
    monkeypatch.setattr(f"{__name__}.GROUPS", GROUPS[:count])
    with settings_of(spark, {"spark.sql.adaptive.enabled": adaptive}):
        summary = read_meanwhile()
    assert (summary["commits"], summary["groups"]) == (count, count)


@pytest.mark.safety
def test_what_was_read_is_not_read_again_from_a_log_that_lacks_more_of_it(
    spark: SparkSession, read_meanwhile: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that has rows of the log is lost; what gave way to later commits meanwhile is in neither scan."""
    cleaned, log = tmp_path / "cleaned", vars(job)["scanned"]()  # the log of this test

    def what_is_left(batches: Iterator[Any]) -> Iterator[Any]:
        yield from (batch.slice(0, batch.num_rows - cleaned.exists()) for batch in batches)

    def lost(*_: Any, **__: Any) -> list[Any]:
        spark.catalog.clearCache()
        cleaned.touch()
        return []

    monkeypatch.setattr(job, "scanned", offsets_topic.scanned)
    monkeypatch.setattr(offsets_topic, "read_ranges", lambda *_, **__: log.rows.coalesce(1))
    monkeypatch.setattr(offsets_topic, "scan", lambda records: records.mapInArrow(what_is_left, records.schema))
    monkeypatch.setattr(offsets_topic, "behind_ends", lost)
    summary = read_meanwhile()
    assert (summary["commits"], summary["groups"]) == (len(GROUPS), len(GROUPS))


@pytest.mark.safety
@pytest.mark.parametrize("table", ["commits", "groups"])
def test_what_another_job_deleted_while_it_was_written_is_noticed(
    read_meanwhile: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Airflow starts a task again whose heartbeat it missed; the rows of some tasks are lost, and Spark says nothing.

    A group whose last commit is not in the table looks idle for longer.
    """
    made, *others = job._TABLES[table]
    monkeypatch.setitem(job._TABLES, table, (replaced_by_another(tmp_path / "out" / table, made), *others))
    with pytest.raises(JobError, match=rf"out/{table}/.* has \d rows where 9 were written: another job"):
        read_meanwhile()
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.safety
def test_a_file_of_another_job_that_is_committed_with_it_is_noticed(
    spark: SparkSession, read_meanwhile: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write below one folder of tasks, so that a job commits what it finds there, of as many groups."""
    other, out = tmp_path / "other", tmp_path / "out" / "groups" / "run_id=r"
    spark.createDataFrame([(name,) for name in GROUPS], "group_id string").write.option(
        "mapreduce.output.basename", "part-000000000000007"
    ).parquet(str(other))

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
    with pytest.raises(JobError, match=r"run_id=r has part-000000000000007-.* of another job"):
        read_meanwhile("--run-id", "r")
