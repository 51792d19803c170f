"""What a lag report says of times that cannot be looked up, or that no clock has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.judge.lag import Sums, partition_lag, with_seconds
from airflow_kafka_groups.observe.offset_values import Partition
from airflow_kafka_groups.spark.jobs.lag_report import parse_arguments, run
from airflow_kafka_groups.spark.kafka import timestamps
from airflow_kafka_groups.spark.kafka.properties import load_properties
from tests.histories.lake import write_snapshot
from tests.histories.shorthand import looked_up, rows_of, seen
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import delete_topics
from tests.spark.backlog.test_archive_backlog import snapshot
from tests.spark.kafka import add, fresh_topics, write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def report(spark: SparkSession, base: Path, properties: Path) -> dict[str, Any]:
    arguments = ["--base", base.as_uri(), "--cluster", "c", "--kafka-properties", str(properties)]
    return run(spark, parse_arguments(arguments))


def test_a_producer_that_writes_nanoseconds_is_a_clock_that_is_ahead() -> None:
    lags = partition_lag(rows_of(seen(1, offsets={("t", 0): 40, ("t", 1): 40})))
    looked = [
        ("t", 0, 40, 1_767_225_600_000_000_000, "CreateTime"),
        ("t", 1, 40, 2**63 - 1, "CreateTime"),
    ]
    assert with_seconds(lags, looked_up(looked))["lag_seconds"].to_pylist() == [0.0, 0.0]


def test_what_is_not_known_is_not_the_greatest_lag_in_seconds() -> None:
    rows = [
        *seen(1, group="behind", offsets={("t", 0): 40, ("t", 1): 100}),
        *seen(1, group="recreated", offsets={("t", 0): 101, ("t", 1): 100}),
        *seen(1, group="done", offsets={("t", 0): 100, ("t", 1): 100}),
    ]
    sums = Sums()
    sums.add(with_seconds(partition_lag(rows_of(rows)), looked_up([])))
    found = {row["group_id"]: row["max_lag_seconds"] for row in sums.by("group_id").to_pylist()}
    assert found == {"behind": None, "recreated": None, "done": 0.0}


def test_a_record_that_does_not_arrive_in_time_is_not_a_marker(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_topics(kafka41.bootstrap, {"ll-slow": 1})
    add(kafka41.bootstrap, {("ll-slow", 0): 1})
    properties = load_properties(spark, str(write_properties(tmp_path, kafka41.bootstrap)))
    monkeypatch.setattr(timestamps, "_WAIT_SECONDS", -1.0)
    assert timestamps.look_up(spark, properties, [(Partition("ll-slow", 0), 0)]) == []


def test_an_offset_beyond_the_end_has_no_time_however_late_the_client_notices(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_topics(kafka41.bootstrap, {"ll-beyond": 2})
    add(kafka41.bootstrap, {("ll-beyond", 0): 2, ("ll-beyond", 1): 2})
    properties = load_properties(spark, str(write_properties(tmp_path, kafka41.bootstrap)))
    monkeypatch.setattr(timestamps, "_POLL_MILLISECONDS", 0)  # the first polls end before any answer
    beyond, end = (Partition("ll-beyond", 0), 5), (Partition("ll-beyond", 1), 2)
    assert timestamps.look_up(spark, properties, [beyond, end]) == [("ll-beyond", 1, 2, None, "none")]


def test_a_client_that_cannot_look_up_times_says_why_and_no_secret(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text("bootstrap.servers=localhost:1\nssl.keystore.password=tr0ub4dor\n")
    properties = load_properties(spark, str(path))

    def fail(jvm: Any, *_: Any) -> None:
        said = jvm.java.lang.IllegalStateException("the keystore's tr0ub4dor is wrong")
        jvm.java.util.concurrent.CompletableFuture.failedFuture(said).get()

    monkeypatch.setattr(timestamps, "_one_round", fail)
    with pytest.raises(JobError) as raised:
        timestamps.look_up(spark, properties, [(Partition("t", 0), 0)])
    said = "IllegalStateException: the keystore's *** is wrong (brokers localhost:1)"
    assert str(raised.value) == f"timestamps cannot be looked up: {said}"


def test_times_of_another_cluster_are_not_reported(spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path) -> None:
    bootstrap = kafka41.bootstrap
    fresh_topics(bootstrap, {"ll-t": 1})
    add(bootstrap, {("ll-t", 0): 10})
    write_snapshot(tmp_path, 1, seen(1, offsets={("ll-t", 0): 5}, log_end=10), kafka_cluster_id="another")
    with pytest.raises(JobError, match="the snapshot is of the cluster another, and the Kafka properties lead to"):
        report(spark, tmp_path, write_properties(tmp_path, bootstrap))


@pytest.mark.parametrize("again", [2, 8], ids=["shorter than the offset", "longer"])
def test_a_topic_deleted_or_recreated_since_the_snapshot_costs_its_own_times_only(
    spark: SparkSession, kafka41: KafkaCluster, tmp_path: Path, again: int
) -> None:
    bootstrap = kafka41.bootstrap
    names = ("ll-stays", "ll-gone", "ll-again")
    fresh_topics(bootstrap, dict.fromkeys(names, 1))
    add(bootstrap, {(name, 0): 10 for name in names})
    commit_offsets(bootstrap, {name: {(name, 0): 5} for name in names})
    snapshot(bootstrap, tmp_path, *names)
    delete_topics(bootstrap, ["ll-gone"])
    fresh_topics(bootstrap, {"ll-again": 1})
    add(bootstrap, {("ll-again", 0): again})
    begun = time.monotonic()
    summary = report(spark, tmp_path, write_properties(tmp_path, bootstrap))
    assert time.monotonic() - begun < 45
    assert summary["seconds_methods"] == {"first_unread_record:CreateTime": 1, "not_looked_up": 2}
    greatest = {row["topic"]: row["max_lag_seconds"] for row in summary["top_topics"]}
    assert greatest.pop("ll-stays") >= 0
    assert greatest == {"ll-gone": None, "ll-again": None}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security__protocol": "SSL", "ssl__truststore__location": "/nowhere"}, "/nowhere"),
        ({"bootstrap__servers": "127.0.0.1:1", "default__api__timeout__ms": "3000"}, "127.0.0.1:1"),
    ],
)
def test_the_reason_is_said_if_kafka_cannot_be_reached(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    write_snapshot(tmp_path, 1, seen(1))
    more = {"request__timeout__ms": "2000", **settings}
    with pytest.raises(JobError) as caught:
        report(spark, tmp_path, write_properties(tmp_path, "127.0.0.1:1", **more))
    assert said in str(caught.value)
    assert "Check " in str(caught.value)
