"""The log of commits is compacted while it is read: a commit that gave way to a later one is still a sign of life."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.judge.evidence import REQUIRED
from airflow_kafka_groups.spark.jobs import commit_history
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.offsets_topic import last_commits
from airflow_kafka_groups.spark.offsets_topic.last_commits import read_log
from airflow_kafka_groups.spark.offsets_topic.reading import Scanned, scanned
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics
from tests.spark.kafka import write_properties
from tests.spark.offsets_topic.test_last_commits import manifest

pytestmark = [pytest.mark.spark, pytest.mark.safety, pytest.mark.timeout(300)]

TOPIC = "compacted-t"
BOTH = ["alive", "dead"]
SMALL = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "16384",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.compaction.lag.ms": "0",
}


@pytest.fixture
def busy() -> Iterator[KafkaCluster]:
    """A cluster whose log of commits is cleaned within moments, as it is on a slow machine in minutes."""
    with KafkaCluster(version="3.9.2", brokers=1, config=SMALL, timeout=50) as cluster:
        create_topics(cluster.bootstrap, {TOPIC: 2})
        yield cluster


def commits_of_others(bootstrap: str, times: int) -> None:
    for number in range(times):
        commit_offsets(bootstrap, {f"other-{each}": {(TOPIC, 0): number} for each in range(50)})


def those_of(rows: DataFrame) -> list[str]:
    """Compute the rows; what an earlier query of the same frame has shuffled would be taken from there."""
    return sorted(row["group_id"] for row in rows.select("group_id").collect() if row["group_id"] in BOTH)


def read_slowly(monkeypatch: pytest.MonkeyPatch, module: ModuleType, bootstrap: str) -> None:
    """Begin to read when the ends are known, and a group has committed once more."""

    def slowly(*arguments: Any, **more: Any) -> Scanned:
        monkeypatch.setattr(module, "scanned", scanned)
        commit_offsets(bootstrap, {"alive": {(TOPIC, 0): 5}})
        commits_of_others(bootstrap, 20)
        time.sleep(5)
        return scanned(*arguments, **more)

    monkeypatch.setattr(module, "scanned", slowly)


def test_a_commit_that_gave_way_to_a_later_one_before_it_was_read(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(TOPIC, 0): 5} for name in BOTH})
    with KafkaAdmin(spark, load_properties(spark, path)) as admin:
        judged = manifest(tmp_path, admin.cluster_id())

    read_slowly(monkeypatch, last_commits, busy.bootstrap)
    found = read_log(spark, path, REQUIRED, judged, 60.0)
    assert found.evidence.commits_until is not None
    assert found.rows is not None
    assert those_of(found.rows) == BOTH
    # An executor that has the rows of the log is lost, and only what is left of the log can be read again.
    spark.catalog.clearCache()
    commit_offsets(busy.bootstrap, {name: {(TOPIC, 0): 5} for name in BOTH})
    commits_of_others(busy.bootstrap, 20)
    time.sleep(5)
    assert those_of(found.rows) == BOTH


def test_the_tables_of_commits_have_it_once(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(TOPIC, 0): 5, (TOPIC, 1): 6} for name in BOTH})
    read_slowly(monkeypatch, commit_history, busy.bootstrap)
    out = tmp_path / "out"
    summary = commit_history.run(
        spark, commit_history.parse_arguments(["--kafka-properties", path, "--output", str(out)])
    )
    commits = spark.read.parquet(str(out / "commits")).where("group_id IN ('alive', 'dead')").collect()
    assert sorted((row["group_id"], row["partition"]) for row in commits) == [
        (name, n) for name in BOTH for n in (0, 1)
    ]
    groups = spark.read.parquet(str(out / "groups")).where("group_id IN ('alive', 'dead')").collect()
    assert sorted((row["group_id"], row["partitions"]) for row in groups) == [(name, 2) for name in BOTH]
    assert summary["read_until"] is not None
