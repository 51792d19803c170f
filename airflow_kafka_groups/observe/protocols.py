"""The parts of ``AdminClient`` and ``MaintenanceLease`` that maintenance uses, as protocols, and readings by them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError, MissingAnswerError
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.config import ConnectionPrint
from airflow_kafka_groups.kafka.models import (
    Broker,
    BrokerId,
    GroupDescription,
    GroupOffsets,
    ListedOffset,
    OffsetSpec,
    TopicPartition,
    keeps_progress_elsewhere,
)
from airflow_kafka_groups.observe.patterns import DEFAULT_PROTECTED, GroupFilter, protecting

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.cluster_admin import LogRecord, Span, SpanRecords
    from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer

V = TypeVar("V")

HIDDEN = (
    "%s what groups have committed of topics that this user may not describe: brokers leave these out without an "
    "error. Allow Describe on all topics"
)
"""The warning where a reading may be short, after what it is about."""


class GroupAdmin(Protocol):
    """The part of ``AdminClient`` that maintenance uses."""

    async def list_groups(self) -> GroupListings:
        """List the groups of every broker, and the brokers that did not answer."""

    async def describe_consumer_groups(self, group_ids: list[str], /) -> GroupResults[GroupDescription]:
        """Describe groups; a group that does not exist has the state ``DEAD``."""

    def stream_consumer_group_offsets(
        self, groups: list[str], /, *, require_stable: bool = False
    ) -> AsyncIterator[GroupResult[GroupOffsets]]:
        """Yield each group's committed offsets as they arrive."""

    async def delete_consumer_groups(
        self,
        group_ids: list[str],
        /,
        *,
        offsets: Mapping[str, GroupOffsets] | None = None,
        send_within: float | None = None,
        coordinators: Mapping[str, BrokerId] | None = None,
        before_sending: Callable[[], Awaitable[None]] | None = None,
    ) -> GroupResults[None]:
        """Delete groups, in requests sized by the number of their offsets.

        Past ``send_within`` seconds no request leaves: the groups that are left fail with ``NotSentError``. Only
        ``coordinators`` are asked: a group that has moved fails. ``before_sending`` is awaited after all that is read.
        """

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], /
    ) -> Mapping[TopicPartition, ListedOffset | KafkaGroupsError]:
        """Return log start offsets, log end offsets or offsets by timestamp."""

    async def cluster_id(self) -> str | None:
        """Return the Kafka cluster id."""

    async def sees_all_topics(self) -> bool:
        """Return whether this user may describe all topics; committed offsets of other topics are not visible."""


class BackupAdmin(GroupAdmin, Protocol):
    """What plans, backups and restores need beside ``GroupAdmin``: which cluster and which topics these are."""

    @property
    def connection(self) -> ConnectionPrint:
        """The fingerprint of the connection."""

    async def brokers(self) -> tuple[Broker, ...]:
        """Return the live brokers."""

    async def topic_ids(self, topics: Iterable[str], /) -> Mapping[str, str]:
        """Return the ids of topics by name, where they have one. A topic that was recreated has another.

        Raises ``UnsupportedByClientError`` when this client cannot learn them.
        """


class RecordAdmin(BackupAdmin, Protocol):
    """What a migration needs of each of its clusters, beside ``BackupAdmin``."""

    async def authorized_operations(self, topics: Iterable[str], /) -> MetadataAnswer:
        """Return the metadata of topics."""

    async def read_records(self, spans: Sequence[Span], keep: Callable[[LogRecord], V], /) -> list[SpanRecords[V]]:
        """Read spans of partitions, joining no group."""


class OffsetDeletionAdmin(GroupAdmin, Protocol):
    """What deletes single committed offsets, beside ``GroupAdmin``."""

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        /,
        *,
        send_within: float | None = None,
        coordinator: BrokerId | None = None,
    ) -> None:
        """Delete a group's committed offsets of some partitions, past ``send_within`` seconds or elsewhere: none."""


