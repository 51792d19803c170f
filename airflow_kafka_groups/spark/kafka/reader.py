"""Reads of exact offset ranges with Spark's Kafka source, and of the timestamps of single records.

Partitions are assigned by name, because ``subscribe`` requires offsets for every partition. Timestamps are read by one
consumer in the driver: partitions are sought and polled together, and a round has one offset of each.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Partition, Range, Timestamp
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.kafka.admin import explained, partition_of
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties

_POLL = "kafkaConsumer.pollTimeoutMs"
_NETWORK_TIMEOUT = "spark.network.timeout"
# For a record. Spark's default of two minutes with four attempts is too long for unreachable brokers.
_PATIENCE_MS = 30_000

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
    (
        ("ClassNotFoundException: org.apache.spark.sql.kafka010", "NoClassDefFoundError: org/apache/kafka"),
        "the executors do not have the Kafka connector, or not all its jars: submit with --packages or --jars, which "
        "bring them there; the driver's class path does not",
    ),
    (
        ("TimeoutException", "timed out", "Cannot fetch record", "No resolvable bootstrap urls"),
        "the executors do not reach the brokers, or too slowly: let the executors' machines connect to them, "
        "at the addresses that the brokers advertise (advertised.listeners)",
    ),
)
"""Parts of Spark's messages, and their explanation."""


def explain(exc: BaseException) -> str:
    """Return why Spark failed in one sentence, with the remedy if Kafka is the cause."""
    text = str(exc)
    meaning = next((f" ({what})" for marks, what in _CAUSES if any(mark in text for mark in marks)), "")
    return f"Spark failed: {first_line(exc)}{meaning}"


def source_options(ranges: Sequence[Range]) -> dict[str, str]:
    """Return the options of Spark's Kafka source that limit a batch read to these ranges, at most one per partition."""
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
    :param options: further options of the source, e.g. ``maxRecordsPerPartition``.

    Records that retention removes before they are read fail the read. Call ``options_hidden`` around it, so that no
    plan or log shows the connection's secrets.
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


_AT_ONCE = 1_000
_WAIT_SECONDS = 60.0  # for the records of so many partitions
_POLL_MILLISECONDS = 500
_SETTINGS = {
    "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",  # if retention was faster: the oldest existing record
    "allow.auto.create.topics": "false",
    "max.partition.fetch.bytes": "65536",  # one record is enough; a larger batch is still returned, alone
    "fetch.max.wait.ms": "100",
}
_NO_RECORD = "none"


def look_up(
    spark: SparkSession, properties: KafkaProperties, wanted: Iterable[tuple[Partition, int]]
) -> list[Timestamp]:
    """Return the timestamp of the first record at or after each offset, which must be within its log.

    Offsets without a record have ``None``. Those whose record did not arrive in time, or that the log does not reach
    any more, are left out. Raises ``JobError`` if the client cannot be used.
    """
    rounds = _rounds(wanted)
    if not rounds:
        return []
    jvm: Any = spark._jvm
    found: list[Timestamp] = []
    with explained(properties, "timestamps cannot be looked up"):
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer({**properties.settings, **_SETTINGS})
        try:
            for batch in rounds:
                found += _one_round(jvm, consumer, batch)
        finally:
            consumer.close(jvm.java.time.Duration.ofSeconds(5))
    return found


def _rounds(wanted: Iterable[tuple[Partition, int]]) -> list[dict[Partition, int]]:
    of_partition: Counter[Partition] = Counter()
    levels: dict[int, list[tuple[Partition, int]]] = defaultdict(list)
    for where, offset in sorted(set(wanted)):
        levels[of_partition[where]].append((where, offset))
        of_partition[where] += 1
    return [dict(each[start : start + _AT_ONCE]) for each in levels.values() for start in range(0, len(each), _AT_ONCE)]


def _one_round(jvm: Any, consumer: Any, offsets: Mapping[Partition, int]) -> list[Timestamp]:
    named = {where: jvm.org.apache.kafka.common.TopicPartition(*where) for where in offsets}
    waiting = dict(offsets)
    found: list[Timestamp] = []
    consumer.assign(list(named.values()))
    consumer.resume(consumer.paused())  # a partition stays paused from one round to the next
    for where, offset in offsets.items():
        consumer.seek(named[where], offset)
    ends = consumer.endOffsets(list(named.values()))
    deadline = time.monotonic() + _WAIT_SECONDS
    while waiting and time.monotonic() < deadline:
        records = consumer.poll(jvm.java.time.Duration.ofMillis(_POLL_MILLISECONDS))
        firsts = {partition_of(of): records.records(of).get(0) for of in records.partitions()}
        done = {where: _time(record) for where, record in firsts.items()}
        # Only markers or aborted records may remain; the position then reaches the end without a record.
        for where in waiting.keys() - done.keys():
            if consumer.position(named[where]) >= ends.get(named[where]):
                done[where] = None, _NO_RECORD
        if done:
            consumer.pause([named[where] for where in done])
        for where, time_of in done.items():
            offset = waiting.pop(where)
            # The client notices an offset beyond the end late, and goes to the start then.
            reached = firsts[where].offset() if where in firsts else ends.get(named[where])
            if reached >= offset:
                found.append((*where, offset, *time_of))
    return found


def _time(record: Any) -> tuple[int | None, str]:
    timestamp = int(record.timestamp())
    return timestamp if timestamp >= 0 else None, str(record.timestampType().toString())
