"""The nouns of the package: groups, brokers, partitions, offsets. Frozen values, no behaviour beyond their own data."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

GroupId: TypeAlias = str
BrokerId: TypeAlias = int

NO_OFFSET = -1
"""What brokers answer for a partition without a committed offset."""


class TopicPartition(NamedTuple):
    """Name one partition of a topic."""

    topic: str
    partition: int


class CoordinatorType(IntEnum):
    """Say what kind of key a coordinator is looked up for (KIP-699; SHARE since KIP-932)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class GroupState(StrEnum):
    """Be the state of a group, in the broker's own spelling."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, text: str | None) -> GroupState:
        """Read the broker's spelling; a state this version does not know is ``UNKNOWN``, never ``EMPTY``."""
        return _STATES.get((text or "").lower(), cls.UNKNOWN)


_STATES = {state.value.lower(): state for state in GroupState}


class GroupType(StrEnum):
    """Be the type of a group, as ListGroups v5 tells it; ``UNKNOWN`` where the broker is too old to say."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @classmethod
    def parse(cls, text: str | None) -> GroupType:
        """Read the broker's spelling; a type this version does not know is ``UNKNOWN``."""
        return _TYPES.get((text or "").lower(), cls.UNKNOWN)


_TYPES = {kind.value.lower(): kind for kind in GroupType}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Be one broker of the cluster."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """Give ``host:port``."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """Be a committed offset."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ListConsumerGroupOffsetsSpec:
    """Say which partitions of a group to list (KIP-709).

    :param topic_partitions: the partitions wanted; ``None`` (default) for all that have a committed offset. A
        partition asked for by name is always in the result, with ``None`` where it has no commit.
    """

    topic_partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """Be a group as ListGroups shows it.

    ``state`` needs ListGroups v4 and ``type`` v5; on older brokers they are ``UNKNOWN``.
    """

    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: GroupType
    coordinator: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """Be one member of a group."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """Be a group as its coordinator describes it. A group that does not exist has the state ``DEAD``."""

    group_id: GroupId
    state: GroupState
    type: GroupType
    protocol_type: str
    protocol: str
    coordinator: BrokerId
    members: tuple[MemberDescription, ...] = ()
    authorized_operations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Say which offset of a partition is wanted; made by ``earliest()``, ``latest()`` and the others."""

    timestamp: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Ask for the log start offset."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Ask for the end offset (the next one to be written)."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Ask for the offset of the record with the highest timestamp (KIP-734; ListOffsets v7)."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """Ask for the first offset at or after a time.

        :param timestamp_ms: milliseconds since the epoch.
        """
        return cls(timestamp_ms)


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """Be the answer of ListOffsets for one partition; ``offset`` -1 means that no record matches."""

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Be the committed offsets of one topic of one group, in columns of the same length.

    Columns instead of an object for each partition: Python's cyclic collector takes half the time of a big fetch
    when every partition is an object that is kept. ``metadata`` is ``None`` where every entry is empty.
    """

    topic: str
    partitions: array[int]
    offsets: array[int]
    leader_epochs: array[int]
    metadata: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.partitions)

    def rows(self) -> Iterator[tuple[int, int, int, str]]:
        """Give (partition, offset, leader epoch, metadata) row by row; offset -1 is "no commit"."""
        metadata: Iterable[str] = self.metadata if self.metadata is not None else ("",) * len(self.partitions)
        return zip(self.partitions, self.offsets, self.leader_epochs, metadata, strict=True)


@dataclass(frozen=True, slots=True, eq=False)
class GroupOffsets(Mapping[TopicPartition, OffsetAndMetadata | None]):
    """Be all committed offsets of one group that were asked for: a mapping, kept in columns.

    The value of a partition that was asked for by name and has no commit is ``None``.
    """

    group_id: GroupId
    topics: tuple[TopicOffsets, ...] = ()
    _index: dict[str, dict[int, tuple[TopicOffsets, int]]] | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic in self.topics:
            for partition in topic.partitions:
                yield TopicPartition(topic.topic, partition)

    def __getitem__(self, key: TopicPartition) -> OffsetAndMetadata | None:
        index = self._index
        if index is None:
            index = {}
            for topic in self.topics:
                of_topic = index.setdefault(topic.topic, {})
                of_topic.update({partition: (topic, i) for i, partition in enumerate(topic.partitions)})
            object.__setattr__(
                self, "_index", index
            )  # made when first asked for: most groups only have their columns read
        topic_name, partition = key
        column, i = index.get(topic_name, {}).get(partition, (None, 0))
        if column is None:
            raise KeyError(key)
        return _value(column.offsets[i], column.leader_epochs[i], column.metadata[i] if column.metadata else "")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GroupOffsets) and self.group_id != other.group_id:
            return False
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # as every Mapping compared by value

    @classmethod
    def from_mapping(
        cls, group_id: GroupId, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> GroupOffsets:
        """Build the columns from a plain mapping (a backup that was read, or a test)."""
        by_topic: dict[str, list[tuple[int, int, int, str]]] = {}
        for partition, value in offsets.items():
            epoch = -1 if value is None or value.leader_epoch is None else value.leader_epoch
            row = (
                partition.partition,
                NO_OFFSET if value is None else value.offset,
                epoch,
                value.metadata if value else "",
            )
            by_topic.setdefault(partition.topic, []).append(row)
        return cls(group_id, tuple(_columns(topic, rows) for topic, rows in by_topic.items()))


def _value(offset: int, leader_epoch: int, metadata: str) -> OffsetAndMetadata | None:
    if offset < 0:
        return None
    return OffsetAndMetadata(offset, metadata, leader_epoch if leader_epoch >= 0 else None)


def _columns(topic: str, rows: list[tuple[int, int, int, str]]) -> TopicOffsets:
    metadata = tuple(row[3] for row in rows)
    return TopicOffsets(
        topic,
        array("i", [row[0] for row in rows]),
        array("q", [row[1] for row in rows]),
        array("i", [row[2] for row in rows]),
        metadata if any(metadata) else None,
    )
