"""A cluster that knows nothing of this package: retired groups, a live one, and some that commit without members."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

RETIRED = frozenset(f"app-retired-{number:02d}" for number in range(20))
LIVE = "orders-api"
MOVING = frozenset(f"flink-fraud-{number:02d}" for number in range(25))  # a plan has at most half of all groups
KEPT = frozenset({LIVE, *MOVING})
_TOPIC, _RECORDS, _TICK_S = "orders", 5_000, 2.0


@contextmanager
def foreign_cluster(version: str) -> Iterator[str]:
    """Run three brokers with their groups; yield the bootstrap servers."""
    stopped = threading.Event()
    with KafkaCluster(version=version) as kafka:
        create_topics(kafka.bootstrap, {_TOPIC: 3})
        produce(kafka.bootstrap, {(_TOPIC, partition): _RECORDS for partition in range(3)})
        seed_groups(kafka.bootstrap, RETIRED, {(_TOPIC, 0): 100, (_TOPIC, 1): 50})

        def commit() -> None:
            for offset in range(1, _RECORDS):
                commit_offsets(kafka.bootstrap, {group: {(_TOPIC, 2): offset} for group in MOVING})
                if stopped.wait(_TICK_S):
                    return

        thread = threading.Thread(target=commit, name="moving", daemon=True)
        with LiveConsumer(kafka.bootstrap, LIVE, [_TOPIC]):
            thread.start()
            try:
                yield kafka.bootstrap
            finally:
                stopped.set()
                thread.join()
