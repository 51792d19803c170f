"""The calls that change groups: deleting groups, deleting and setting their offsets, removing members."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    IncompleteListingError,
    KafkaGroupsError,
    OutcomeUnknownError,
    PartitionsFailedError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka.admin.client.arguments import commits_of, group_ids_of, members_of, partitions_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.client.listing import Listing
from airflow_kafka_groups.kafka.admin.handlers.change_groups import (
    AlterGroupOffsetsHandler,
    AlterShareOffsetsHandler,
    Commits,
    DeleteGroupOffsetsHandler,
    RemoveMembersHandler,
    commit_bytes,
    commit_slices,
)
from airflow_kafka_groups.kafka.admin.handlers.delete_groups import (
    BATCHES_IN_ONE,
    BUDGET_BYTES,
    DEFAULT_PARTITIONS,
    DeleteGroupsHandler,
    TombstoneSizes,
    slices_of,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.routing import java_hashes, partitions_of_hashes
from airflow_kafka_groups.kafka.models import (
    ELIGIBLE_TYPES,
    BrokerId,
    GroupOffsets,
    GroupType,
    MemberToRemove,
    OffsetAndMetadata,
    TopicPartition,
)

_Slice = TypeVar("_Slice", bound=Collection[TopicPartition])
_HASHED_AT_ONCE = 1024
_TURNS_BETWEEN = 4
"""A third of a millisecond of hashing, then some turns of the event loop: connecting and asking go on meanwhile."""


class Changes(Listing):
    """The calls that change groups. Whether a group *should* be changed is decided in ``change``."""

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
        :param offsets: their committed offsets, just read: requests are sized by what they make the broker write. A
            group that is more than a batch fails (UNKNOWN_SERVER_ERROR): delete some of its offsets first (KIP-496).
        :param types: the types that may be deleted. Default: classic and consumer; brokers would delete a share group,
            with all its progress, as readily. A group of another type fails with ``UnexpectedGroupTypeError``; when a
            broker does not list its groups, all fail with ``IncompleteListingError``.
        :param send_within: seconds from now within which requests may leave, retries included; later on, groups fail
            with ``NotSentError``: they were not touched. Default: until the call's deadline.
        :param coordinators: the only brokers to ask; a group that moved fails (NOT_COORDINATOR). Default: any broker.
        :param before_sending: awaited after all that is read first; what it raises is raised, and nothing was sent.

        Groups that fail are in ``.failed``: NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND as ``BrokerError``, a lost answer
        (never sent again) as ``OutcomeUnknownError``, and what the client's policy refuses; raises what it raises.
        """
        calls = self._calls
        send_by = _send_by(send_within)
        wanted = group_ids_of(group_ids)
        allowed_types = frozenset(members_of(GroupType, types, "types"))
        given: object = offsets or {}
        if not isinstance(given, Mapping) or not all(isinstance(each, GroupOffsets) for each in given.values()):
            raise ConfigurationError(
                "offsets", None, "give the GroupOffsets of each group, as list_consumer_group_offsets"
            )
        done = _failed(calls.refusals(wanted))  # before anything is asked: a read-only client asks nothing
        allowed = [group_id for group_id in wanted if group_id not in done] if done else wanted
        checking = asyncio.create_task(_of_other_types(self, allowed, allowed_types))
        try:
            # While the brokers look through their groups: hashing ids is most of what there is to compute.
            sizes = await _tombstone_sizes(calls, allowed, offsets or {})
            guess = calls.guess_coordinators(allowed, sizes.buckets) if coordinators is None else None
            done |= await checking
        finally:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)
        if before_sending is not None:
            await before_sending()
        ready = [group_id for group_id in wanted if group_id not in done] if done else wanted
        batch_size = BATCHES_IN_ONE * calls.batch_size(len(ready))
        handler = DeleteGroupsHandler(sizes, batch_size, send_by=send_by)
        # The brokers that described the groups, where they are given: another one may know them better.
        deleted = await calls.ask_coordinators(ready, handler, guess=guess, only=coordinators)
        if not done:  # as nearly always
            return deleted
        return GroupResults(done.get(group_id) or deleted[group_id] for group_id in wanted)

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
        calls = self._calls
        send_by = _send_by(send_within)
        (group,) = group_ids_of([group_id], "group_id")
        only = None if coordinator is None else {group: coordinator}

        async def delete(part: Sequence[TopicPartition]) -> KafkaGroupsError | None:
            handler = DeleteGroupOffsetsHandler({group: part}, send_by=send_by)
            return (await calls.ask_coordinators([group], handler, only=only))[group].error

        if (error := await _in_slices(group, slices_of(group, partitions_of(partitions)), delete)) is not None:
            raise error

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
        calls = self._calls
        send_by = _send_by(send_within)
        wanted = commits_of(offsets)
        results = _failed(calls.refusals(wanted))  # also of those that have nothing to commit
        given = [group_id for group_id, of_group in wanted.items() if of_group and group_id not in results]
        busy = [group_id for group_id in given if group_id not in share_groups]
        if shared := [group_id for group_id in given if group_id in share_groups]:
            of_shares = AlterShareOffsetsHandler(wanted, send_by=send_by)
            results |= await calls.ask_coordinators(shared, of_shares, only=coordinators)
        partitions = _offsets_partition_count(calls)
        buckets = dict(zip(busy, partitions_of_hashes(java_hashes(busy), partitions), strict=True))
        # A broker writes and replicates those commits together that it works on at the same time.
        busy.sort(key=buckets.__getitem__)
        slices = {
            group_id: commit_slices(group_id, wanted[group_id])
            for group_id in busy
            if commit_bytes(group_id, wanted[group_id]) > BUDGET_BYTES
        }
        at_once = [group_id for group_id in busy if group_id not in slices] if slices else busy
        guess = calls.guess_coordinators(at_once, buckets) if coordinators is None else None
        connections = calls.commit_connections(len(at_once))
        turns = calls.take_turns(at_once, connections, coordinators or guess or {})
        handler = AlterGroupOffsetsHandler(wanted, connections, coordinators is not None, turns, send_by=send_by)
        results |= await calls.ask_coordinators(list(turns), handler, guess=guess, only=coordinators)
        sliced = await asyncio.gather(
            *(_commit_in_slices(calls, *each, send_by, coordinators) for each in slices.items())
        )
        results |= {result.group_id: result for result in sliced}
        return GroupResults(results.get(group_id) or GroupResult(group_id) for group_id in wanted)

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
        calls = self._calls
        send_by = _send_by(send_within)
        (group,) = group_ids_of([group_id], "group_id")
        wanted = list(dict.fromkeys(members))
        if not wanted or not all(member_id or instance_id for member_id, instance_id in wanted):
            raise ConfigurationError("members", None, "name at least one member, each by its id or its instance id")
        handler = RemoveMembersHandler({group: wanted}, reason, send_by=send_by)
        only = None if coordinator is None else {group: coordinator}
        return (await calls.ask_coordinators([group], handler, only=only))[group].unwrap()


