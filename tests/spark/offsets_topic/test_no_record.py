"""A log of commits whose offsets have no record: a transaction that was aborted leaves its marker only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Partition, Range
from airflow_kafka_groups.spark.jobs.commit_history import parse_arguments, run
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.kafka.reader import RECORD_SCHEMA
from airflow_kafka_groups.spark.offsets_topic import reading
from airflow_kafka_groups.spark.offsets_topic.last_commits import read_folder
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.topics import create_topics
from tests.lab.workload.transactions import open_transaction
from tests.spark.kafka import write_properties

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TOPIC = "norecord-t"


def test_a_log_of_aborted_commits_is_read_and_has_no_group(spark: SparkSession, tmp_path: Path) -> None:
    with KafkaCluster(version="3.9.2", brokers=1, config={"offsets.topic.num.partitions": "1"}) as cluster:
        create_topics(cluster.bootstrap, {TOPIC: 1})
        with open_transaction(cluster.bootstrap, "aborted", {(TOPIC, 0): 1}):
            pass
        path, out = str(write_properties(tmp_path, cluster.bootstrap)), str(tmp_path / "out")
        summary = run(spark, parse_arguments(["--kafka-properties", path, "--output", out]))
        assert (summary["offsets"], summary["records"]["records"], summary["groups"]) == (2, 0, 0)
        found = read_folder(spark, out, summary["kafka_cluster_id"])
        assert found.evidence.commits_until is not None


def test_a_log_that_spark_leaves_out_is_no_log_without_records(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        reading, "read_ranges", lambda *_, **__: spark.createDataFrame(spark.sparkContext.emptyRDD(), RECORD_SCHEMA)
    )
    whole = [Range(Partition(reading.TOPIC, 0), 0, 2)]
    properties = KafkaProperties({"bootstrap.servers": "127.0.0.1:1"})
    with KafkaAdmin(spark, properties) as admin, pytest.raises(JobError, match="2 offsets and Spark would read none"):
        reading.scanned(spark, admin, properties, whole)