class DeletionLease(Protocol):
    """The part of ``MaintenanceLease`` that a deletion uses. Its answers are only valid at that moment."""

    group_id: str
    owner: str
    term: int
    """A change means that the lease was lost and reacquired: another run may have held it in between."""

    @property
    def remaining(self) -> float:
        """The seconds for which the lease remains confirmed; 0 when it is not held."""

    @property
    def generation(self) -> int:
        """The generation that assigned the lease to this run, -1 if none did."""

    @property
    def member_id(self) -> str:
        """The member id of this run, "" while it has none."""

    @property
    def kafka_cluster_id(self) -> str | None:
        """The id of the cluster whose lease this is; ``None`` while it is not known."""

    def check(self, at_least: float = 0.0) -> None:
        """Raise ``LeaseLostError`` unless the lease remains confirmed for this many seconds."""

    async def confirm(self, at_least: float = 0.0) -> None:
        """Wait until the lease is confirmed. Raises ``LeaseLostError`` if that does not happen."""

    async def prove(self, within: float) -> None:
        """Wait for the answer to a heartbeat that is sent now. Raises ``LeaseLostError``; ``NotSentError`` for none."""


def is_out_of_reach(group_id: str, error: KafkaGroupsError | None, protected: Sequence[str]) -> bool:
    """Return whether an ACL refuses a group that nobody manages here: the platform's, or one that is protected.

    Google lists its prober's group on each of its clusters, and lets nobody describe it. That is no failure of a
    reading of all groups; of one that names the group, it is.

    :param protected: the patterns of the connection, beside those of platform groups.
    """
    refused = isinstance(error, BrokerError) and error.name == "GROUP_AUTHORIZATION_FAILED"
    return refused and protecting((*DEFAULT_PROTECTED, *protected)).protects(group_id)


async def read_offsets(
    admin: GroupAdmin, group_ids: list[str], *, require_stable: bool
) -> AsyncIterator[GroupResult[GroupOffsets]]:
    """Yield exactly one result per group: the first one received, or an error.

    A missing result must never look like "no offsets": a group without a result and a result without a value are
    errors.
    """
    waiting = dict.fromkeys(group_ids)
    async for result in admin.stream_consumer_group_offsets(group_ids, require_stable=require_stable):
        if result.group_id not in waiting:
            continue
        del waiting[result.group_id]
        if result.error is None and (result.value is None or result.value.group_id != result.group_id):
            yield GroupResult(
                result.group_id, error=MissingAnswerError(f"the result for {result.group_id!r} has no offsets")
            )
        else:
            yield result
    for group_id in waiting:
        yield GroupResult(group_id, error=MissingAnswerError(f"there is no result for {group_id!r}"))


async def why_short(admin: GroupAdmin, what: str) -> str | None:
    """Return the warning where a reading may be short, or nobody can tell; ``None`` where it is not.

    It is asked at the end, since the right may be taken away meanwhile. No error of it loses what was read.

    :param what: what the warning is about, with its verb.
    """
    try:
        return None if await admin.sees_all_topics() else HIDDEN % what
    except KafkaGroupsError as error:
        return f"{HIDDEN % what}. Whether there are any is not known: {error}"


async def committed_of(admin: GroupAdmin, group_ids: Sequence[str]) -> dict[str, GroupResult[GroupOffsets]]:
    """Read the committed offsets of groups, each with exactly one result."""
    return {result.group_id: result async for result in read_offsets(admin, list(group_ids), require_stable=True)}


async def selected_groups(admin: GroupAdmin, selection: GroupFilter, *, with_offsets: bool = False) -> list[str]:
    """Return the groups of the cluster that are selected, sorted.

    :param with_offsets: without those that have no offsets that brokers show. Default false.

    Raises ``IncompleteListingError`` if a broker did not answer.
    """
    return selected_of((await admin.list_groups()).require_complete(), selection, with_offsets=with_offsets)


def selected_of(listed: GroupListings, selection: GroupFilter, *, with_offsets: bool = False) -> list[str]:
    """Return the listed groups that are selected, sorted, as ``selected_groups`` does."""
    return [
        group_id
        for group_id, group in sorted(listed.items())
        if selection.selects(group_id)
        and not (with_offsets and keeps_progress_elsewhere(group.type, group.protocol_type))
    ]
