"""The truth about groups: every commit and every deletion, as the brokers themselves wrote them down.

Brokers keep the offsets of groups in ``__consumer_offsets``: a commit is a record, and a deletion writes a record
without a value for each partition. Nothing of the package takes part in reading it.
"""

import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # as its manual says

from tests.lab.errors import LabError
from tests.lab.fixtures import OFFSETS_PARTITIONS
from tests.lab.wire import OFFSETS_TOPIC
from tests.lab.workload.topics import quiet

_SYNC_S = 180.0


class Value(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    epoch: int
    metadata: str


class Commit(NamedTuple):
    """One commit of one partition, and whether it changed anything."""

    at: float
    moved: bool


@dataclass(frozen=True, slots=True)
class Deleted:
    """One deletion of a group, with what it had."""

    group_id: str
    at: float
    had: dict[tuple[str, int], Value]


@dataclass(slots=True)
class GroupTruth:
    """What happened to a group."""

    has: dict[tuple[str, int], Value] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    deletions: list[Deleted] = field(default_factory=list)
    _deleting: bool = False

    def add(self, group_id: str, at: float, where: tuple[str, int], value: Value | None) -> None:
        """Add one record."""
        if value is not None:
            self.commits.append(Commit(at, self.has.get(where) != value))
            self.has[where] = value
            self._deleting = False
        elif where in self.has:
            if not self._deleting:
                self.deletions.append(Deleted(group_id, at, dict(self.has)))
            self._deleting = True
            del self.has[where]


class OffsetsLog:
    """A thread that reads ``__consumer_offsets`` of one cluster from its beginning."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._groups: dict[str, GroupTruth] = defaultdict(GroupTruth)
        self._positions = [0] * OFFSETS_PARTITIONS
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offsets-log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._thread.join()

    def sync(self) -> None:
        """Wait until everything that is committed by now has been read."""
        deadline = time.monotonic() + _SYNC_S
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(OFFSETS_TOPIC, part): latest for part in range(OFFSETS_PARTITIONS)}
        while True:
            try:
                # A new client each time: one that missed an election goes on asking the leader before.
                admin = AdminClient(quiet(self._bootstrap))
                found = admin.list_offsets(wanted, request_timeout=10)
                ends = {where.partition: future.result(15).offset for where, future in found.items()}
                break
            except (KafkaException, TimeoutError) as exc:
                if time.monotonic() > deadline:
                    raise LabError(f"The ends of {OFFSETS_TOPIC} cannot be listed: {exc}.") from exc
                time.sleep(0.2)
        while any(self._positions[part] < end for part, end in ends.items()):
            if time.monotonic() > deadline:
                late = {part: (self._positions[part], end) for part, end in ends.items() if self._positions[part] < end}
                raise LabError(f"{OFFSETS_TOPIC} was not read to its end in time: {late}.")
            time.sleep(0.02)

    def groups(self, prefix: str) -> dict[str, GroupTruth]:
        """Return copies of what is known of all groups with this prefix."""
        with self._lock:
            return {
                group_id: GroupTruth(dict(truth.has), list(truth.commits), list(truth.deletions))
                for group_id, truth in self._groups.items()
                if group_id.startswith(prefix)
            }

    def last_commits(self, prefix: str) -> dict[str, float]:
        """Return when each group committed last, as ``commit_history`` finds it."""
        self.sync()
        return {group_id: truth.commits[-1].at for group_id, truth in self.groups(prefix).items() if truth.commits}

    def _run(self) -> None:
        consumer = Consumer(
            quiet(self._bootstrap, enable_auto_commit=False)
            | {"group.id": "truth", "auto.offset.reset": "earliest", "enable.partition.eof": False}
        )
        consumer.assign([TopicPartition(OFFSETS_TOPIC, part, 0) for part in range(OFFSETS_PARTITIONS)])
        while not self._stopped.is_set():
            for message in consumer.consume(500, 0.05):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    self._add(message.key(), message.value(), message.timestamp()[1] / 1000)
                    self._positions[partition] = offset + 1
        consumer.close()

    def _add(self, key: Any, value: Any, at: float) -> None:
        if key is None or struct.unpack_from(">h", key)[0] > 1:  # not a group's offset
            return
        group_id, place = _string(key, 2)
        topic, place = _string(key, place)
        where = (topic, struct.unpack_from(">i", key, place)[0])
        with self._lock:
            self._groups[group_id].add(group_id, at, where, None if value is None else decode(value))


def decode(data: bytes) -> Value:
    """Decode the value of a commit's record (OffsetCommitValue, versions 3 and 4)."""
    version, offset = struct.unpack_from(">hq", data)
    if version not in (3, 4):
        raise LabError(f"a commit has the unknown version {version}")
    (epoch,) = struct.unpack_from(">i", data, 10)
    if version == 3:
        return Value(offset, epoch, _string(data, 14)[0])
    size = data[14] - 1 if data[14] < 128 else (data[14] & 127) + (data[15] << 7) - 1
    start = 15 if data[14] < 128 else 16
    return Value(offset, epoch, data[start : start + size].decode())


def _string(data: bytes, place: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, place)
    return data[place + 2 : place + 2 + size].decode(), place + 2 + size


def moves(truth: GroupTruth, *, also_same: bool) -> Iterator[float]:
    """Yield the times at which a group was alive: it moved, or (``also_same``) it committed at all."""
    return (commit.at for commit in truth.commits if commit.moved or also_same)
