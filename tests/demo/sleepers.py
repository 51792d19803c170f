"""Two groups that sleep for longer than their broker remembers them: one is kept alive, the other one is forgotten.

The broker has the shortest retention that Kafka allows, ``offsets.retention.minutes=1``. Both groups had a real member,
which committed and left, so a commit alone would not keep them: the hardest case of docs/concepts/keep-alive.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from tests.demo.offsets import committed_offsets
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.machine.service import Service
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

KEPT, CONTROL = "settlement-yearly", "inventory-yearly"
TOPIC = "settlements"
RETENTION_S = 60
SETTINGS = {
    "offsets.retention.minutes": RETENTION_S // 60,
    "offsets.retention.check.interval.ms": 500,
    "offsets.topic.num.partitions": 1,
}
TIMEOUT_S = 120.0
_POLL_S = 0.25
_PATIENCE_S = RETENTION_S / 2
_Offsets = Mapping[tuple[str, int], int]


class Sleepers(Service):
    """Start the broker and its groups, and watch them until ``stop()`` or the end of the ``with`` block.

    :param version: the version of the broker.

    Raises LabError when the broker does not come up.
    """

    def __init__(self, version: str) -> None:
        self.committed: Mapping[str, _Offsets] = {}
        self.found: Mapping[str, _Offsets] = {}
        """The offsets of both groups just after the control was forgotten."""
        self.slept = 0.0
        """Seconds from when both groups were Empty until then."""
        self._cluster = KafkaCluster(version=version, brokers=1, config=SETTINGS, heap_mb=256)
        self._asked = threading.Event()
        self._asleep = threading.Event()
        self._stopped = threading.Event()
        self._empty_at = 0.0
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sleepers", daemon=True)

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers``, once both groups sleep. They sleep for less than half a minute then."""
        self._asked.set()
        self._wait(self._asleep.is_set, "the groups that sleep were not there")
        return self._cluster.bootstrap

    def start(self) -> Self:
        """Begin, without waiting for it."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the broker, and whoever waits for it. May be called twice."""
        self._stopped.set()
        self._thread.join()
        self._cluster.stop()

    def wait_until_forgotten(self) -> None:
        """Wait until the broker has forgotten the control, and ``found`` is there; raises LabError if it does not."""
        self._wait(lambda: bool(self.found), f"{CONTROL} was not forgotten")

    def kept_alive(self) -> int:
        """Return how many groups have every offset still, after their broker would have forgotten them."""
        if self.slept < RETENTION_S or self.found.get(CONTROL):
            return 0
        return int(bool(self.committed[KEPT]) and self.found.get(KEPT) == self.committed[KEPT])

    def _wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            if self._failure is not None:
                raise LabError(f"The broker with the groups that sleep failed: {self._failure}") from self._failure
            if self._stopped.is_set() or time.monotonic() > deadline:
                raise LabError(f"After {TIMEOUT_S:g} s {otherwise}.")
            time.sleep(_POLL_S)

    def _run(self) -> None:
        try:
            self._cluster.start()
            create_topics(self._cluster.bootstrap, {TOPIC: 1})
            self._fall_asleep()
            # Where Airflow takes long to start, they would be forgotten before one of them can be kept alive.
            while not self._asked.wait(_PATIENCE_S) and not self._stopped.is_set():
                self._fall_asleep()
            self._asleep.set()
            self._watch()
        except Exception as exc:  # noqa: BLE001  # whoever waits is told
            self._failure = exc

    def _fall_asleep(self) -> None:
        bootstrap = self._cluster.bootstrap
        produce(bootstrap, {(TOPIC, 0): 20})
        consumers = [LiveConsumer(bootstrap, group_id, [TOPIC], commit_every=0.1) for group_id in (KEPT, CONTROL)]
        for consumer in consumers:
            consumer.start()
        for consumer in consumers:
            consumer.wait_committed()
            consumer.stop()
        self._empty_at = time.monotonic()
        self.committed = self._offsets()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_S):
            found = self._offsets()
            if not found[CONTROL]:
                self.slept, self.found = time.monotonic() - self._empty_at, found
                return

    def _offsets(self) -> dict[str, dict[tuple[str, int], int]]:
        return committed_offsets(self._cluster.bootstrap, (KEPT, CONTROL))
