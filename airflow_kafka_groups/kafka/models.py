"""The values of the package: brokers, partitions, groups and the types that may be changed, offsets.

The committed offsets of a group stay packed, as a broker sends them: with one retained object per partition, Python's
cyclic garbage collector would take half the time of a large fetch, and many calls only compare, count or forward them.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import NamedTuple, TypeAlias

BrokerId: TypeAlias = int


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class CoordinatorType(IntEnum):
    """The kind of key that a coordinator is looked up for (KIP-699; SHARE since KIP-932)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker of the cluster."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """The address as ``host:port``."""
        return f"{self.host}:{self.port}"


class GroupState(StrEnum):
    """The state of a group, in the broker's own spelling."""

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
        return _STATE_BY_NAME.get((text or "").lower(), cls.UNKNOWN)


_STATE_BY_NAME = {state.value.lower(): state for state in GroupState}


class GroupType(StrEnum):
    """The type of a group, as ListGroups v5 reports it; ``UNKNOWN`` where the broker is too old to report one."""

    UNKNOWN = "unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @classmethod
    def parse(cls, text: str | None) -> GroupType:
        """Read the broker's spelling; a type this version does not know is ``UNKNOWN``."""
        return _TYPE_BY_NAME.get((text or "").lower(), cls.UNKNOWN)


_TYPE_BY_NAME = {kind.value: kind for kind in GroupType}

ELIGIBLE_TYPES = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""Types that may be changed or deleted, by their description: a backup holds all there is to lose."""

NAMED_TYPES = frozenset({GroupType.SHARE, GroupType.STREAMS})
"""Types that are deleted only where their name was given: a backup lacks a share group's acknowledgements after its
start offset, and the state that a streams group has in topics."""

JUDGED_TYPES = ELIGIBLE_TYPES | {GroupType.UNKNOWN}
"""The types of consumers, as listed. Brokers below ListGroups v5 report none, and have classic groups only."""

EPOCH_TYPES = NAMED_TYPES | {GroupType.CONSUMER}
"""Types whose groups have an epoch, which a description shows: it moves whenever a member joins or leaves."""

ELIGIBLE_PROTOCOL_TYPES = frozenset({"", "consumer"})
"""Protocol types that may be judged, changed or deleted: consumers, and clients that only commit (no protocol).
Kafka Connect, schema registries and others use the group protocol for state of their own."""


def has_eligible_kind(group_type: str, protocol_type: str) -> bool:
    """Return whether a group of this described type and protocol type may be changed or deleted."""
    return group_type in ELIGIBLE_TYPES and protocol_type in ELIGIBLE_PROTOCOL_TYPES


def has_judged_kind(group_type: str, protocol_type: str) -> bool:
    """Return whether a group of this listed type and protocol type may be judged and planned."""
    if group_type in NAMED_TYPES:  # their protocol type is the name of their type
        return protocol_type == group_type
    return group_type in JUDGED_TYPES and protocol_type in ELIGIBLE_PROTOCOL_TYPES


GroupId: TypeAlias = str

LEASE_GROUP_ID = "airflow-kafka-groups-lease"
"""The group of the maintenance lease, which at most one run holds; a prefix may precede it."""


class GroupListing(NamedTuple):
    """A group as listed: without ``state`` before ListGroups v4, without ``type`` before v5 (``UNKNOWN``)."""

    group_id: GroupId
    protocol_type: str
    state: GroupState
    type: GroupType
    coordinator: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group.

    :param group_instance_id: the name of a static member (KIP-345).
    :param subscribed_topics: the topics it names; ``None`` if they are not known: brokers report them only while the
        group is Stable, and those of other programs than consumers cannot be read.
    :param subscribed_pattern: the regular expression that it subscribes with, which brokers evaluate (KIP-848).
    :param assignment_known: whether its assignment could be read; it is empty where not. Default true.
    :param uses_classic_protocol: whether it speaks JoinGroup and SyncGroup; ``None`` where brokers do not report it.
    """

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    assignment: tuple[TopicPartition, ...] = ()
    assignment_known: bool = True
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_pattern: str | None = None
    uses_classic_protocol: bool | None = None


class MemberToRemove(NamedTuple):
    """A member by its id, its static name (KIP-345), or both: then not one that has joined again since."""

    member_id: str = ""
    group_instance_id: str | None = None


class GroupDescription(NamedTuple):
    """A group as described by its coordinator. One that does not exist has the state ``DEAD``, and no type.

    Its ``group_epoch`` grows whenever a member joins or leaves (KIP-848); it is ``None`` for a classic group. The
    ``internal_topics`` are those that a streams group makes for itself (KIP-1071): changelog and repartition topics.
    Of a share or streams group, ``restorable`` says whether its broker can have it back with its offsets (Kafka 4.2).
    """

    group_id: GroupId
    state: GroupState
    type: GroupType
    protocol_type: str
    protocol: str
    coordinator: BrokerId
    members: tuple[MemberDescription, ...] = ()
    authorized_operations: frozenset[str] | None = None
    group_epoch: int | None = None
    internal_topics: tuple[str, ...] = ()
    restorable: bool = False


