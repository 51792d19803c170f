"""Reads of exact offset ranges with Spark's Kafka source.

Partitions are assigned by name, because ``subscribe`` requires offsets for every partition; empty ranges are omitted,
because each costs a task; brokers wait 20 ms for more data instead of half a second in every task.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Range
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties

_POLL = "kafkaConsumer.pollTimeoutMs"
_NETWORK_TIMEOUT = "spark.network.timeout"
# For a record. Spark's default of two minutes with four attempts is too long for unreachable brokers.
_PATIENCE_MS = 30_000
_SHOWN = 10

RECORD_SCHEMA = (
    "key binary, value binary, topic string, partition int, `offset` long, timestamp timestamp_ltz, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of Spark's Kafka source, with headers."""

_CAUSES = (
    (
        ("Some data may have been lost", "OffsetOutOfRange"),
        "retention removed records during the read, or a log was truncated: run it again",
    ),
    (("AuthorizationException",), "the user lacks Read on a topic: give it that right"),
    (("AuthenticationException",), "the brokers refuse the credentials: check the Kafka properties"),
    (("UnknownTopicOrPartition",), "a topic was deleted while it was read: run it again"),
    (
        ("ClassNotFoundException: org.apache.spark.sql.kafka010", "NoClassDefFoundError: org/apache/kafka"),
        "the executors do not have the Kafka connector, or not all its jars: submit with --packages or --jars, which "
        "bring them there; the driver's class path does not",
    ),
    (
        ("TimeoutException", "timed out", "Cannot fetch record", "No resolvable bootstrap urls"),
        "the executors do not reach the brokers{brokers}, or too slowly: let the executors' machines connect to them, "
        "at the addresses that the brokers advertise (advertised.listeners)",
    ),
)
"""Parts of Spark's messages, and their explanation."""


def explain(exc: BaseException, brokers: Sequence[str] = ()) -> str:
    """Return why Spark failed in one sentence, with the remedy if Kafka is the cause."""
    text = str(exc)
    meaning = next((f" ({what})" for marks, what in _CAUSES if any(mark in text for mark in marks)), "")
    named = f" {', '.join(brokers[:_SHOWN])}{' …' if len(brokers) > _SHOWN else ''}" if brokers else ""
    return f"Spark failed: {first_line(exc)}{meaning.replace('{brokers}', named)}"


def source_options(ranges: Sequence[Range]) -> dict[str, str]:
    """Return the options of Spark's Kafka source that limit a batch read to these ranges.

    :param ranges: at most one per partition; empty ones are omitted.
    """
    chosen = [each for each in ranges if each.end > each.start]
    names = [each.partition for each in chosen]
    if len(set(names)) != len(names):
        raise JobError("two ranges name the same partition: read them one after the other")
    if any(each.start < 0 for each in chosen):
        raise JobError("a range starts below offset 0")
    starts: dict[str, dict[int, int]] = defaultdict(dict)
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), start, end in chosen:
        starts[topic][partition], ends[topic][partition] = start, end
    assigned = {topic: list(partitions) for topic, partitions in starts.items()}
    given = {"assign": assigned, "startingOffsets": starts, "endingOffsets": ends}
    return {option: json.dumps(value) for option, value in given.items()}


def read_ranges(
    spark: SparkSession,
    properties: KafkaProperties,
    ranges: Sequence[Range],
    *,
    isolation_level: str = "read_committed",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records of these ranges as Spark's Kafka source does, including headers.

    :param ranges: at most one range per partition.
    :param isolation_level: ``read_committed`` (default) omits records of aborted transactions.
    :param options: further options of the source, e.g. ``maxRecordsPerPartition``.

    Records that retention removes before they are read fail the read: nothing is omitted silently. Call
    ``options_hidden`` around it, so that no plan or log shows the connection's secrets.
    """
    if not any(each.offsets > 0 for each in ranges):
        return spark.createDataFrame([], RECORD_SCHEMA)
    patience = {} if spark.sparkContext.getConf().contains(_NETWORK_TIMEOUT) else {_POLL: str(_PATIENCE_MS)}
    settings = {
        "includeHeaders": "true",
        "kafka.fetch.max.wait.ms": "20",
        **patience,
        **{f"kafka.{name}": value for name, value in properties.settings.items()},
        "kafka.isolation.level": isolation_level,
        **(options or {}),
        **source_options(ranges),
        "failOnDataLoss": "true",
    }
    return spark.read.format("kafka").options(**settings).load()
