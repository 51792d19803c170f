"""The public API of the core: every call takes many groups, and returns a result for each.

Nothing is decided here. A call checks its arguments and picks a handler; the engine does the rest. Method names are
those of confluent-kafka's AdminClient where it has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Self, overload

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.client import access, changes, listing
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of, many, one_or_many, partition_specs_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls, ChangePolicy, Progress
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_offsets import FetchTailsHandler, ListOffsetsHandler
from airflow_kafka_groups.kafka.admin.lag import GroupLag, LogBounds, partitions_of
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.products import known_id
from airflow_kafka_groups.kafka.models import (
    ELIGIBLE_TYPES,
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
from airflow_kafka_groups.kafka.transport.base import Connector

GroupSpecs = Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec]


class AdminClient:
    """A client for the groups of a Kafka cluster, many at a time. Use it as an async context manager.

    :param config: how to reach the cluster.
    :param connect: opens a connection; a test passes its own. Default: the real one.
    :param policy: which groups may not be changed. Default: all may.

    Entering raises ``NoBrokerAvailableError`` when no broker can be used, ``AuthenticationFailedError`` when it refuses
    the credentials. The calls raise only for bad arguments; what goes wrong with a group is in that group's result.
    """

    def __init__(
        self, config: ClientConfig, connect: Connector | None = None, policy: ChangePolicy | None = None
    ) -> None:
        self._calls = Calls(config, connect, policy)

    async def __aenter__(self) -> Self:
        await self._calls.cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.cluster.aclose()

    async def cluster_id(self) -> str | None:
        """Return the cluster's id; ``None`` where the brokers have none, or none yet (Redpanda while it starts)."""
        return known_id(self._calls.cluster.metadata.cluster_id)

    async def brokers(self) -> tuple[Broker, ...]:
        """Return the live brokers, as one of them reports them; none is connected to for that."""
        return tuple((await self._calls.cluster.fresh_metadata()).brokers.values())

    async def describe_cluster(self) -> listing.ClusterDescription:
        """Ask for the brokers, and connect to each to learn its API versions.

        Brokers that cannot be reached are in ``errors``; raises only if none answers.
        """
        return await listing.describe_cluster(self._calls)

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset | KafkaGroupsError]:
        """List log start, end or the offset at a time.

        :param specs: what is wanted of which partition.

        A partition that fails (a deleted topic, say) has its error as the value; raises only for bad arguments.
        """
        wanted = partition_specs_of(specs)
        results: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        for key, value, error in await self._calls.ask_leaders(wanted, ListOffsetsHandler(wanted)):
            results[key] = error or value  # type: ignore[assignment]  # one of the two is there
        return {key: results[key] for key in wanted}

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        """Ask what this user may do with the cluster and with some topics (KIP-430).

        The answer has the operations of the cluster and of topics; ``None`` where the broker is too old (before 2.3).
        """
        return await access.authorized_operations(self._calls, topics)

    async def sees_all_topics(self) -> bool:
        """Return whether this user may describe topics in general, asked of a topic that does not exist.

        Brokers silently leave topics that a user may not describe out of committed offsets, so where this is false a
        group may have more offsets than it shows. A sign, not a proof: ACLs may hide single topics. Only a clear answer
        counts: that there is no such topic, or what it is.
        """
        return access.shows_absent_topic(await self.authorized_operations([access.ABSENT_TOPIC]))

    async def group_operations(self, group_id: str) -> frozenset[str] | None:
        """Ask what this user may do with a group, also with one that does not exist (KIP-430).

        Returns operations such as ``read``, ``None`` before Kafka 2.3, and none if this user may not even describe it.
        """
        return await access.group_operations(self._calls, group_id)

    async def find_coordinators(
        self, keys: Iterable[str], *, key_type: CoordinatorType = CoordinatorType.GROUP
    ) -> GroupResults[Broker]:
        """Find the coordinator of each key (KIP-699).

        :param keys: group ids, transactional ids or share keys; duplicates are removed.
        :param key_type: what the keys are. Default: groups.

        Keys that fail are in ``.failed``; raises only for bad arguments.
        """
        return await self._calls.find_coordinators(group_ids_of(keys, "keys"), key_type)

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        group_id_pattern: str | None = None,
    ) -> GroupListings:
        """List the groups of every broker, each group once.

        :param states: only groups in these states (needs ListGroups v4: a group whose state the broker does not send
            is left out). Default: all.
        :param types: only groups of these types (needs v5 in the same way). Default: all.
        :param group_id_pattern: only groups whose whole id matches this regular expression. Default: all.

        Brokers without an answer and partitions of ``__consumer_offsets`` without a leader are in ``.errors``: call
        ``require_complete()`` before anything is deleted.
        """
        return await listing.list_groups(self._calls, states=states, types=types, group_id_pattern=group_id_pattern)

    list_consumer_groups = list_groups  # as other clients of Kafka call it

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> GroupResults[GroupDescription]:
        """Describe groups of every type, grouped by coordinator (KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param include_authorized_operations: also ask what this user may do with each. Default false.

        Classic groups are asked for first, and what is not found there as consumer (KIP-848), share (KIP-932) and
        streams groups (KIP-1071), unless a broker says that there is none of any type. A group that does not exist is a
        success with the state ``DEAD`` and the type ``UNKNOWN``. Groups that fail are in ``.failed``.
        """
        return await listing.describe_groups(self._calls, group_ids, include_authorized_operations)

    @overload  # a string is an iterable of strings too: the first signature that fits is the one meant
    async def list_consumer_group_offsets(  # type: ignore[overload-overlap]
        self, groups: str, *, require_stable: bool = ...
    ) -> GroupOffsets: ...

    @overload
    async def list_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = ...
    ) -> GroupResults[GroupOffsets]: ...

    async def list_consumer_group_offsets(
        self, groups: str | GroupSpecs, *, require_stable: bool = False
    ) -> GroupOffsets | GroupResults[GroupOffsets]:
        """List committed offsets (KIP-709).

        :param groups: one group id, many, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.
        :param require_stable: wait for open transactions that hold offsets back (KIP-447). Default false.

        Many: groups that fail are in ``.failed``. One: returns its offsets, or raises its error. A group that does not
        exist has no offsets and no error: use ListGroups and DescribeGroups for existence. Of a share group (KIP-932),
        it is the start offset of each partition, as ``ShareGroupOffsets``.
        """
        if isinstance(groups, str):
            return (await self.list_consumer_group_offsets([groups], require_stable=require_stable))[groups].unwrap()
        wanted, handler = self._offsets_handler(groups, require_stable)
        found = await self._calls.ask_coordinators(wanted, handler)
        of_share_groups = await self._calls.share_offsets(found.values(), handler.specs)
        return GroupResults.of(dict(found) | of_share_groups) if of_share_groups else found

    async def stream_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = False, progress: Progress | None = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        """List committed offsets, each group as its answer arrives, so that memory does not grow with their number.

        :param progress: called with (groups done, in all). Default: never. Others: ``list_consumer_group_offsets``.

        Leaving the iterator early (``contextlib.aclosing``) cancels what is under way.
        """
        wanted, handler = self._offsets_handler(groups, require_stable)
        stream = self._calls.stream_coordinators(wanted, handler, progress)
        async with aclosing(stream) as batches:
            empty: list[GroupResult[GroupOffsets]] = []
            async for batch in batches:
                for group_id, offsets, error in batch:
                    result = GroupResult(group_id, offsets, error)
                    if offsets is None or not offsets.is_empty:
                        yield result
                    else:
                        empty.append(result)
            of_share_groups = await self._calls.share_offsets(empty, handler.specs)
            for result in empty:
                yield of_share_groups.get(result.group_id, result)

    def _offsets_handler(self, groups: GroupSpecs, require_stable: bool) -> tuple[list[str], ListGroupOffsetsHandler]:
        wanted, specs = one_or_many(groups)
        batch_size = self._calls.batch_size(len(wanted))
        return wanted, ListGroupOffsetsHandler(specs, require_stable, batch_size)

    async def list_consumer_group_lag(self, groups: GroupSpecs) -> GroupResults[GroupLag]:
        """List how far groups are behind, partition by partition, each with a flag (see ``admin.lag``).

        :param groups: group ids, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.

        Each partition is asked for its ends once, however many groups read it. Groups whose offsets cannot be read are
        in ``.failed``; a partition whose ends cannot be read has the flag ``UNKNOWN``.
        """
        results = await self.list_consumer_group_offsets(many(groups, "groups"))
        partitions = partitions_of(results.succeeded.values())
        # Not before all commits are read: one that is newer than the end offset would look like one beyond it.
        starts, ends = await asyncio.gather(
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest())),
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())),
        )
        bounds = LogBounds(starts, ends)
        await self.end_readable(bounds, results.succeeded.values())
        return GroupResults(
            GroupResult(group_id, None if offsets is None else GroupLag(offsets, bounds), error)
            for group_id, offsets, error in results.values()
        )

    async def end_readable(self, bounds: LogBounds, groups: Iterable[GroupOffsets]) -> None:
        """Look whether what groups have left of a log holds records: the markers of transactions are none.

        Only where at most 1,000 offsets are left, and of 1,000 partitions at most, a few bytes of each. It needs the
        right to read the topic; without it, and on brokers before Kafka 2.7, all that is left counts as lag.
        """
        wanted = bounds.nearly_read(groups)
        found = await self._calls.ask_leaders(wanted, FetchTailsHandler(wanted)) if wanted else ()
        bounds.end_readable(wanted, {where: tail for where, tail, _ in found if tail is not None})

    async def delete_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        offsets: Mapping[str, GroupOffsets] | None = None,
        types: Iterable[GroupType | str] = ELIGIBLE_TYPES,
        send_within: float | None = None,
        coordinators: Mapping[str, BrokerId] | None = None,
        before_sending: Callable[[], Awaitable[None]] | None = None,
    ) -> GroupResults[None]:
        """Delete groups that have no members, offsets and all, grouped by coordinator (KIP-229, KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param offsets: their committed offsets, just read: requests are sized by what they make the broker write, and
            a group of more than one batch is emptied in slices first (KIP-496); else it fails (UNKNOWN_SERVER_ERROR).
        :param types: the types that may be deleted. Default: classic and consumer; brokers would delete a share group,
            with all its progress, as readily. A group of another type fails with ``UnexpectedGroupTypeError``; when a
            broker does not list its groups, all that it might have fail with ``IncompleteListingError``.
        :param send_within: seconds from now within which requests may leave, retries included; later on, groups fail
            with ``NotSentError``: they were not touched. Default: until the call's deadline.
        :param coordinators: the only brokers to ask; a group that moved fails (NOT_COORDINATOR). Default: any broker.
        :param before_sending: awaited after all that is read first; what it raises is raised, and nothing was sent.
            Default: nothing.

        This asks the brokers and nothing else: whether a group *should* go is decided in ``change``. Groups that
        fail are in ``.failed``: NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND as ``BrokerError``, a lost answer (never sent
        again) as ``OutcomeUnknownError``, a group that was emptied and still exists as ``PartlyDeletedError``. Groups
        that the client's policy refuses fail with its reason; raises what it raises.
        """
        how = (types, send_within, coordinators, before_sending)
        return await changes.delete_groups(self._calls, group_ids, offsets or {}, *how)

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        send_within: float | None = None,
        coordinator: BrokerId | None = None,
    ) -> None:
        """Delete a group's committed offsets of some partitions (KIP-496), also while it has members elsewhere.

        :param partitions: the partitions; a topic that a member is subscribed to is refused by the broker.
        :param send_within: see ``delete_consumer_groups``; so is ``coordinator``, the only broker to ask.

        Raises ``PartitionsFailedError`` naming the partitions that failed (the others are done), ``BrokerError`` for
        the group, ``OutcomeUnknownError`` when the answer was lost, or what the client's policy refuses it with.
        """
        await changes.delete_group_offsets(self._calls, group_id, partitions, send_within, coordinator)

    async def alter_consumer_group_offsets(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
        *,
        send_within: float | None = None,
        coordinators: Mapping[str, BrokerId] | None = None,
        share_groups: Collection[str] = (),
    ) -> GroupResults[None]:
        """Set committed offsets of groups that have no members; a group that does not exist is created.

        :param send_within: see ``delete_consumer_groups``; so is ``coordinators``.
        :param share_groups: those whose start offsets are set (KIP-932; Kafka 4.2). Default: none; a broker refuses to
            set offsets of a group of another type.

        Groups that fail are in ``.failed``: ``PartitionsFailedError`` names the partitions (the others are done);
        UNKNOWN_MEMBER_ID: it has members. A lost answer is ``OutcomeUnknownError``. The policy may refuse groups.
        """
        return await changes.alter_group_offsets(self._calls, offsets, send_within, coordinators, share_groups)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[MemberToRemove],
        *,
        reason: str = "",
        send_within: float | None = None,
        coordinator: BrokerId | None = None,
    ) -> dict[MemberToRemove, KafkaGroupsError | None]:
        """Remove members from a group (LeaveGroup, KIP-345): static ones that do not come back, or zombies.

        A member that is alive joins again at once. Brokers let nobody remove members that use the protocol of KIP-848.

        :param members: the members, by id, by instance id, or by both.
        :param reason: what brokers log (KIP-800). Default: nothing.
        :param send_within: see ``delete_consumer_groups``; so is ``coordinator``, the only broker to ask.

        Returns the error of each member, ``None`` where it was removed: UNKNOWN_MEMBER_ID if it is none,
        FENCED_INSTANCE_ID if it has joined again. Raises the group's error, ``OutcomeUnknownError`` when the answer was
        lost, ``UnsupportedVersionError`` before Kafka 2.4, or what the client's policy refuses it with.
        """
        return await changes.remove_members(self._calls, group_id, members, reason, send_within, coordinator)