NO_OFFSET = -1
"""The offset in a response for a partition without a commit."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ListConsumerGroupOffsetsSpec:
    """The partitions of a group to list (KIP-709).

    :param topic_partitions: the partitions; ``None`` (default) for all with a committed offset. A partition requested
        by name is always in the result, with ``None`` if it has no commit.
    """

    topic_partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Which offset of a partition to list; use ``earliest()``, ``latest()`` etc. to create one."""

    timestamp: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Request the log start offset."""
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Request the end offset (the offset of the next record to be written)."""
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Request the offset of the record with the highest timestamp (KIP-734; ListOffsets v7)."""
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """Request the first offset at or after a time, in milliseconds since the epoch."""
        return cls(timestamp_ms)


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """The result of ListOffsets for one partition; ``offset`` -1 means that no record matches."""

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None


Row = tuple[int, int, int, str]
"""Partition, committed offset (-1: none), leader epoch (-1: none), metadata."""

PACKED_ROW_SIZE = 20
_FIXED_FIELDS = 16
_SIGN_BYTE, _SIGN_BIT = 4, 0x80  # of a row's offset, which is big-endian


class TopicOffsets:
    """The committed offsets of one topic of one group.

    :param topic: the topic.
    :param packed_rows: its partitions as responses have them, which the caller has checked to have no error: 20 bytes
        each, partition int32, offset int64 (-1 for a requested partition without a commit), leader epoch int32 (-1 for
        none), big-endian, and 4 to skip.
    :param metadata: of each row; ``None`` (default) if all are empty.
    """

    __slots__ = ("metadata", "packed_rows", "topic")

    def __init__(self, topic: str, packed_rows: bytes, metadata: tuple[str, ...] | None = None) -> None:
        self.topic, self.packed_rows, self.metadata = topic, packed_rows, metadata

    @classmethod
    def of_rows(cls, topic: str, rows: Sequence[Row]) -> TopicOffsets:
        """Pack rows."""
        metadata = tuple([row[3] for row in rows])
        packed = _packed_rows(len(rows)).pack(*chain.from_iterable(row[:3] for row in rows))
        return cls(topic, packed, metadata if any(metadata) else None)

    def flat_rows(self) -> tuple[int, ...]:
        """Return partition, committed offset and leader epoch of one row after the other."""
        return _packed_rows(len(self)).unpack(self.packed_rows)

    def fixed_fields(self) -> tuple[bytes, ...]:
        """Return partition, committed offset and leader epoch of each row, still packed: equal rows have equal fields.

        What else is in a packed row differs with the version of the response.
        """
        return _fixed_fields(len(self)).unpack(self.packed_rows)

    @property
    def committed(self) -> int:
        """The number of partitions with a committed offset."""
        signs = self.packed_rows[_SIGN_BYTE::PACKED_ROW_SIZE]
        return len(signs) if max(signs, default=0) < _SIGN_BIT else sum(sign < _SIGN_BIT for sign in signs)

    def rows(self) -> Iterator[Row]:
        """Iterate over (partition, offset, leader epoch, metadata); offset -1 means no commit."""
        flat = self.flat_rows()
        metadata: Iterable[str] = self.metadata if self.metadata is not None else repeat("", len(self))
        return zip(flat[0::3], flat[1::3], flat[2::3], metadata, strict=True)

    def __len__(self) -> int:
        return len(self.packed_rows) // PACKED_ROW_SIZE

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicOffsets):
            return NotImplemented
        ours, theirs = ((each.topic, each.fixed_fields(), each.metadata) for each in (self, other))
        return ours == theirs

    __hash__ = None  # type: ignore[assignment]  # compared by value

    def __repr__(self) -> str:
        return f"<TopicOffsets {self.topic!r} [{len(self)} partitions]>"


@lru_cache(1000)
def _packed_rows(count: int) -> Struct:
    return Struct(">" + "iqi4x" * count)


@lru_cache(1000)
def _fixed_fields(count: int) -> Struct:
    return Struct(f"{_FIXED_FIELDS}s{PACKED_ROW_SIZE - _FIXED_FIELDS}x" * count)


class GroupOffsets(Mapping[TopicPartition, OffsetAndMetadata | None]):
    """The requested committed offsets of one group: a mapping, stored in columns.

    :param group_id: the group.
    :param topics: the columns of its topics.
    :param packed: in place of ``topics`` their undecoded bytes, which the caller has checked to be in the plainest
        form: the number of topics plus 1, and for each of them the size of its name plus 1, the name, the number of its
        rows plus 1, the rows (see ``TopicOffsets``) and a byte to skip. Each number is one byte. What follows
        them is skipped.

    The value of a partition that was requested by name and has no commit is ``None``.
    """

    __slots__ = ("_index", "_packed", "_topics", "group_id")

    def __init__(self, group_id: GroupId, topics: tuple[TopicOffsets, ...] = (), packed: bytes | None = None) -> None:
        self.group_id = group_id
        self._topics = topics
        self._packed = packed
        self._index: dict[TopicPartition, OffsetAndMetadata | None] | None = None

    @property
    def topics(self) -> tuple[TopicOffsets, ...]:
        """The columns of its topics."""
        if self._packed is not None:
            self._topics, self._packed = tuple(_plain_topics(self._packed)), None
        return self._topics

    @property
    def is_empty(self) -> bool:
        """Whether it has no commit. Undecoded offsets stay so."""
        if self._packed is not None:
            return self._packed[0] == 1
        return not any(topic.committed for topic in self._topics)

    def __len__(self) -> int:
        return sum(map(len, self.topics))

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic in self.topics:
            yield from map(TopicPartition, repeat(topic.topic), topic.flat_rows()[0::3])

    def __getitem__(self, key: TopicPartition) -> OffsetAndMetadata | None:
        if self._index is None:  # built on first use: most groups are only read by column
            self._index = self._as_dict()
        return self._index[key]

    def values(self) -> ValuesView[OffsetAndMetadata | None]:
        """Return the committed offsets, in the order of the partitions."""
        return self._as_dict().values()

    def items(self) -> ItemsView[TopicPartition, OffsetAndMetadata | None]:
        """Return (partition, committed offset) pairs."""
        return self._as_dict().items()

    def _as_dict(self) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {
            TopicPartition(topic.topic, partition): OffsetAndMetadata(offset, metadata, epoch if epoch >= 0 else None)
            if offset >= 0
            else None
            for topic in self.topics
            for partition, offset, epoch, metadata in topic.rows()
        }

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GroupOffsets) and self.group_id != other.group_id:
            return False
        return isinstance(other, Mapping) and self._as_dict() == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # compared by value, as every Mapping

    def __repr__(self) -> str:
        return f"<GroupOffsets of {self.group_id!r} [{len(self.topics)} topics | {len(self)} partitions]>"

    @classmethod
    def from_mapping(
        cls, group_id: GroupId, offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    ) -> GroupOffsets:
        """Build the columns from a plain mapping, e.g. of a backup."""
        by_topic: dict[str, list[Row]] = {}
        for partition, value in offsets.items():
            epoch = -1 if value is None or value.leader_epoch is None else value.leader_epoch
            offset, metadata = (NO_OFFSET, "") if value is None else (value.offset, value.metadata)
            by_topic.setdefault(partition.topic, []).append((partition.partition, offset, epoch, metadata))
        return cls(group_id, tuple(TopicOffsets.of_rows(topic, rows) for topic, rows in by_topic.items()))


class ShareGroupOffsets(GroupOffsets):
    """The start offsets of a share group (KIP-932): before them, all records are acknowledged or archived."""

    __slots__ = ()


class PackedGroups(Mapping[GroupId, GroupOffsets]):
    """The undecoded offsets of many groups (see ``GroupOffsets``), which are made each time that they are looked up.

    Python's cyclic garbage collector looks at every ``GroupOffsets``, and never at bytes.
    """

    __slots__ = ("_packed",)

    def __init__(self, packed: dict[GroupId, bytes]) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._packed)

    def __getitem__(self, group_id: GroupId) -> GroupOffsets:
        return GroupOffsets(group_id, (), self._packed[group_id])

    def values(self) -> ValuesView[GroupOffsets]:
        """Return the offsets of each group; the inherited way looks each of them up."""
        return _PackedValues(self)


class _PackedValues(ValuesView[GroupOffsets]):
    _mapping: PackedGroups

    def __iter__(self) -> Iterator[GroupOffsets]:
        packed = self._mapping._packed
        return map(GroupOffsets, packed, repeat(()), packed.values())


def _plain_topics(packed: bytes) -> Iterator[TopicOffsets]:
    position = 1
    for _ in range(packed[0] - 1):
        end_of_name = position + packed[position]
        start = end_of_name + 1
        end = start + (packed[end_of_name] - 1) * PACKED_ROW_SIZE
        yield TopicOffsets(_topic_name(packed[position + 1 : end_of_name]), packed[start:end])
        position = end + 1


@lru_cache(1000)  # they come again and again, and each is kept once
def _topic_name(name: bytes) -> str:
    return name.decode()
