"""What the tests of the backlog jobs share: a properties file, topics, and what was produced."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.lab.machine.waiting import until
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, delete_topics, quiet

Offsets = Mapping[tuple[str, int], int]
Submit = Callable[..., dict[str, Any]]
"""Run the job ``process_group_backlog`` with these arguments, and give its summary."""


def write_properties(folder: Path, bootstrap: str, **more: str) -> Path:
    """Write a properties file for a plain listener; dots of further names are written as two underscores."""
    settings = {"bootstrap.servers": bootstrap, **{name.replace("__", "."): value for name, value in more.items()}}
    path = folder / "kafka.properties"
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def fill(bootstrap: str, records: Offsets, **config: str) -> None:
    """Create the topics of these partitions and write so many records to each: value ``topic-partition-number``."""
    counts: dict[str, int] = {}
    for topic, partition in records:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    fresh_topics(bootstrap, counts, **config)
    add(bootstrap, records)


def behind(bootstrap: str, group_id: str, partitions: Mapping[tuple[str, int], tuple[int, int]]) -> None:
    """Fill partitions, and commit for a group, which has read some of them: what is committed, and the end."""
    fill(bootstrap, {where: end for where, (_, end) in partitions.items()})
    commit_offsets(bootstrap, {group_id: {where: offset for where, (offset, _) in partitions.items()}})


def fresh_topics(bootstrap: str, partitions: Mapping[str, int], **config: str) -> None:
    """Create topics; those that a first try of the test left are deleted before, with what groups committed there."""
    admin = AdminClient(quiet(bootstrap))
    left = [topic for topic in partitions if topic in admin.list_topics(timeout=60).topics]
    if left:
        delete_topics(bootstrap, left)
        until(lambda: not {*left} & admin.list_topics(timeout=60).topics.keys(), otherwise=f"{left} are still there")
    create_topics(bootstrap, partitions, config={name.replace("_", "."): value for name, value in config.items()})


def add(bootstrap: str, records: Offsets) -> None:
    producer = Producer(quiet(bootstrap, linger_ms=5))
    for (topic, partition), count in records.items():
        for number in range(count):
            producer.produce(topic, f"{topic}-{partition}-{number}", key=f"k{number}", partition=partition)
    assert producer.flush(60) == 0


def committed(bootstrap: str, group_id: str, *partitions: tuple[str, int]) -> list[int]:
    consumer = Consumer(quiet(bootstrap, group_id=group_id))
    try:
        found = consumer.committed([TopicPartition(*where) for where in partitions], timeout=30)
        return [each.offset for each in found]
    finally:
        consumer.close()


def fetched_file(path: Path, group_id: str, offsets: Offsets, ends: Offsets, **changes: Any) -> Path:
    """Write fetched offsets as ``GroupOffsetsToSparkOperator`` does."""
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "committed_offset": offset,
            "leader_epoch": None,
            "metadata": "",
            "log_end": ends[topic, partition],
        }
        for (topic, partition), offset in offsets.items()
    ]
    content = {"format": 1, "backlog_id": "b", "kafka_cluster_id": None, "group_id": group_id, "partitions": rows}
    path.write_text(json.dumps(content | changes))
    return path
