"""Two groups that sleep for longer than their broker remembers them: one is kept alive, the other one is forgotten.

The broker has the shortest retention that Kafka allows, ``offsets.retention.minutes=1``. Both groups had a real member,
which committed and left, so a commit alone would not keep them: the hardest case of docs/howto/keep-alive.md.

They fall asleep before the demo begins: ``python -m tests.demo.sleepers`` leaves their broker's data in ``ASLEEP``,
and each demo starts a broker with a copy. It looks for what has expired only when it is started again, after one of the
groups was kept alive: so the demo does not wait for the minute, and none of the groups is forgotten too soon.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from tests.demo.offsets import committed_offsets
from tests.lab.cluster import KafkaCluster
from tests.lab.errors import LabError
from tests.lab.machine.service import Service
from tests.lab.machine.waiting import until
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

VERSION = "4.4.0"
ASLEEP = Path(__file__).parents[2] / "build" / ".sleepers"
KEPT, CONTROL = "settlement-yearly", "inventory-yearly"
TOPIC = "settlements"
RETENTION_S = 60
TIMEOUT_S = 120.0
_LOOKS, _NEVER_LOOKS = 500, 24 * 3600 * 1000
_SINCE = "asleep_since"
_POLL_S = 0.25
_Offsets = Mapping[tuple[str, int], int]


def _cluster(looks_each_ms: int, data: Path | None) -> KafkaCluster:
    """Return the broker: new, or with a copy of the data of an earlier one."""
    settings = {
        "offsets.retention.minutes": RETENTION_S // 60,
        "offsets.retention.check.interval.ms": looks_each_ms,
        "offsets.topic.num.partitions": 1,
        "log.retention.ms": -1,
    }
    return KafkaCluster(version=VERSION, brokers=1, config=settings, heap_mb=256, data=data)


def _data(cluster: KafkaCluster) -> Path:
    return cluster.folder / "broker-1" / "data"


def fall_asleep(place: Path) -> None:
    """Have two groups commit and leave, and keep their broker's data."""
    with _cluster(_NEVER_LOOKS, None) as cluster:
        create_topics(cluster.bootstrap, {TOPIC: 1})
        produce(cluster.bootstrap, {(TOPIC, 0): 20})
        consumers = [
            LiveConsumer(cluster.bootstrap, group_id, [TOPIC], commit_every=0.1) for group_id in (KEPT, CONTROL)
        ]
        for consumer in consumers:
            consumer.start()
        for consumer in consumers:
            consumer.wait_committed()
            consumer.stop()
        since = time.time()
        cluster.kill(1)
        unfinished = place.with_name(f"{place.name}-unfinished")  # make takes a folder that is there for a whole one
        for folder in (unfinished, place):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(_data(cluster), unfinished / "data")
    (unfinished / _SINCE).write_text(str(since))
    unfinished.rename(place)


class Sleepers(Service):
    """Start the broker and its groups, and watch them until ``stop()`` or the end of the ``with`` block.

    :param place: the data of a broker on which they sleep.
    """

    def __init__(self, place: Path = ASLEEP) -> None:
        self.committed: Mapping[str, _Offsets] = {}
        self.found: Mapping[str, _Offsets] = {}
        """The offsets of both groups just after the control was forgotten."""
        self.slept = 0.0
        """Seconds from when both groups were Empty until then."""
        self._place = place
        self._cluster = _cluster(_NEVER_LOOKS, place / "data")
        self._ready = threading.Event()
        self._kept = threading.Event()
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sleepers", daemon=True)

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers``, once the broker answers."""
        self._wait(self._ready.is_set, "the groups that sleep were not there")
        return self._cluster.bootstrap

    def start(self) -> Self:
        """Begin, without waiting for it."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the broker, and whoever waits for it. May be called twice."""
        self._stopped.set()
        self._kept.set()
        self._thread.join()
        self._cluster.stop()

    def forget(self) -> None:
        """Start the broker again, which then forgets what has slept for too long; without waiting for it."""
        self._kept.set()

    def wait_until_forgotten(self) -> None:
        """Wait until the broker has forgotten the control, and ``found`` is there; raises LabError if it does not."""
        self._wait(lambda: bool(self.found), f"{CONTROL} was not forgotten")

    def kept_alive(self) -> int:
        """Return how many groups have every offset still, after their broker would have forgotten them."""
        if self.slept < RETENTION_S or self.found.get(CONTROL):
            return 0
        return int(bool(self.committed[KEPT]) and self.found.get(KEPT) == self.committed[KEPT])

    def _wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        said = f"After {TIMEOUT_S:g} s {otherwise}."
        until(lambda: is_so() or self._failure or self._stopped.is_set(), TIMEOUT_S, said)
        if self._failure is not None:
            raise LabError(f"The broker with the groups that sleep failed: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            self._cluster.start()
            self.committed = self._offsets()
            self._ready.set()
            self._kept.wait()
            if not self._stopped.is_set():
                self._start_again()
                self._watch()
        except Exception as exc:  # noqa: BLE001  # whoever waits is told
            self._failure = exc

    def _start_again(self) -> None:
        before = self._cluster
        before.kill(1)
        self._cluster = _cluster(_LOOKS, _data(before))
        try:
            self._cluster.start()
        finally:
            before.stop()

    def _watch(self) -> None:
        since = float((self._place / _SINCE).read_text())
        while not self._stopped.wait(_POLL_S):
            found = self._offsets()
            if not found[CONTROL]:
                self.slept, self.found = time.time() - since, found
                return

    def _offsets(self) -> dict[str, dict[tuple[str, int], int]]:
        return committed_offsets(self._cluster.bootstrap, (KEPT, CONTROL))


if __name__ == "__main__":
    try:
        fall_asleep(ASLEEP)
    except LabError as error:
        sys.exit(f"{error}")
