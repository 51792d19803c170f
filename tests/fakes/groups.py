"""Groups in memory, as ``FakeAdmin`` keeps them, with the errors and descriptions that brokers give about them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_kafka_groups.exceptions import BrokerError, RequestTimeoutError
from airflow_kafka_groups.kafka.models import (
    EPOCH_TYPES,
    NAMED_TYPES,
    GroupDescription,
    GroupOffsets,
    GroupState,
    GroupType,
    MemberDescription,
    OffsetAndMetadata,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

CLUSTER_ID = "aBcDeFgHiJkLmNoPqRsTuV"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EPOCH = 3
"""The leader epoch of every commit."""


class Ticking:
    """A clock that moves on by one second whenever it is read."""

    def __init__(self, start: datetime = NOW) -> None:
        self.value = start

    def __call__(self) -> datetime:
        self.value += timedelta(seconds=1)
        return self.value


def broker_error(name: str) -> BrokerError:
    """Return the error of a broker by its name in the protocol, such as ``NON_EMPTY_GROUP``."""
    return BrokerError(ErrorCode[name.lower()].value, name, "an answer of a fake broker", api="Fake", broker_id=1)


def timeout() -> RequestTimeoutError:
    """Return the error of a broker that does not answer."""
    return RequestTimeoutError("no answer within 30 s")


def committed(offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return a commit; a plain number is one without metadata."""
    return offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset, "", EPOCH)


def offsets_of(group_id: str, *rows: tuple[str, int, int], metadata: str = "") -> GroupOffsets:
    """Return the committed offsets of a group.

    :param rows: topic, partition, offset.
    """
    values = {TopicPartition(topic, index): OffsetAndMetadata(offset, metadata, EPOCH) for topic, index, offset in rows}
    return GroupOffsets.from_mapping(group_id, values)


class FakeGroup:
    """A group of a fake cluster.

    :param offsets: its commits; plain numbers are offsets without metadata. Default: offset 5 of t[0].
    :param state: what brokers call its state. Default: Stable with members, Empty without any.
    :param members: how many members it has, or their ids with the instance ids of static ones. They are subscribed to
        ``subscribed``.
    :param subscribed: topics. Default: those that it has commits of.
    :param restorable: whether its broker can have it back, if it is a share or streams group.
    """

    def __init__(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        state: GroupState | None = None,
        type: GroupType = GroupType.CLASSIC,
        protocol_type: str = "consumer",
        members: int | Mapping[str, str | None] = 0,
        coordinator: int = 1,
        subscribed: frozenset[str] | None = None,
        restorable: bool = True,
    ) -> None:
        rows = {TopicPartition("t", 0): 5} if offsets is None else offsets
        self.offsets = {partition: committed(offset) for partition, offset in rows.items()}
        self.type = type
        self.protocol_type = protocol_type
        named = {f"m{number}": None for number in range(members)} if isinstance(members, int) else members
        self.named: dict[str, str | None] = dict(named)
        self.classic_members = type is GroupType.CLASSIC
        self.coordinator = coordinator
        self.epoch = 1
        self.restorable = restorable
        self._state = state
        self._subscribed = subscribed

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.named)

    @members.setter
    def members(self, count: int) -> None:
        self.named = {f"m{number}": None for number in range(count)}

    @property
    def state(self) -> GroupState:
        """The state, as brokers tell it."""
        if self._state is not None:
            return self._state
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @state.setter
    def state(self, state: GroupState) -> None:
        self._state = state

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The committed offsets as plain numbers."""
        return {partition: value.offset for partition, value in self.offsets.items()}

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that members are subscribed to."""
        if not self.members:
            return frozenset()
        return frozenset(where.topic for where in self.offsets) if self._subscribed is None else self._subscribed

    @property
    def busy(self) -> bool:
        """Whether brokers refuse to delete the group: it has members, or is in a state that only such groups have."""
        return bool(self.members) or self.state is not GroupState.EMPTY


def describe(group_id: str, group: FakeGroup, operations: frozenset[str] | None = None) -> GroupDescription:
    """Return what the coordinator says about a group."""
    members = tuple(
        MemberDescription(
            member_id=member_id,
            group_instance_id=instance_id,
            uses_classic_protocol=group.classic_members if group.type is GroupType.CONSUMER else None,
            client_id="c",
            host="/127.0.0.1",
            subscribed_topics=tuple(sorted(group.subscribed)),
        )
        for member_id, instance_id in group.named.items()
    )
    return GroupDescription(
        group_id=group_id,
        state=group.state,
        type=group.type,
        protocol_type=group.protocol_type,
        protocol="range" if members else "",
        coordinator=group.coordinator,
        members=members,
        authorized_operations=operations,
        group_epoch=group.epoch if group.type in EPOCH_TYPES else None,
        restorable=group.restorable and group.type in NAMED_TYPES,
    )


def describe_dead(group_id: str, operations: frozenset[str] | None = None) -> GroupDescription:
    """Return what brokers say about a group that does not exist."""
    return describe(
        group_id, FakeGroup({}, state=GroupState.DEAD, type=GroupType.UNKNOWN, protocol_type=""), operations
    )


DOUBTS: Mapping[str, Mapping[str, Any]] = {
    "not described": {"describe_errors": {"a": broker_error("GROUP_AUTHORIZATION_FAILED")}},
    "not read": {"offset_errors": {"a": timeout()}},
    "silent": {"silent": {"a"}},
}
"""Attributes of a ``FakeAdmin`` by which nobody knows how the group ``a`` is."""
