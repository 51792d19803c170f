"""Commits whose offsets brokers have removed since are signs of life all the same."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.observe.offsets_topic.scan import scan_batches
from airflow_kafka_groups.spark.offsets_topic.last_commits import last_commits
from tests.histories.offset_records import commit_key, commit_value
from tests.histories.shorthand import hour

pytestmark = [pytest.mark.spark, pytest.mark.safety]


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
