"""Move groups from one real cluster to another: ``python -m tests.demo.migration`` (``make demo-migrate``).

A mirror with shifted offsets is written: the source begins later, one topic is compacted, both sides have transaction
markers. Groups are migrated by each method, consumers go on reading in the target, and what they read is compared with
what they had left. Writes ``build/migrate/summary.json``, and exits with 1 if a record was skipped, or more were read
twice than was announced.
"""

import asyncio
import json
import random
import struct
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, Producer, TopicPartition

from airflow_kafka_groups.change.migrate import MigrateRequest, MigrationPlan
from airflow_kafka_groups.change.restore.change_offsets import ChangeTerms, change_offsets
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka import ClientConfig
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.storage.layout import Layout
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, delete_records, quiet

HEADER = "redpanda-migrator-offset"
METHODS = ("header", "payload", "offset-syncs", "timestamp")
BEGUN_MS = int(time.time() * 1000) - 60_000  # brokers delete what is older than their retention
_TIMEOUT_S = 60.0
_SYNC_EVERY = 7

Where = tuple[str, int]
Rows = list[tuple[int, int]]


@dataclass
class Mirrored:
    """The topics: what the source has, and what was copied, by the partition of the source."""

    orders: str
    ledger: str
    syncs: str
    ends: dict[Where, int] = field(default_factory=dict)
    copied: dict[Where, list[int]] = field(default_factory=lambda: defaultdict(list))


def client_of(bootstrap: str) -> MaintenanceClient:
    """Return a client of a connection that forbids nothing."""
    config = ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})
    return MaintenanceClient(config, ConnectionSettings(conn_id="lab", properties={}))


def write_source(bootstrap: str, name: str, partitions: int, records: int, chance: random.Random) -> Mirrored:
    """Write the source: transactions, some of them aborted, and a topic whose keys repeat. Its first records expire."""
    scene = Mirrored(f"orders-{name}", f"ledger-{name}", f"mm2-offset-syncs.{name}.internal")
    create_topics(bootstrap, {scene.orders: partitions, scene.ledger: partitions, scene.syncs: 1})
    producer = Producer(quiet(bootstrap, transactional_id=f"source-{name}", linger_ms=5))
    producer.init_transactions(_TIMEOUT_S)
    for start in range(0, records, 10):
        producer.begin_transaction()
        for number in range(start, start + 10):
            at = BEGUN_MS + number // 2 * 10  # two of each millisecond
            for partition in range(partitions):
                producer.produce(scene.orders, f"order {number}".encode(), partition=partition, timestamp=at)
                key = f"account {chance.randrange(60)}".encode()
                producer.produce(scene.ledger, f"{number}".encode(), key, partition, timestamp=at)
        if start % 50 == 40:
            producer.abort_transaction(_TIMEOUT_S)
        else:
            producer.commit_transaction(_TIMEOUT_S)
    delete_records(bootstrap, {(scene.orders, partition): 15 for partition in range(partitions)})
    return scene


