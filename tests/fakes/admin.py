"""A cluster in memory with the methods of ``AdminClient``: it obeys the brokers' rules, and can be made to fail.

The rules are those of real brokers: ``tests/fakes/admin_facts.py`` lists them, and each is checked on this fake and on
Kafka itself.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from airflow_kafka_groups.exceptions import (
    IncompleteListingError,
    KafkaGroupsError,
    NotSentError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka import ClusterDescription
from airflow_kafka_groups.kafka.admin.client.arguments import commits_of, group_ids_of, one_or_many, partitions_of
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.config import ConnectionPrint, sha256_of
from airflow_kafka_groups.kafka.maintenance_client import ASSIGNORS, MaintenanceClient, OffsetsRetention
from airflow_kafka_groups.kafka.models import (
    Broker,
    BrokerId,
    CoordinatorType,
    GroupDescription,
    GroupOffsets,
    GroupState,
    GroupType,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    MemberToRemove,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions
from airflow_kafka_groups.kafka.records import LogRecord, Span, SpanRecords
from tests.fakes.groups import FakeGroup, broker_error
from tests.fakes.state import ClusterState, Log

GroupSpecs = Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec]
T = TypeVar("T")
_EVERYTHING = frozenset({"read", "describe", "delete"})


class FakeAdmin(ClusterState, MaintenanceClient):
    """An ``AdminClient`` of a cluster of two brokers in memory.

    :param groups: as of ``ClusterState``, which also says what can be set about the cluster.
    :param log: likewise.

    What goes wrong is injected. ``errors`` fails a group in every call; ``describe_errors``, ``offset_errors``,
    ``delete_errors`` and ``forget_errors`` (of single offsets) fail it in one kind of call; groups in ``silent`` are
    left out of answers, and the brokers in ``missing_brokers`` do not answer listings; ``before`` is called with the
    kind of each call before its answer.

    ``calls`` has what was asked: the kind of each call, and the ids.
    """

    def __init__(self, groups: Mapping[str, FakeGroup] | None = None, *, log: Log | None = None) -> None:
        super().__init__(groups, log=log)
        self.api_versions: dict[int, ApiVersions] = {}
        self.operations: frozenset[str] | None = None
        self.sees_topics = True

        self.retention: OffsetsRetention | KafkaGroupsError = OffsetsRetention(by_broker={1: 43_200}, errors={})
        self.fails_with: KafkaGroupsError | None = None
        self.ids_fail_with: KafkaGroupsError | None = None
        self.hosts = {1: "b1", 2: "b2"}
        self.connection = ConnectionPrint(servers=sha256_of("b1:9092"), identity=sha256_of(""))
        self.missing_brokers: Mapping[Any, KafkaGroupsError] = {}
        self.errors: dict[str, KafkaGroupsError] = {}
        self.describe_errors: dict[str, KafkaGroupsError] = {}
        self.offset_errors: dict[str, KafkaGroupsError] = {}
        self.delete_errors: dict[str, KafkaGroupsError] = {}
        self.forget_errors: dict[str, KafkaGroupsError] = {}
        self.silent: set[str] = set()
        self.join_errors: dict[str, KafkaGroupsError] = {}
        self.joined: dict[str, list[str]] = {}
        self.delete_hangs = False
        self.before: Callable[[str], None] = lambda call: None

        self.records: dict[TopicPartition, Sequence[LogRecord]] = {}
        self.calls: list[tuple[str, list[str]]] = []
        self.key_types: list[CoordinatorType] = []
        self.send_within: list[float | None] = []
        self.coordinators: list[Mapping[str, BrokerId] | None] = []
        self.closed = 0

    @property
    def call_names(self) -> list[str]:
        """The kinds of the calls, in order."""
        return [name for name, _ in self.calls]

    def asked(self, call: str) -> list[str]:
        """Return the ids of all calls of one kind."""
        return [group_id for name, ids in self.calls if name == call for group_id in ids]

    def forget_calls(self) -> None:
        """Forget what was asked so far, such as by a fixture."""
        for recorded in (self.calls, self.key_types, self.send_within, self.coordinators):
            recorded.clear()
        self.closed = 0

    async def __aenter__(self) -> Self:
        if self.fails_with is not None:
            raise self.fails_with
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed += 1

    async def cluster_id(self) -> str | None:
        return self.cluster

    async def brokers(self) -> tuple[Broker, ...]:
        return tuple(Broker(broker_id=id_, host=host, port=9092) for id_, host in self.hosts.items())

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription(self.cluster, (_broker(1), _broker(2)), self.api_versions, {})

    async def group_operations(self, group_id: str) -> frozenset[str] | None:
        return self.operations

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        allowed = dict.fromkeys(topics, _EVERYTHING)
        counts: dict[str, int] = {}
        for topic, partition in (where for group in self.groups.values() for where in group.offsets):
            if topic in allowed:
                counts[topic] = max(counts.get(topic, 0), partition + 1)
        return MetadataAnswer(
            self.cluster, (), partition_counts=counts, cluster_operations=_EVERYTHING, topic_operations=allowed
        )

    async def sees_all_topics(self) -> bool:
        return self.sees_topics

    async def offsets_retention(self) -> OffsetsRetention:
        if isinstance(self.retention, KafkaGroupsError):
            raise self.retention
        return self.retention

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        if self.ids_fail_with is not None:
            raise self.ids_fail_with
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        group_id_pattern: str | None = None,
    ) -> GroupListings:
        self._note("list", [])
        wanted_states, wanted_types = set(states), set(types)
        listings = [
            listing
            for listing in self._listings()
            if (not wanted_states or listing.state in wanted_states)
            and (not wanted_types or listing.type in wanted_types)
            and (group_id_pattern is None or re.fullmatch(group_id_pattern, listing.group_id))
        ]
        return GroupListings(listings, self.missing_brokers)

    async def find_coordinators(
        self, keys: Iterable[str], *, key_type: CoordinatorType = CoordinatorType.GROUP
    ) -> GroupResults[Broker]:
        wanted = group_ids_of(keys, "keys")
        self._note("find", wanted)
        self.key_types.append(key_type)
        return self._results(wanted, {}, lambda key: _broker(self._coordinator(key)))

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> GroupResults[GroupDescription]:
        wanted = group_ids_of(group_ids)
        self._note("describe", wanted)
        operations = self.operations if include_authorized_operations else None
        return self._results(wanted, self.describe_errors, lambda group_id: self._described(group_id, operations))

    async def list_consumer_group_offsets(  # type: ignore[override]  # nobody asks for a single group by its name
        self, groups: GroupSpecs, *, require_stable: bool = False
    ) -> GroupResults[GroupOffsets]:
        wanted, specs = one_or_many(groups)
        self._note("stable offsets" if require_stable else "offsets", wanted)
        return self._results(wanted, self.offset_errors, lambda group_id: self._offsets(group_id, specs.get(group_id)))

    async def stream_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = False, progress: Any = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        results = await self.list_consumer_group_offsets(groups, require_stable=require_stable)
        for result in reversed(list(results.values())):  # answers arrive in any order
            yield result

    async def delete_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        offsets: Mapping[str, GroupOffsets] | None = None,
        types: Iterable[GroupType | str] = (GroupType.CLASSIC, GroupType.CONSUMER),
        send_within: float | None = None,
        coordinators: Mapping[str, BrokerId] | None = None,
        before_sending: Callable[[], Awaitable[None]] | None = None,
    ) -> GroupResults[None]:
        wanted = group_ids_of(group_ids)
        self._note("delete", wanted)
        self.send_within.append(send_within)
        if self.delete_hangs:
            await asyncio.Event().wait()
        self.coordinators.append(coordinators)
        if before_sending is not None:
            await before_sending()
        others = set(GroupType) - {GroupType(kind) for kind in types} - {GroupType.UNKNOWN}
        listed = {listing.group_id: listing.type for listing in self._listings() if listing.type in others}

        def delete(group_id: str) -> None:
            if self.missing_brokers:  # a broker that does not list its groups may have any of another type
                raise IncompleteListingError(self.missing_brokers)
            self._require_coordinator(group_id, coordinators)
            if group_id in listed:
                raise UnexpectedGroupTypeError(group_id, listed[group_id])
            self._delete(group_id)

        return self._results(wanted, self.delete_errors, delete)

    async def alter_consumer_group_offsets(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
        *,
        send_within: float | None = None,
        coordinators: Mapping[str, BrokerId] | None = None,
        share_groups: Collection[str] = (),
    ) -> GroupResults[None]:
        wanted = commits_of(offsets)
        self._note("alter", wanted)
        self.coordinators.append(coordinators)
        if send_within is not None and send_within <= 0:
            return GroupResults(GroupResult(id_, error=NotSentError("could not leave in time")) for id_ in wanted)

        def alter(group_id: str) -> None:
            self._require_coordinator(group_id, coordinators)
            self._alter(group_id, wanted[group_id], is_share=group_id in share_groups)

        return self._results(list(wanted), {}, alter)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[MemberToRemove],
        *,
        reason: str = "",
        send_within: float | None = None,
        coordinator: BrokerId | None = None,
    ) -> dict[MemberToRemove, KafkaGroupsError | None]:
        wanted, asked = list(members), None if coordinator is None else {group_id: coordinator}
        self._note("remove", [group_id])
        self.send_within.append(send_within)

        def remove(_: str) -> dict[MemberToRemove, KafkaGroupsError | None]:
            self._require_coordinator(group_id, asked)
            return {member: self._remove(group_id, member) for member in wanted}

        found: dict[MemberToRemove, KafkaGroupsError | None] = self._results([group_id], {}, remove)[group_id].unwrap()
        return found

    async def join_and_leave(self, group_id: str, topics: Sequence[str], assignors: Sequence[str] = ASSIGNORS) -> None:
        self._note("join", [group_id])
        self._results([group_id], self.join_errors, lambda _: None)[group_id].unwrap()
        self.joined[group_id] = list(topics)

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        send_within: float | None = None,
        coordinator: BrokerId | None = None,
    ) -> None:
        wanted, asked = partitions_of(partitions), None if coordinator is None else {group_id: coordinator}
        self._note("delete offsets", [group_id])
        self.send_within.append(send_within)
        self.coordinators.append(asked)
        if self.delete_hangs:
            await asyncio.Event().wait()

        def forget(_: str) -> None:
            self._require_coordinator(group_id, asked)
            self._forget(group_id, wanted)

        self._results([group_id], self.forget_errors, forget)[group_id].unwrap()

    async def end_readable(self, bounds: Any, groups: Any) -> None:
        """No topic of these has transactions."""

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset | KafkaGroupsError]:
        self._note("list_offsets", [f"{where.topic}-{where.partition}" for where in specs])
        return {where: self._listed(where, spec) for where, spec in specs.items()}

    async def read_records(self, spans: Sequence[Span], keep: Callable[[LogRecord], T]) -> list[SpanRecords[T]]:
        self._note("read_records", [f"{span.where.topic}-{span.where.partition}" for span in spans])
        return [self._read(span, keep) for span in spans]

    def _read(self, span: Span, keep: Callable[[LogRecord], T]) -> SpanRecords[T]:
        found = SpanRecords[T]()
        for each in self.records.get(span.where, ()):
            if each.offset >= span.start:
                found.records.append(keep(each))
                if (span.until is not None and each.offset >= span.until) or len(found.records) == span.most:
                    return found
        found.is_end = True
        return found

    def _require_coordinator(self, group_id: str, asked: Mapping[str, BrokerId] | None) -> None:
        if asked is not None and asked[group_id] != self._coordinator(group_id):
            raise broker_error("NOT_COORDINATOR")

    def _coordinator(self, group_id: str) -> int:
        return self.groups[group_id].coordinator if group_id in self.groups else 1

    def _results(
        self, group_ids: list[str], errors: Mapping[str, KafkaGroupsError], answer: Callable[[str], Any]
    ) -> GroupResults[Any]:
        """Answer for each group: with the injected error, or with what the rules say."""
        results: list[GroupResult[Any]] = []
        for group_id in group_ids:
            if group_id in self.silent:
                continue
            error = self.errors.get(group_id) or errors.get(group_id)
            try:
                results.append(GroupResult(group_id, None if error else answer(group_id), error))
            except KafkaGroupsError as refusal:
                results.append(GroupResult(group_id, error=refusal))
        return GroupResults(results)

    def _note(self, call: str, ids: Iterable[str]) -> None:
        self.before(call)
        self.calls.append((call, list(ids)))


def _broker(broker_id: int) -> Broker:
    return Broker(broker_id=broker_id, host=f"b{broker_id}", port=9092)
