"""Two jobs that read the log of commits at once, in threads of one session."""

from __future__ import annotations

from threading import Event, Thread, current_thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.offsets_topic import reading

pytestmark = [pytest.mark.spark, pytest.mark.safety]


class EndedError(Exception):
    """The end of a reading."""


def test_the_end_of_one_does_not_hide_the_log_from_the_other(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the setting, Spark reads no record of an internal topic, and says nothing."""
    seen: list[Any] = []
    nobody: Any = None  # is asked for the end of the log after the reading only
    started, ended = Event(), Event()

    def read(*_: Any, **__: Any) -> Any:
        if current_thread() is second:
            started.set()
            ended.wait(60)
            seen.append(spark.conf.get(reading._INTERNAL_TOPICS))
        else:
            second.start()
            started.wait(60)
        raise EndedError

    def scan() -> None:
        with pytest.raises(EndedError):
            reading.scanned(spark, nobody, KafkaProperties({}), [])

    before = spark.conf.get(reading._INTERNAL_TOPICS)
    second = Thread(target=scan)
    monkeypatch.setattr(reading, "read_ranges", read)
    scan()
    ended.set()
    second.join()
    assert (seen, spark.conf.get(reading._INTERNAL_TOPICS)) == (["true"], before)