async def _commit_in_slices(
    calls: Calls, group_id: str, slices: Sequence[Commits], send_by: float, coordinators: Mapping[str, BrokerId] | None
) -> GroupResult[None]:
    turns = calls.take_turns([group_id], 1, {})

    async def commit(part: Commits) -> KafkaGroupsError | None:
        handler = AlterGroupOffsetsHandler({group_id: part}, 1, coordinators is not None, turns, send_by=send_by)
        return (await calls.ask_coordinators([group_id], handler, only=coordinators))[group_id].error

    return GroupResult(group_id, error=await _in_slices(group_id, slices, commit))


async def _in_slices(
    group_id: str, slices: Sequence[_Slice], change: Callable[[_Slice], Awaitable[KafkaGroupsError | None]]
) -> KafkaGroupsError | None:
    """Change partitions of a group slice by slice; return what failed, by partition once a slice was changed."""
    failed: dict[TopicPartition, KafkaGroupsError] = {}
    for number, part in enumerate(slices):
        error = await change(part)
        if isinstance(error, PartitionsFailedError):
            failed |= error.partition_errors
        elif error is not None:
            if not number or isinstance(error, OutcomeUnknownError):
                return error
            failed |= {where: error for rest in slices[number:] for where in rest}
            break
    return PartitionsFailedError(group_id, failed) if failed else None


async def _tombstone_sizes(calls: Calls, group_ids: list[str], offsets: Mapping[str, GroupOffsets]) -> TombstoneSizes:
    """Hash the ids, and let other tasks go on meanwhile: all at once held up the questions to the brokers."""
    hashes: list[int] = []
    for start in range(0, len(group_ids), _HASHED_AT_ONCE):
        for _ in range(_TURNS_BETWEEN):
            await asyncio.sleep(0)
        hashes += java_hashes(group_ids[start : start + _HASHED_AT_ONCE])
    partitions = partitions_of_hashes(hashes, _offsets_partition_count(calls))
    return TombstoneSizes(offsets, dict(zip(group_ids, partitions, strict=True)))


async def _of_other_types(
    client: Listing, wanted: Collection[str], types: frozenset[GroupType]
) -> dict[str, GroupResult[None]]:
    """Return the groups that must not be deleted: of another type, or of a type that could not be read."""
    others = set(GroupType) - types - {GroupType.UNKNOWN}
    if GroupType.CLASSIC not in types:  # as those are whose type a broker is too old to report
        others.add(GroupType.UNKNOWN)
    if not (wanted and others):
        return {}
    listings = await client.list_groups(types=others)
    if not listings.complete:
        error = IncompleteListingError(listings.errors)
        return {group_id: GroupResult(group_id, None, error) for group_id in wanted}
    excluded: dict[str, GroupResult[None]] = {}
    for group_id in set(listings).intersection(wanted):
        kind = listings[group_id].type
        kind = GroupType.CLASSIC if kind is GroupType.UNKNOWN else kind  # the error says which one to add
        excluded[group_id] = GroupResult(group_id, None, UnexpectedGroupTypeError(group_id, kind))
    return excluded


def _send_by(send_within: object) -> float:
    """Return the time, on ``cluster.clock``, after which no request leaves."""
    if send_within is None:
        return math.inf
    if not isinstance(send_within, int | float) or math.isnan(send_within):  # no time is later than one that is none
        raise ConfigurationError("send_within", send_within, "give a number of seconds, or leave it out")
    return clock.now() + send_within


def _offsets_partition_count(calls: Calls) -> int:
    topic = calls.cluster.metadata.offsets_topic
    return len(topic.leaders) if topic is not None else DEFAULT_PARTITIONS


def _failed(errors: Mapping[str, KafkaGroupsError]) -> dict[str, GroupResult[None]]:
    return {group_id: GroupResult(group_id, error=error) for group_id, error in errors.items()}
