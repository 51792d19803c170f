"""Timestamps of records: the first one at or after an offset, for many partitions at once.

Uses one consumer of the connector's Kafka client in the driver, without a group. Partitions are sought and polled
together and paused after their record arrived, so that one poll serves many; a partition with several offsets takes one
round per offset.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.spark.kafka.admin import explained, partition_of
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties

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
    """Return the timestamp of the first record at or after each offset.

    :param wanted: partitions and offsets; the offsets must be within the logs.

    Offsets without a record have ``None``. Those whose record did not arrive in time, or that the log does not reach
    any more because the topic was recreated, are left out. Raises ``JobError`` if the client cannot be used.
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
    """Split the offsets so that no round has a partition twice or is too large."""
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
    """Return the timestamp of a record, and whose clock it is."""
    timestamp = int(record.timestamp())
    return timestamp if timestamp >= 0 else None, str(record.timestampType().toString())