def read_all(
    bootstrap: str, parts: Sequence[Where], group_id: str = "", stored: bool = False
) -> dict[Where, list[Any]]:
    """Return the records of partitions: all of them, or those behind the offsets that a group has committed."""
    consumer = Consumer(
        quiet(bootstrap, group_id=group_id or "reads-all", enable_partition_eof=True, isolation_level="read_committed")
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    found: dict[Where, list[Any]] = {part: [] for part in parts}
    left = set(parts)
    try:
        consumer.assign([TopicPartition(*part, OFFSET_STORED if stored else 0) for part in parts])
        deadline = time.monotonic() + _TIMEOUT_S
        while left and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                where, error = (str(message.topic()), int(message.partition() or 0)), message.error()
                if error is None:
                    found[where].append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(where)
        assert not left, f"{left} were not read to their ends"
    finally:
        consumer.close()
    return found


def mirror(source: str, target: str, name: str, scene: Mirrored, partitions: int) -> None:
    """Copy the source as a migrator does: orders in transactions, and of the ledger only what compaction has left."""
    topics = (scene.orders, scene.ledger)
    create_topics(target, {f"west.{topic}": partitions for topic in topics})
    read = read_all(source, [(topic, partition) for topic in topics for partition in range(partitions)])
    in_transactions = Producer(quiet(target, transactional_id=f"mirror-{name}", linger_ms=5))
    in_transactions.init_transactions(_TIMEOUT_S)
    plain = Producer(quiet(target, linger_ms=5))
    written: defaultdict[Where, Rows] = defaultdict(list)
    for (topic, partition), messages in read.items():
        scene.ends[topic, partition] = messages[-1].offset() + 1
        newest = {message.key(): message.offset() for message in messages}
        head = len(messages) * 2 // 3  # the newest segment is not compacted
        for first in range(0, len(messages), 13):
            producer = in_transactions if topic == scene.orders else plain
            if producer is in_transactions:  # whose markers have other timestamps than the records around them
                producer.begin_transaction()
            for number, message in enumerate(messages[first : first + 13], start=first):
                if topic == scene.ledger and number < head and newest[message.key()] != message.offset():
                    continue
                offset = message.offset()
                scene.copied[topic, partition].append(offset)

                def note(_: object, done: Any, where: Where = (topic, partition), offset: int = offset) -> None:
                    written[where].append((offset, done.offset()))

                producer.produce(
                    f"west.{topic}",
                    message.value(),
                    message.key(),
                    partition,
                    on_delivery=note,
                    timestamp=message.timestamp()[1],
                    headers=[(HEADER, offset.to_bytes(8, "big"))],
                )
            if producer is in_transactions:
                producer.commit_transaction(_TIMEOUT_S)
    assert plain.flush(_TIMEOUT_S) == 0
    _write_syncs(source, scene.syncs, written)


def _write_syncs(bootstrap: str, topic: str, written: Mapping[Where, Rows]) -> None:
    producer = Producer(quiet(bootstrap))
    for (of, partition), pairs in written.items():
        key = struct.pack(">h", len(of)) + of.encode() + struct.pack(">i", partition)
        for pair in pairs[::_SYNC_EVERY]:
            producer.produce(topic, struct.pack(">qq", *pair), key)
    assert producer.flush(_TIMEOUT_S) == 0


async def migrate(source: str, target: str, layout: Layout, **asked: Any) -> MigrationPlan:
    dry = MigrateRequest(source=lambda: client_of(source), topic_pattern="west.{topic}", **asked)
    async with client_of(target) as admin:
        await change_offsets(admin, layout, dry, ChangeTerms(dry_run=True))
        approved = MigrateRequest(plan_id=dry.made.plan_id, plan_digest=dry.made.digest)
        done = await change_offsets(admin, layout, approved, ChangeTerms(dry_run=False))
    assert not done.failures(), done.failures()
    return approved.made


def compare(
    target: str, scene: Mirrored, plan: MigrationPlan, before: Mapping[str, Mapping[Where, int]]
) -> Counter[str]:
    """Go on reading as each group, and count what it skips, reads twice, and was announced."""
    found: Counter[str] = Counter(groups=len(plan.groups))
    for group_id, group in plan.groups.items():
        found["refused"] += len(group.refused)
        if not group.rows:
            continue
        read = read_all(target, [(row.target.topic, row.target.partition) for row in group.rows], group_id, stored=True)
        for row in group.rows:
            where = (row.source_topic, row.source_partition)
            left = {offset for offset in scene.copied[where] if offset >= before[group_id][where]}
            got = [int.from_bytes(dict(message.headers())[HEADER], "big") for message in read[row.target]]
            twice = sum(offset < before[group_id][where] for offset in got)
            found += Counter(
                partitions=1,
                skipped_records=len(left.difference(got)),
                read_twice=twice,
                announced_read_twice=row.distance,
                read_twice_unannounced=max(twice - row.distance, 0),
            )
    return found


def run(
    source: str, target: str, folder: Path, *, groups: int, partitions: int = 2, records: int = 200
) -> dict[str, Any]:
    """Run the demo on two clusters, and return its summary."""
    began, chance = time.monotonic(), random.Random(7)
    name = f"{chance.randrange(10**9):x}{time.time_ns() % 10**6}"
    scene = write_source(source, name, partitions, records, chance)
    mirror(source, target, name, scene, partitions)
    prepared = time.monotonic() - began
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    methods: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        before: dict[str, dict[Where, int]] = {}
        for number in range(groups):  # the first is at the end, the second where records have expired
            ends = scene.ends.items()
            at = {
                where: end if number == 0 else 3 if number == 1 else chance.randrange(15, end + 1)
                for where, end in ends
            }
            before[f"{name}.{method}.{number}"] = at
        commit_offsets(source, before)
        asked = {"mirror_topic": scene.syncs} if method == "offset-syncs" else {}
        layout = Layout(folder, "target")
        plan = asyncio.run(migrate(source, target, layout, group_ids=list(before), method=method, **asked))
        methods[method] = dict(found := compare(target, scene, plan, before))
        total += found
        reasons.update(method for group in plan.groups.values() for _ in group.refused)
        methods[method]["reasons"] = sorted({str(why) for of in plan.groups.values() for why in of.refused.values()})[
            :5
        ]
    names = ("groups", "partitions", "skipped_records", "read_twice", "announced_read_twice", "read_twice_unannounced")
    return {
        **{each: total[each] for each in names},
        "refused": {
            method: {"partitions": methods[method].get("refused", 0), "reasons": methods[method].pop("reasons")}
            for method in METHODS
        },
        "methods": methods,
        "seconds": {"prepared": round(prepared, 1), "all": round(time.monotonic() - began, 1)},
    }


def main() -> int:
    folder = Path("build/migrate")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        KafkaCluster(version="4.4.0", brokers=1) as source,
        KafkaCluster(version="3.9.2", brokers=1) as target,
        tempfile.TemporaryDirectory() as storage,
    ):
        found = run(source.bootstrap, target.bootstrap, Path(storage), groups=25, partitions=4, records=1_000)
    (folder / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return int(bool(found["skipped_records"] or found["read_twice_unannounced"]))


if __name__ == "__main__":
    sys.exit(main())
