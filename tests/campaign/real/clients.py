"""The clusters of a campaign and what lives on them: consumers that go on, and clients that are no members."""

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Self

from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.campaign.real.offsets_log import OffsetsLog
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.fixtures import OFFSETS_PARTITIONS
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer, Protocol
from tests.lab.workload.topics import create_topics, produce, quiet

RECORDS, PARTITIONS = 400, 4
LIVE = "live."
"""The prefix of the groups of consumers that live as long as their cluster. Every run sees them."""
_TICK_S = 0.3
_COMMIT_S, _RECORD_S = 0.4, 0.2
"""How often a member commits, and how often there is a record to read: each is work for all brokers and consumers."""
LOSS_S = 3.0
"""Followers fetch every half a second at the latest, or as soon as a busy machine lets them."""


class Clients:
    """Threads that commit for the groups of all runs on a cluster, and the consumers of the groups named ``live.``."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._groups: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.restarts = 0
        protocols: list[Protocol] = ["classic", "consumer"] if cluster.version >= "4" else ["classic", "classic"]
        self._members = [
            LiveConsumer(self._bootstrap, f"{LIVE}member-{number}", ["live"], protocol=protocol, commit_every=_COMMIT_S)
            for number, protocol in enumerate(protocols)
        ]
        works = (self._commit, self._produce, self._flap)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def start(self) -> None:
        for member in self._members:
            member.start()
        for thread in self._threads:
            thread.start()
        for member in self._members:
            member.wait_committed()

    def stop(self) -> None:
        self._stopped.set()
        for member in self._members:
            member.stop()
        for thread in self._threads:
            thread.join()

    def live_groups(self) -> set[str]:
        """Return the groups that have a member all the time."""
        return {member.group_id for member in self._members}

    def check(self) -> None:
        """Raise LabError when a consumer that should go on has ended."""
        for member in self._members:
            member.check()

    def commit_with_metadata(self, group_ids: Iterable[str]) -> None:
        """Let these groups have an offset with metadata and the epoch of a leader."""
        admin = AdminClient(quiet(self._bootstrap))
        for group_id in group_ids:
            where = TopicPartition("dead", 0, 9, f"metadata of {group_id}", 0)
            (done,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id, [where])]).values()
            done.result(60)

    def begin(self, group_id: str, *, moves: bool) -> None:
        """Let a client without membership commit for a group from now on: further offsets, or always the same."""
        with self._lock:
            self._groups[group_id] = moves

    def end(self, group_ids: Iterable[str]) -> None:
        """Let clients without membership end."""
        with self._lock:
            for group_id in group_ids:
                self._groups.pop(group_id, None)

    def _commit(self) -> None:
        number = 0
        while not self._stopped.wait(_TICK_S):
            number += 1
            with self._lock:
                due = {id_: {("dead", 0): 1 + number % RECORDS if on else 7} for id_, on in self._groups.items()}
            with contextlib.suppress(LabError, OSError, EOFError):  # a broker is away: the next one will do
                if due:
                    commit_offsets(self._bootstrap, due)

    def _produce(self) -> None:
        """Write a record often enough for each member to have something to commit each time it does."""
        producer, partitions = Producer(quiet(self._bootstrap)), itertools.cycle(range(PARTITIONS))
        while not self._stopped.wait(_RECORD_S):
            with contextlib.suppress(BufferError, KafkaException):
                producer.produce("live", b"x", partition=next(partitions))
            producer.poll(0)
        producer.flush(1)

    def _flap(self) -> None:
        """Join and leave for as long as the cluster lives."""
        while not self._stopped.wait(random.uniform(0.2, 1.5)):
            with (
                contextlib.suppress(LabError, KafkaException),
                LiveConsumer(self._bootstrap, f"{LIVE}flapping", ["live"], commit_every=0.1),
            ):
                self._stopped.wait(random.uniform(0.3, 1.2))


class RealCluster:
    """Three brokers of one version, their consumers, and the log that tells the truth."""

    def __init__(self, version: str) -> None:
        config = {"group.min.session.timeout.ms": 1_000, "offsets.topic.num.partitions": OFFSETS_PARTITIONS}
        self.kafka = KafkaCluster(version=version, brokers=3, config=config)
        self._faults = threading.Lock()
        self._changes_of_leaders: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        self.kafka.start()
        topics = {"dead": PARTITIONS, "live": PARTITIONS}
        create_topics(self.bootstrap, topics, replication_factor=3)
        produce(self.bootstrap, {("dead", part): RECORDS for part in range(PARTITIONS)})
        commit_offsets(self.bootstrap, {"first": {("dead", 0): 1}})
        self.log = OffsetsLog(self.bootstrap)
        self.clients = Clients(self.kafka)
        self.clients.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.stop()
        self.log.stop()
        self.kafka.stop()

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Let nobody kill a broker in the block."""
        with self._faults:
            yield

    def restart_broker(self, number: int) -> None:
        """Kill a broker, leave it away for a moment, start it again, and give it its partitions back."""
        with self._faults, self._leaders_change():
            node_id = self.kafka.brokers[number % len(self.kafka.brokers)]
            self.kafka.kill(node_id)
            time.sleep(0.5)
            self.kafka.restart(node_id)
        self.elect()

    def elect(self) -> None:
        """Let the preferred leaders of all partitions be elected."""
        admin = AdminClient(quiet(self.bootstrap))
        with contextlib.suppress(KafkaException), self._leaders_change():
            admin.elect_leaders(ElectionType.PREFERRED, None).result(30)

    @contextlib.contextmanager
    def _leaders_change(self) -> Iterator[None]:
        began = time.time()
        try:
            yield
        finally:
            self._changes_of_leaders.append((began, time.time()))

    def may_lose(self, confirmed: float) -> bool:
        """Return whether a deletion that was confirmed about this time may have been lost with its leader.

        Kafka before 4.0 waits for no replica before it confirms one
        (``tests/integration/deleting/test_lost_deletion.py``).
        """
        return self.kafka.version < "4" and any(
            began - LOSS_S <= confirmed <= ended + LOSS_S for began, ended in self._changes_of_leaders
        )
