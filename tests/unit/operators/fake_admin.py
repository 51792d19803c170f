"""A cluster in memory with the methods of AdminClient that operators and sensors use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from airflow_kafka_groups.admin.lag import GroupLag, group_lag
from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.models import (
    Broker,
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
from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.cluster_apis.metadata import MetadataAnswer


def broker_error(name: str, code: int = 1) -> BrokerError:
    return BrokerError(code, name, "says the fake", api="Fake", broker_id=1)


@dataclass
class FakeGroup:
    offsets: dict[TopicPartition, int] = field(default_factory=lambda: {TopicPartition("t", 0): 5})
    state: GroupState = GroupState.EMPTY
    type: GroupType = GroupType.CLASSIC
    protocol_type: str = "consumer"
    members: int = 0
    coordinator: int = 1


class FakeAdmin:
    """``errors`` fails a group in every call; ``missing_brokers`` did not answer the listing."""

    def __init__(self, groups: Mapping[str, FakeGroup] | None = None) -> None:
        self.groups = dict(groups or {})
        self.errors: dict[str, KafkaGroupsError] = {}
        self.lost_answers: dict[str, KafkaGroupsError] = {}
        self.missing_brokers: dict[int, KafkaGroupsError] = {}
        self.ends: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        self.young: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        self.asked_times: list[int] = []
        self.start = 0
        self.default_end = 10
        self.fails_with: KafkaGroupsError | None = None
        self.id = "fake-cluster"
        self.api_versions: dict[int, ApiVersions] = {}
        self.operations: frozenset[str] | None = None
        self.sees_topics = True
        self.ids = {"t": "id-of-t", "u": "id-of-u"}
        self.calls: list[str] = []
        self.asked_key_types: list[object] = []
        self.deleted: list[str] = []
        self.closed = 0

    async def __aenter__(self) -> Self:
        if self.fails_with is not None:
            raise self.fails_with
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.closed += 1

    async def cluster_id(self) -> str | None:
        return self.id

    async def describe_cluster(self) -> Any:
        from types import SimpleNamespace

        brokers = (self._broker(1), self._broker(2))
        return SimpleNamespace(cluster_id=self.id, brokers=brokers, api_versions=self.api_versions, errors={})

    async def group_operations(self, group_id: str) -> frozenset[str] | None:
        return self.operations

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        everything = frozenset({"read", "describe", "delete"})
        return MetadataAnswer(self.id, (), cluster_operations=everything, topic_operations={"t": everything})

    async def sees_all_topics(self) -> bool:
        return self.sees_topics

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    async def list_groups(self, **filters: object) -> GroupListings:
        self.calls.append("list_groups")
        return GroupListings(
            (
                GroupListing(
                    group_id=group_id,
                    protocol_type=group.protocol_type,
                    state=group.state,
                    type=group.type,
                    coordinator=group.coordinator,
                )
                for group_id, group in self.groups.items()
            ),
            self.missing_brokers,
        )

    async def find_coordinators(self, keys: Iterable[str], **options: object) -> GroupResults[Broker]:
        self.calls.append("find_coordinators")
        self.asked_key_types.append(options.get("key_type"))
        return GroupResults(
            self._result(key, self._broker(self.groups[key].coordinator if key in self.groups else 1)) for key in keys
        )

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> GroupResults[GroupDescription]:
        self.calls.append("describe_consumer_groups")
        return GroupResults(self._result(group_id, self._described(group_id)) for group_id in group_ids)

    async def list_consumer_group_offsets(
        self, groups: Iterable[str], *, require_stable: bool = False
    ) -> GroupResults[GroupOffsets]:
        self.calls.append("list_consumer_group_offsets")
        return GroupResults(self._result(group_id, self._offsets(group_id)) for group_id in groups)

    async def list_consumer_group_lag(self, groups: Iterable[str]) -> GroupResults[GroupLag]:
        results = await self.list_consumer_group_offsets(list(groups))
        where = {partition for offsets in results.succeeded.values() for partition in offsets}
        starts = await self.list_offsets(dict.fromkeys(where, OffsetSpec.earliest()))
        ends = await self.list_offsets(dict.fromkeys(where, OffsetSpec.latest()))
        return GroupResults(
            GroupResult(group_id, None if result.value is None else group_lag(result.value, starts, ends), result.error)
            for group_id, result in results.items()
        )

    async def stream_consumer_group_offsets(
        self, groups: Iterable[str], *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        for group_id in groups:
            yield self._result(group_id, self._offsets(group_id))

    async def delete_consumer_groups(
        self, group_ids: Iterable[str], *, offsets: Mapping[str, GroupOffsets] | None = None
    ) -> GroupResults[None]:
        results: list[GroupResult[None]] = []
        for group_id in group_ids:
            error = (
                self.errors.get(group_id)
                or self.lost_answers.get(group_id)
                or (broker_error("GROUP_ID_NOT_FOUND", 69) if group_id not in self.groups else None)
            )
            if error is None:
                del self.groups[group_id]
                self.deleted.append(group_id)
            results.append(GroupResult(group_id, error=error))
        return GroupResults(results)

    async def alter_consumer_group_offsets(
        self, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> GroupResults[None]:
        self.calls.append("alter_consumer_group_offsets")
        results: list[GroupResult[None]] = []
        for group_id, commits in offsets.items():
            if group_id not in self.errors:
                group = self.groups.setdefault(group_id, FakeGroup({}))
                group.offsets |= {where: value.offset for where, value in commits.items()}
            results.append(GroupResult(group_id, error=self.errors.get(group_id)))
        return GroupResults(results)

    async def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        self.calls.append("delete_consumer_group_offsets")
        if error := self.errors.get(group_id):
            raise error
        for where in partitions:
            self.groups[group_id].offsets.pop(where, None)

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset | KafkaGroupsError]:
        self.calls.append("list_offsets")
        return {where: self._listed(where, spec) for where, spec in specs.items()}

    def _listed(self, where: TopicPartition, spec: OffsetSpec) -> ListedOffset | KafkaGroupsError:
        if spec == OffsetSpec.earliest():
            return ListedOffset(self.start)
        if spec == OffsetSpec.latest():
            return self.ends.get(where, ListedOffset(self.default_end))
        self.asked_times.append(spec.timestamp)
        return self.young.get(where, ListedOffset(-1))

    def _result(self, group_id: str, value: Any) -> GroupResult[Any]:
        error = self.errors.get(group_id)
        return GroupResult(group_id, error=error) if error else GroupResult(group_id, value)

    def _broker(self, broker_id: int) -> Broker:
        return Broker(broker_id=broker_id, host=f"b{broker_id}", port=9092)

    def _described(self, group_id: str) -> GroupDescription:
        group = self.groups.get(group_id, FakeGroup(state=GroupState.DEAD))
        members = tuple(
            MemberDescription(member_id=f"m{i}", client_id="c", host="/1.1.1.1") for i in range(group.members)
        )
        return GroupDescription(
            group_id=group_id,
            state=group.state,
            type=group.type,
            protocol_type=group.protocol_type,
            protocol="range",
            coordinator=group.coordinator,
            members=members,
            authorized_operations=self.operations,
        )

    def _offsets(self, group_id: str) -> GroupOffsets:
        offsets = self.groups[group_id].offsets if group_id in self.groups else {}
        return GroupOffsets.from_mapping(group_id, {where: OffsetAndMetadata(o) for where, o in offsets.items()})
