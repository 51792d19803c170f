"""What a cluster that nobody has tidied looks like: some 300 groups, most of them dead, a few that must not be touched.

::

    live        real members that keep committing, half of them with the KIP-848 protocol; one whose topic is silent,
                and one that has offsets of a topic which it has left
    moving      no members, yet offsets that advance every second (how Flink or Spark commit)
    stale       Empty and unmoved, of four owners: old versions, reports, console consumers, former indexers
    sleeping    just as Empty and unmoved, but they must not lose their place: settlement-*
    protected   Empty and unmoved, too, but with names that nothing may delete: connect-*, payments-critical-*
    share       a KIP-932 share group whose only consumer came and left

Names are the same in every run. Everything runs in a few threads of this process, beside the DAGs.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.machine.service import Service
from tests.lab.tools import share_consumer
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer, Protocol
from tests.lab.workload.topics import create_topics, produce

TOPICS = {"orders": 6, "payments": 4, "clicks": 8, "audit": 2}
SILENT_TOPIC = "archive"  # has records, gets no new ones
LEFT_TOPIC, LEFT_BY = "clicks-2025", "clicks-sessions"
"""A topic, and the live group that used to read it."""
PRUNABLE = 3
"""The partitions of that topic; the group has offsets of all."""
RECORDS = 1000  # in each partition at the start
TICK_S = 1.0
FETCH_WAIT_MS = 1000

LIVE: Mapping[str, tuple[str, Protocol]] = {
    "orders-api": ("orders", "classic"),
    "orders-enricher": ("orders", "consumer"),
    "payments-ledger": ("payments", "classic"),
    "payments-alerts": ("payments", "consumer"),
    "clicks-sessions": ("clicks", "consumer"),
    "audit-sink": ("audit", "classic"),
    "archive-reader": (SILENT_TOPIC, "classic"),
}
SHARE_GROUP = "notifications-share"
FAMILIES, OWNERS = 3, 4
"""Of the stale groups: versions, UUIDs and numbers; checkout, analytics, platform and search."""
# Stale ones that had real members once: a group made by commits alone looks different to a broker.
_READERS: tuple[tuple[str, Protocol], ...] = (
    ("orders", "classic"),
    ("payments", "consumer"),
    ("clicks", "classic"),
    ("audit", "consumer"),
)
_INDEXES = ("ranking", "suggest", "synonyms", "spelling", "popular", "images", "logs", "archive")
LEFT = {f"search.{index}": reader for index, reader in zip(_INDEXES, _READERS * 2, strict=True)}
_Committed = dict[tuple[str, int], int]


def moving_names() -> list[str]:
    """Return the groups that commit without members."""
    return [f"flink-{job}-{number:02d}" for job in ("fraud", "billing", "search") for number in range(20)]


def stale_names() -> list[str]:
    """Return the groups that nobody uses any more."""
    source = random.Random(20)
    deployed = [f"app-checkout-v{number}" for number in range(1, 71)]
    uuid_tailed = [f"report-{uuid.UUID(int=source.getrandbits(128), version=4)}" for _ in range(70)]
    console = [f"console-consumer-{number}" for number in source.sample(range(10_000, 99_999), 58)]
    return [*LEFT, *deployed, *uuid_tailed, *console]


def sleeping_names() -> list[str]:
    """Return the groups that are used again, some day."""
    return ["settlement-monthly", "settlement-yearly"]


def protected_names() -> list[str]:
    """Return the groups that look stale, but are excluded by name."""
    connectors: tuple[str, ...] = ("jdbc", "s3", "elastic", "snowflake", "mongo", "redis")
    connectors += ("bigquery", "gcs", "solr", "hdfs", "neo4j", "kudu")
    regions = [f"{area}-{side}" for area in ("eu", "us", "ap") for side in ("north", "east", "south", "west")]
    return [*(f"connect-{name}-sink" for name in connectors), *(f"payments-critical-{name}" for name in regions)]


class DemoWorkload(Service):
    """Fill a cluster and keep it busy until ``stop()`` or the end of the ``with`` block.

    :param cluster: a running cluster of Kafka 4.1 or newer, for its share groups.
    :param tick_s: seconds between two rounds of records, and of commits of the moving groups.

    Raises LabError when the workload cannot be set up.
    """

    def __init__(self, cluster: KafkaCluster, *, tick_s: float = TICK_S) -> None:
        self.families, self.owners, self.prunable = FAMILIES, OWNERS, PRUNABLE
        self.live = frozenset(LIVE)
        self.moving = frozenset(moving_names())
        self.stale = frozenset(stale_names())
        self.sleeping = frozenset(sleeping_names())
        self.protected = frozenset(protected_names())
        self.share = frozenset({SHARE_GROUP})
        self._cluster = cluster
        self._tick_s = tick_s
        self._bootstrap = cluster.bootstrap
        self._consumers: list[LiveConsumer] = []
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._longest_pause = 0.0
        self._moving_offsets = self._offsets(sorted(self.moving), random.Random(21))

    @property
    def groups(self) -> frozenset[str]:
        return self.live | self.moving | self.stale | self.sleeping | self.protected | self.share

    @property
    def longest_pause(self) -> float:
        """Return the most seconds that passed between two rounds of commits of the moving groups."""
        return self._longest_pause

    def start(self) -> Self:
        """Set everything up, and return when all members have joined and all groups are there."""
        partitions = TOPICS | {SILENT_TOPIC: 2, LEFT_TOPIC: PRUNABLE}
        create_topics(self._bootstrap, partitions)
        produce(self._bootstrap, {(t, p): RECORDS for t, count in partitions.items() for p in range(count)})
        commit_offsets(self._bootstrap, {LEFT_BY: {(LEFT_TOPIC, partition): 500 for partition in range(PRUNABLE)}})
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(self._leave_share_group), pool.submit(self._seed)]
            jobs += [pool.submit(self._come_and_go, group, *how) for group, how in LEFT.items()]
            self._join()
            for job in jobs:
                job.result()
        for work in (self._move, self._produce):
            thread = threading.Thread(target=self._guard, args=(work,), name=f"demo{work.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def check(self) -> None:
        """Raise LabError when a part of the workload has come to an end by itself."""
        if self._failure is not None:
            raise LabError(f"The demo's workload stopped: {self._failure}") from self._failure
        for consumer in self._consumers:
            consumer.check()

    def stop(self) -> None:
        """Stop all members and threads; the groups stay on the cluster. May be called twice."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(LiveConsumer.stop, self._consumers))
        self._threads.clear()
        self._consumers.clear()

    def _join(self) -> None:
        for group_id, (topic, protocol) in LIVE.items():
            consumer = LiveConsumer(self._bootstrap, group_id, [topic], protocol=protocol, fetch_wait_ms=FETCH_WAIT_MS)
            consumer.start()
            self._consumers.append(consumer)
        for consumer in self._consumers:
            consumer.wait_assigned()

    def _seed(self) -> None:
        unused = [*sorted(self.stale - LEFT.keys()), *sorted(self.sleeping), *sorted(self.protected)]
        commit_offsets(self._bootstrap, self._offsets(unused, random.Random(22)) | self._moving_offsets)

    def _come_and_go(self, group_id: str, topic: str, protocol: Protocol) -> None:
        with LiveConsumer(self._bootstrap, group_id, [topic], protocol=protocol, commit_every=0.1) as consumer:
            consumer.wait_committed()

    def _leave_share_group(self) -> None:
        with share_consumer(self._cluster, SHARE_GROUP, "clicks"):
            pass

    def _move(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(self._tick_s):
            for offsets in self._moving_offsets.values():
                for partition in offsets:
                    offsets[partition] = (offsets[partition] + 1) % RECORDS  # never beyond the end
            commit_offsets(self._bootstrap, self._moving_offsets)
            now = time.monotonic()
            self._longest_pause = max(self._longest_pause, now - last)
            last = now

    def _produce(self) -> None:
        while not self._stopped.wait(self._tick_s):
            produce(self._bootstrap, {(t, p): 2 for t, count in TOPICS.items() for p in range(count)})

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (LabError, OSError) as exc:
            self._failure = exc

    @staticmethod
    def _offsets(group_ids: Sequence[str], source: random.Random) -> dict[str, _Committed]:
        """Assign every group one to four partitions of a topic, somewhere in their middle."""
        made: dict[str, _Committed] = {}
        for group_id in group_ids:
            topic = source.choice(sorted(TOPICS))
            partitions = source.sample(range(TOPICS[topic]), min(TOPICS[topic], source.randint(1, 4)))
            made[group_id] = {(topic, partition): source.randrange(RECORDS) for partition in sorted(partitions)}
        return made
