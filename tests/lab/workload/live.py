"""A real consumer in a thread: joins its group, reads, commits, and leaves when told."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.lab.errors import LabError
from tests.lab.machine.waiting import until
from tests.lab.workload.topics import quiet

Protocol = Literal["classic", "consumer"]
JOIN_TIMEOUT_S = 30.0
_POLL_S = 0.2
_WATCH_S = 0.02


class LiveConsumer:
    """One member of a group until ``stop()`` or the end of the ``with`` block.

    :param bootstrap: bootstrap servers.
    :param group_id: the group to join.
    :param topics: topics to subscribe to.
    :param protocol: ``classic``, or ``consumer`` for KIP-848 (brokers from 4.0 on).
    :param commit_every: seconds between commits; ``None`` never commits.
    :param fetch_wait_ms: how long each broker holds a fetch for which there are no records; new ones end the wait.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        topics: Sequence[str],
        *,
        protocol: Protocol = "classic",
        commit_every: float | None = 0.5,
        fetch_wait_ms: int = 200,
    ) -> None:
        self.group_id = group_id
        self.protocol = protocol
        self._bootstrap = bootstrap
        self._topics = list(topics)
        self._commit_every = commit_every
        self._fetch_wait_ms = fetch_wait_ms
        self._assigned = threading.Event()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._records = 0
        self._commits = 0
        self._thread = threading.Thread(target=self._run, name=f"live-{group_id}", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        self.wait_assigned()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def records(self) -> int:
        return self._records

    @property
    def commits(self) -> int:
        return self._commits

    def start(self) -> None:
        """Begin to join, without waiting for it."""
        self._thread.start()

    def wait_assigned(self) -> None:
        """Wait until the group has given this member its partitions; raises LabError when that takes too long."""
        self._await(self._assigned.is_set, "got no partitions")

    def wait_committed(self) -> None:
        """Wait until this member has committed once; raises LabError when that takes too long."""
        self._await(lambda: self._commits > 0, "committed nothing")

    def check(self) -> None:
        """Raise LabError when the consumer has come to an end by itself."""
        if self._failure is not None:
            raise LabError(f"The consumer of {self.group_id} failed: {self._failure}.") from self._failure

    def stop(self) -> None:
        """Leave the group and wait for the thread's end; may be called twice."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _await(self, is_so: Callable[[], bool], otherwise: str) -> None:
        said = f"The consumer of {self.group_id} {otherwise} within {JOIN_TIMEOUT_S:g} s."
        until(is_so, JOIN_TIMEOUT_S, said, every=_WATCH_S, meanwhile=self.check)

    def _run(self) -> None:
        consumer = Consumer(
            quiet(self._bootstrap)
            | {
                "group.id": self.group_id,
                "group.protocol": self.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": self._fetch_wait_ms,
            }
        )
        try:
            consumer.subscribe(self._topics, on_assign=lambda *_: self._assigned.set())
            self._consume(consumer)
        except KafkaException as exc:
            self._failure = exc
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer) -> None:
        uncommitted = 0
        next_commit = time.monotonic()
        while not self._stopped.is_set():
            message = consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                uncommitted += 1
                self._records += 1
            due = self._commit_every is not None and time.monotonic() >= next_commit
            if uncommitted and due:
                next_commit = time.monotonic() + (self._commit_every or 0)
                with contextlib.suppress(KafkaException):  # a rebalance or a killed broker: the next one will do
                    consumer.commit(asynchronous=False)
                    self._commits += 1
                    uncommitted = 0


@contextlib.contextmanager
def committing(bootstrap: str, group_id: str, where: tuple[str, int], offset: int) -> Iterator[None]:
    """Run a live consumer that is never a member, and for which nothing arrives: it commits where it stands."""
    stands = [TopicPartition(*where, offset)]
    consumer = Consumer(quiet(bootstrap, group_id=group_id, enable_auto_commit=False))
    consumer.assign(stands)
    consumer.commit(offsets=stands, asynchronous=False)
    stop = threading.Event()

    def commit() -> None:
        while not stop.wait(0.2):
            consumer.commit(offsets=stands, asynchronous=False)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        consumer.close()
