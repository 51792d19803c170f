"""The scan of the log of commits: compacted, without records, hidden, read twice at once, or read by a wrong clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.judge.evidence import REQUIRED
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.observe.offsets_topic.scan import scan_batches
from airflow_kafka_groups.spark.jobs import commit_history
from airflow_kafka_groups.spark.jobs.commit_history import parse_arguments, run
from airflow_kafka_groups.spark.kafka import offsets_topic
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.offsets_topic import TOPIC, Scanned, last_commits, read_log, scanned
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from airflow_kafka_groups.spark.kafka.reader import RECORD_SCHEMA
from tests.histories.offset_records import commit_key, commit_value
from tests.histories.shorthand import hour
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics
from tests.lab.workload.transactions import open_transaction
from tests.spark.kafka import write_properties
from tests.spark.offsets_topic.test_last_commits import manifest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NO_RECORD = "norecord-t"


def test_a_log_of_aborted_commits_is_read_and_has_no_group(spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster(version="3.9.2", brokers=1, config={"offsets.topic.num.partitions": "1"}) as cluster:
        create_topics(cluster.bootstrap, {NO_RECORD: 1})
        with open_transaction(cluster.bootstrap, "aborted", {(NO_RECORD, 0): 1}):
            pass
        path, out = str(write_properties(tmp_path, cluster.bootstrap)), str(tmp_path / "out")
        summary = run(spark, parse_arguments(["--kafka-properties", path, "--output", out]))
        assert (summary["offsets"], summary["records"]["records"], summary["groups"]) == (2, 0, 0)
        assert summary["read_until"] is not None


def test_a_log_that_spark_leaves_out_is_no_log_without_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        offsets_topic,
        "read_ranges",
        lambda *_, **__: spark.createDataFrame(spark.sparkContext.emptyRDD(), RECORD_SCHEMA),
    )
    whole = [Range(Partition(TOPIC, 0), 0, 2)]
    properties = KafkaProperties({"bootstrap.servers": "127.0.0.1:1"})
    with KafkaAdmin(spark, properties) as admin, pytest.raises(JobError, match="2 offsets and Spark would read none"):
        scanned(spark, admin, properties, whole)


@pytest.mark.safety
def test_a_commit_counts_although_its_offset_was_removed_since(spark: SparkSession) -> None:
    """A client without membership commits for a topic that is deleted before the next snapshot."""
    old, late = (int(hour(number).timestamp() * 1000) for number in (-5, 5))
    records = [
        (commit_key("g", "t", 0), commit_value(3, 10, at=old), 0, 0, hour(-5)),
        (commit_key("g", "of-a-day", 0), commit_value(3, 7, at=late), 0, 1, hour(5)),
        (commit_key("g", "of-a-day", 0), None, 0, 2, hour(6)),  # brokers remove the offsets of a deleted topic
    ]
    names = ("key", "value", "partition", "offset", "timestamp")
    kinds = (pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC"))
    columns = [pa.array(values, kind) for values, kind in zip(zip(*records, strict=True), kinds, strict=True)]
    table = pa.Table.from_batches(list(scan_batches([pa.record_batch(columns, names=names)])))
    (row,) = last_commits(spark.createDataFrame(table)).collect()
    assert row["last_commit_at"].timestamp() >= hour(5).timestamp()


COMPACTED = "compacted-t"
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
        create_topics(cluster.bootstrap, {COMPACTED: 2})
        yield cluster


def commits_of_others(bootstrap: str, times: int) -> None:
    for number in range(times):
        commit_offsets(bootstrap, {f"other-{each}": {(COMPACTED, 0): number} for each in range(50)})


def those_of(rows: DataFrame) -> list[str]:
    """Compute the rows; what an earlier query of the same frame has shuffled would be taken from there."""
    return sorted(row["group_id"] for row in rows.select("group_id").collect() if row["group_id"] in BOTH)


def read_slowly(monkeypatch: pytest.MonkeyPatch, module: ModuleType, bootstrap: str) -> None:
    """Begin to read when the ends are known, and a group has committed once more."""

    def slowly(*arguments: Any, **more: Any) -> Scanned:
        monkeypatch.setattr(module, "scanned", scanned)
        commit_offsets(bootstrap, {"alive": {(COMPACTED, 0): 5}})
        commits_of_others(bootstrap, 20)
        time.sleep(5)
        return scanned(*arguments, **more)

    monkeypatch.setattr(module, "scanned", slowly)


@pytest.mark.safety
def test_a_commit_that_gave_way_to_a_later_one_before_it_was_read(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5} for name in BOTH})
    with KafkaAdmin(spark, load_properties(spark, path)) as admin:
        judged = manifest(tmp_path, admin.cluster_id())

    read_slowly(monkeypatch, offsets_topic, busy.bootstrap)
    found = read_log(spark, path, REQUIRED, judged, 60.0)
    assert found.evidence.commits_until is not None
    assert found.rows is not None
    assert those_of(found.rows) == BOTH
    # An executor that has the rows of the log is lost, and only what is left of the log can be read again.
    spark.catalog.clearCache()
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5} for name in BOTH})
    commits_of_others(busy.bootstrap, 20)
    time.sleep(5)
    assert those_of(found.rows) == BOTH


@pytest.mark.safety
def test_the_tables_of_commits_have_it_once(
    spark: SparkSession, busy: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_properties(tmp_path, busy.bootstrap))
    commit_offsets(busy.bootstrap, {name: {(COMPACTED, 0): 5, (COMPACTED, 1): 6} for name in BOTH})
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
