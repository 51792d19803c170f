"""A cluster in memory that speaks the part of AdminClient that maintenance uses, and that can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, RequestTimeoutError
from airflow_kafka_groups.models import (
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    ListedOffset,
    MemberDescription,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)

CLUSTER_ID = "aBcDeFgHiJkLmNoPqRsTuV"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def error(name: str, code: int = 1) -> BrokerError:
    return BrokerError(code, name, "told by a test", api="Test")


def offsets_of(group_id: str, *rows: tuple[str, int, int], metadata: str = "") -> GroupOffsets:
    values = {TopicPartition(topic, number): OffsetAndMetadata(offset, metadata, 3) for topic, number, offset in rows}
    return GroupOffsets.from_mapping(group_id, values)


@dataclass
class FakeGroup:
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    state: GroupState = GroupState.EMPTY
    type: GroupType = GroupType.CLASSIC
    protocol_type: str = "consumer"
    members: int = 0


class Ticking:
    """A clock that moves on by one second whenever it is read."""

    def __init__(self, start: datetime = NOW) -> None:
        self.value = start

    def __call__(self) -> datetime:
        self.value += timedelta(seconds=1)
        return self.value


class FakeAdmin:
    """Hold groups; ``*_errors`` map a group id to the error its answer carries; ``calls`` notes what was asked."""

    def __init__(self, groups: Mapping[str, FakeGroup] | None = None) -> None:
        self.groups = dict(groups or {})
        self.ends: dict[TopicPartition, tuple[int, int]] = {}
        self.cluster: str | None = CLUSTER_ID
        self.missing_brokers: dict[int, KafkaGroupsError] = {}
        self.describe_errors: dict[str, KafkaGroupsError] = {}
        self.offset_errors: dict[str, KafkaGroupsError] = {}
        self.delete_errors: dict[str, KafkaGroupsError] = {}
        self.silent: set[str] = set()
        self.without_states = False
        self.delete_hangs = False
        self.sees_topics = True
        self.ids: dict[str, str] = {}
        self.calls: list[tuple[str, list[str]]] = []
        self.deleted: list[str] = []
        self.before: Callable[[str], None] = lambda call: None

    def add(self, group_id: str, *rows: tuple[str, int, int], **facts: object) -> FakeGroup:
        values = {TopicPartition(topic, number): OffsetAndMetadata(offset, "", 3) for topic, number, offset in rows}
        group = self.groups[group_id] = FakeGroup(values, **facts)  # type: ignore[arg-type]
        return group

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        self.groups[group_id].offsets[TopicPartition(topic, partition)] = OffsetAndMetadata(offset, "", 3)

    def asked(self, call: str) -> list[str]:
        return [group_id for name, ids in self.calls if name == call for group_id in ids]

    async def cluster_id(self) -> str | None:
        return self.cluster

    async def sees_all_topics(self) -> bool:
        return self.sees_topics

    async def topic_ids(self, topics: Iterable[str], /) -> dict[str, str]:
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    async def list_groups(self) -> GroupListings:
        self._note("list", [])
        unknown = self.without_states
        listings = [
            GroupListing(
                group_id=group_id,
                protocol_type=group.protocol_type,
                state=GroupState.UNKNOWN if unknown else group.state,
                type=GroupType.UNKNOWN if unknown else group.type,
                coordinator=1,
            )
            for group_id, group in self.groups.items()
        ]
        return GroupListings(listings, self.missing_brokers)

    async def describe_consumer_groups(self, group_ids: list[str], /) -> GroupResults[GroupDescription]:
        self._note("describe", group_ids)
        return GroupResults([self._describe(group_id) for group_id in group_ids if group_id not in self.silent])

    async def stream_consumer_group_offsets(
        self, groups: list[str], /, *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        self._note("stable offsets" if require_stable else "offsets", groups)
        for group_id in reversed(groups):
            if group_id in self.silent:
                continue
            if group_id in self.offset_errors:
                yield GroupResult(group_id, error=self.offset_errors[group_id])
            else:
                # A group that does not exist reads as "no offsets", without any error: that is what brokers do.
                group = self.groups.get(group_id, FakeGroup())
                yield GroupResult(group_id, GroupOffsets.from_mapping(group_id, dict(group.offsets)))

    async def delete_consumer_groups(
        self, group_ids: list[str], /, *, offsets: Mapping[str, GroupOffsets] | None = None
    ) -> GroupResults[None]:
        self._note("delete", group_ids)
        if self.delete_hangs:
            await asyncio.Event().wait()
        return GroupResults([self._delete(group_id) for group_id in group_ids if group_id not in self.silent])

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], /
    ) -> Mapping[TopicPartition, ListedOffset | KafkaGroupsError]:
        self._note("list_offsets", [f"{key.topic}-{key.partition}" for key in specs])
        answers: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        for key, spec in specs.items():
            if key not in self.ends:
                answers[key] = error("UNKNOWN_TOPIC_OR_PARTITION", 3)
            else:
                answers[key] = ListedOffset(self.ends[key][0 if spec.timestamp == -2 else 1])
        return answers

    def _note(self, call: str, ids: Iterable[str]) -> None:
        self.before(call)
        self.calls.append((call, list(ids)))

    def _describe(self, group_id: str) -> GroupResult[GroupDescription]:
        if group_id in self.describe_errors:
            return GroupResult(group_id, error=self.describe_errors[group_id])
        group = self.groups.get(group_id)
        return GroupResult(group_id, describe(group_id, group) if group else describe_dead(group_id))

    def _delete(self, group_id: str) -> GroupResult[None]:
        if group_id in self.delete_errors:
            return GroupResult(group_id, error=self.delete_errors[group_id])
        group = self.groups.get(group_id)
        if group is None:
            return GroupResult(group_id, error=error("GROUP_ID_NOT_FOUND", 69))
        if group.members:
            return GroupResult(group_id, error=error("NON_EMPTY_GROUP", 68))
        del self.groups[group_id]
        self.deleted.append(group_id)
        return GroupResult(group_id)


def describe(group_id: str, group: FakeGroup) -> GroupDescription:
    members = tuple(
        MemberDescription(member_id=f"m{number}", client_id="c", host="/127.0.0.1") for number in range(group.members)
    )
    return GroupDescription(
        group_id=group_id,
        state=group.state,
        type=group.type,
        protocol_type=group.protocol_type,
        protocol="range" if members else "",
        coordinator=1,
        members=members,
    )


def describe_dead(group_id: str) -> GroupDescription:
    return describe(group_id, FakeGroup(state=GroupState.DEAD, protocol_type=""))


def timeout() -> RequestTimeoutError:
    return RequestTimeoutError("no answer within 30 s")
