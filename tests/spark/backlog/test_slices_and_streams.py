"""What remembers from slice to slice, or from run to run: a stream, results that a query adds up. As the pages say."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.lab.workload.topics import quiet
from tests.pages import shown_parts
from tests.spark.kafka import Submit, behind, committed, fresh_topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_stream_counts_an_hour_that_two_runs_have_read_once(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    code = shown_parts()["streaming_example"].replace("broker1:9092", kafka).replace("/streams/orders", str(tmp_path))
    assert len(code.splitlines()) <= 30
    fresh_topics(kafka, {"orders": 1})
    producer = Producer(quiet(kafka))

    def run(*minutes: int) -> list[tuple[Any, ...]]:
        for minute in minutes:
            at = datetime(2026, 1, 1, minute // 60, minute % 60, tzinfo=UTC).timestamp()
            producer.produce("orders", b"x", partition=0, timestamp=int(at * 1000))
        assert producer.flush(60) == 0
        exec(compile(code, "streaming_example", "exec"), {"spark": spark})
        rows = spark.read.schema("hour timestamp, topic string, records long").parquet(str(tmp_path / "hours"))
        return sorted((f"{row['hour']:%H}", row["records"]) for row in rows.collect())

    assert run(1, 2) == []
    assert run(59, 61) == [], "the hour may not be over"
    assert run(80, 150) == [("00", 3), ("01", 2)]


def test_results_of_slices_are_added_up_by_a_query(
    spark: SparkSession, kafka: str, submit: Submit, tmp_path: Path
) -> None:
    names: dict[str, Any] = {"F": F}
    exec(compile(shown_parts()["per_slice_example"], "per_slice_example", "exec"), names)
    behind(kafka, "slices", {("slices-a", 0): (1, 7), ("slices-b", 0): (0, 4)})
    arguments = ["--group", "slices", names["totals"], "--output", str(tmp_path / "out")]
    summary = submit(*arguments, "--max-records-per-slice", "3")
    assert summary["slices"] > 2
    found = names["of_all_slices"](spark, str(tmp_path / "out")).collect()
    assert {row["topic"]: row["records"] for row in found} == {"slices-a": 6, "slices-b": 4}
    assert spark.read.parquet(str(tmp_path / "out")).count() > 2, "a transform sees a slice, and not the backlog"
    assert committed(kafka, "slices", ("slices-a", 0), ("slices-b", 0)) == [7, 4]
