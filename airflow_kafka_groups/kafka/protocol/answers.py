"""Decoded responses, one type for each API, whichever codec read them.

``throttle_time`` is the time for which the broker wants to be left alone (KIP-219); zero where a version has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

from airflow_kafka_groups.kafka.models import (
    Broker,
    BrokerId,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
    TopicOffsets,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, operations

K = TypeVar("K")
V = TypeVar("V")

NO_THROTTLE = timedelta()
NO_ERRORS: Mapping[TopicPartition, ErrorCode] = {}


class KeyedAnswer(NamedTuple, Generic[K, V]):
    """A response of FindCoordinator, DeleteGroups, ListOffsets or Fetch: a value or an error for each key.

    :param failed: the keys with an error, each with its code and the broker's message, if it sent one.
    """

    throttle_time: timedelta
    found: Mapping[K, V]
    failed: Sequence[tuple[K, ErrorCode, str | None]]

    @classmethod
    def of(
        cls, throttle_time: timedelta, rows: Sequence[tuple[Sequence[K], ErrorCode, str | None, V]]
    ) -> KeyedAnswer[K, V]:
        """Sort rows of keys that have the same code, message and value."""
        none = ErrorCode.none
        found = {key: value for keys, code, _, value in rows if code is none for key in keys}
        failed = [(key, code, message) for keys, code, message, _ in rows if code is not none for key in keys]
        return cls(throttle_time, found, failed)


class ListedGroup(NamedTuple):
    """One group of a ListGroups response; state and type are ``UNKNOWN`` where the version has none."""

    group_id: str
    protocol_type: str
    state: GroupState
    type: GroupType


class ListGroupsAnswer(NamedTuple):
    """A ListGroups response."""

    throttle_time: timedelta
    error: ErrorCode
    groups: Sequence[ListedGroup]


class DescribedGroup(NamedTuple):
    """What a describe response says about one group, or about many that are alike."""

    error: ErrorCode
    message: str | None
    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    authorized_operations: frozenset[str] | None
    group_epoch: int | None = None
    internal_topics: tuple[str, ...] = ()


class DescribeGroupsAnswer(NamedTuple):
    """A response of DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe or StreamsGroupDescribe.

    :param groups: ids with their description; groups that are alike come together.
    """

    throttle_time: timedelta
    groups: Sequence[tuple[Sequence[str], DescribedGroup]]


class GroupOffsetsAnswer(NamedTuple):
    """One group of an OffsetFetch response: its own error, its readable partitions, the errors of the others."""

    group_id: str
    error: ErrorCode
    topics: tuple[TopicOffsets, ...]
    partition_errors: Mapping[TopicPartition, ErrorCode] = NO_ERRORS


class OffsetFetchAnswer(NamedTuple):
    """An OffsetFetch response.

    :param packed: groups in the plainest form, without any error, undecoded (see ``models.PackedGroups``).
    :param groups: the other groups.
    """

    throttle_time: timedelta
    packed: dict[str, bytes]
    groups: list[GroupOffsetsAnswer]


class OffsetChangeAnswer(NamedTuple):
    """A response of OffsetCommit (which has no error for the group) or OffsetDelete: what became of each partition."""

    throttle_time: timedelta
    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode]


class FetchedTail(NamedTuple):
    """Where the batches of a partition in a Fetch response end, and where those with readable records do."""

    reached: int
    readable: int


class TopicAnswer(NamedTuple):
    """One topic of a Metadata response; ``leaders`` has (partition, leader) pairs, -1 where there is none.

    Its ``topic_id`` is empty below v10, and zeros where the broker has none.
    """

    error: ErrorCode
    name: str
    operations: int
    leaders: Sequence[tuple[int, BrokerId]]
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """A Metadata response: the cluster as one broker sees it.

    :param leaders: of the partitions that have one.
    :param cluster_operations: what this user may do; ``None`` where it was not asked for (v8 to v10).
    :param topic_ids: of the topics that have one (KIP-516; v10 and later).
    """

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    leaders: Mapping[TopicPartition, BrokerId] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, ErrorCode] = field(default_factory=dict)
    cluster_operations: frozenset[str] | None = None
    topic_operations: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    throttle_time: timedelta = NO_THROTTLE

    @classmethod
    def of(
        cls,
        throttle_time: timedelta,
        cluster_id: str | None,
        brokers: Iterable[Broker],
        topics: Sequence[TopicAnswer],
        cluster_operations: int,
    ) -> MetadataAnswer:
        """Sort topics by whether they can be used."""
        usable = [topic for topic in topics if topic.error is ErrorCode.none]
        return cls(
            cluster_id,
            tuple(brokers),
            {TopicPartition(topic.name, part): node for topic in usable for part, node in topic.leaders if node >= 0},
            {topic.name: len(topic.leaders) for topic in usable},
            {topic.name: topic.error for topic in topics if topic.error is not ErrorCode.none},
            operations(cluster_operations),
            {topic.name: operations(topic.operations) for topic in usable},
            {topic.name: topic.topic_id for topic in usable if any(topic.topic_id)},
            throttle_time,
        )


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One member as the leader sees it: its id, its instance id, its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """A JoinGroup response. Only the leader is sent ``members``; ``protocol_type`` needs v7."""

    error: ErrorCode
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    member_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    throttle_time: timedelta = NO_THROTTLE


class SyncAnswer(NamedTuple):
    """A SyncGroup response: the assignment of this member."""

    error: ErrorCode
    assignment: bytes = b""
    throttle_time: timedelta = NO_THROTTLE


class LeaveAnswer(NamedTuple):
    """A response of LeaveGroup: the error of the request, and the code of each member."""

    error: ErrorCode
    throttle_time: timedelta = NO_THROTTLE
    members: tuple[tuple[MemberToRemove, ErrorCode], ...] = ()


class ErrorAnswer(NamedTuple):
    """A response of Heartbeat."""

    error: ErrorCode
    throttle_time: timedelta = NO_THROTTLE
