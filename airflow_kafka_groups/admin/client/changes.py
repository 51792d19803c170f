"""What changes something: deleting groups, deleting and setting their offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from airflow_kafka_groups.admin.client.arguments import commits_of, group_ids_of, partitions_of
from airflow_kafka_groups.admin.client.listing import ListingCalls
from airflow_kafka_groups.admin.handlers.change_group_offsets import (
    AlterGroupOffsetsHandler,
    DeleteGroupOffsetsHandler,
)
from airflow_kafka_groups.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.admin.handlers.tombstone_size import DEFAULT_PARTITIONS, GroupWeights
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.cluster.java_hash import java_hashes
from airflow_kafka_groups.cluster.routing import partitions_of_hashes
from airflow_kafka_groups.contracts.group_types import ELIGIBLE_TYPES
from airflow_kafka_groups.exceptions import (
    BrokerError,
    IncompleteListingError,
    OutcomeUnknownError,
    PartitionsFailedError,
    PartlyDeletedError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.models import GroupOffsets, GroupType, OffsetAndMetadata, TopicPartition

_DELETE_BATCHES = 20
_HASHED_AT_ONCE = 1024
_TURNS_BETWEEN = 4
"""A third of a millisecond of hashing, then some turns of the event loop: connecting and asking go on meanwhile."""


class ChangingCalls(ListingCalls):
    """Delete groups and offsets, and set offsets. Whether one should is decided in ``maintenance``."""

    async def delete_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        offsets: Mapping[str, GroupOffsets] | None = None,
        types: Iterable[GroupType | str] = ELIGIBLE_TYPES,
    ) -> GroupResults[None]:
        """Delete groups that have no members, offsets and all, grouped by coordinator (KIP-229, KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param offsets: their committed offsets, where they have just been read: requests are then cut by what they
            make the broker write, and a group that is more than one batch is emptied in slices first (KIP-496).
            Without it sizes are estimated, and such a group fails with UNKNOWN_SERVER_ERROR.
        :param types: the types of groups that may be deleted. Default: classic and consumer. A group of another type
            fails with ``UnexpectedGroupTypeError``; when a broker does not list its groups, all that it might have
            fail with ``IncompleteListingError``. Brokers would delete a share group, with all its progress, as readily
            as any other.

        This asks the brokers and nothing else: whether a group *should* go is decided in ``maintenance``. Groups that
        fail are in ``.failed``: NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND as ``BrokerError``, a lost answer as
        ``OutcomeUnknownError``, never sent again by itself, and a group that was emptied and is there still as
        ``PartlyDeletedError``.
        """
        wanted = group_ids_of(group_ids)
        checking = asyncio.create_task(self._of_other_types(wanted, frozenset(GroupType(kind) for kind in types)))
        try:
            # While the brokers look through their groups: hashing ids is most of what there is to compute.
            weights = await self._weights(wanted, offsets or {})
            guess = self._guess(wanted, weights.buckets)
            kept = await checking
        finally:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)
        emptied = dict[str, GroupResult[None]]()
        for group_id in wanted if weights.known else ():
            known = weights.known.get(group_id)
            if known is not None and group_id not in kept and not weights.fits(group_id):
                emptied[group_id] = await self._empty_in_slices(known, weights)
        done = kept | {group_id: result for group_id, result in emptied.items() if not result.ok}
        ready = [group_id for group_id in wanted if group_id not in done] if done else wanted
        deleted = await self._ask_coordinators(
            ready,
            DeleteGroupsHandler(),
            # A broker works on one request of a connection at a time and waits for the replicas of each: two requests a
            # broker took a tenth longer than one, five half as long again. What is too large the weights see to.
            batch_size=_DELETE_BATCHES * self._config.groups_in_request(len(ready)),
            weights=weights.without(emptied),
            mapping=guess,
        )
        for group_id in emptied.keys() & deleted.keys():
            done[group_id] = _of_emptied(deleted[group_id])
        if not done:  # as nearly always
            return deleted
        return GroupResults(done.get(group_id) or deleted[group_id] for group_id in wanted)

    async def _weights(self, group_ids: list[str], offsets: Mapping[str, GroupOffsets]) -> GroupWeights:
        """Hash the ids, and let other tasks go on meanwhile: all at once held up the questions to the brokers."""
        hashes: list[int] = []
        for start in range(0, len(group_ids), _HASHED_AT_ONCE):
            for _ in range(_TURNS_BETWEEN):
                await asyncio.sleep(0)
            hashes += java_hashes(group_ids[start : start + _HASHED_AT_ONCE])
        topic = self._cluster.metadata.offsets_topic
        partitions = len(topic.leaders) if topic is not None else DEFAULT_PARTITIONS
        buckets = dict(zip(group_ids, partitions_of_hashes(hashes, partitions), strict=True))
        return GroupWeights(offsets, partitions, buckets=buckets)

    async def _of_other_types(self, wanted: list[str], types: frozenset[GroupType]) -> dict[str, GroupResult[None]]:
        """Give the groups that are not to be touched: of another type, or of one that could not be learnt."""
        others = set(GroupType) - types - {GroupType.UNKNOWN}
        if not (wanted and others):
            return {}
        listings = await self.list_groups(types=others)
        if not listings.complete:
            error = IncompleteListingError(listings.errors)
            return {group_id: GroupResult(group_id, None, error) for group_id in wanted}
        return {
            group_id: GroupResult(group_id, None, UnexpectedGroupTypeError(group_id, listings[group_id].type))
            for group_id in set(listings).intersection(wanted)
        }

    async def _empty_in_slices(self, offsets: GroupOffsets, weights: GroupWeights) -> GroupResult[None]:
        """Delete the offsets of a group that is too big for one batch, slice by slice; stop at the first failure."""
        group_id = offsets.group_id
        for number, partitions in enumerate(weights.slices(offsets)):
            handler = DeleteGroupOffsetsHandler({group_id: partitions})
            result = (await self._ask_coordinators([group_id], handler))[group_id]
            if result.error is not None:
                some = number or isinstance(result.error, PartitionsFailedError | OutcomeUnknownError)
                return GroupResult(group_id, error=PartlyDeletedError(group_id, result.error)) if some else result
        return GroupResult(group_id)

    async def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget a group's committed offsets of some partitions (KIP-496), also while it has members elsewhere.

        :param group_id: the group.
        :param partitions: the partitions; a topic that a member is subscribed to is refused by the broker.

        Raises ``PartitionsFailedError`` naming the partitions that failed (the others are done), ``BrokerError`` for
        the group, or ``OutcomeUnknownError`` when the answer was lost.
        """
        (group,) = group_ids_of([group_id], "group_id")
        wanted = partitions_of(partitions)
        if wanted:
            handler = DeleteGroupOffsetsHandler({group: wanted})
            (await self._ask_coordinators([group], handler))[group].unwrap()

    async def alter_consumer_group_offsets(
        self, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> GroupResults[None]:
        """Set committed offsets of groups that have no members; a group that does not exist is created.

        :param offsets: what to commit for which group.

        Groups that fail are in ``.failed``: ``PartitionsFailedError`` names the partitions (the others are done);
        UNKNOWN_MEMBER_ID means that the group has members. A lost answer is ``OutcomeUnknownError``.
        """
        wanted = commits_of(offsets)
        handler = AlterGroupOffsetsHandler(wanted)
        busy = [group_id for group_id, of_group in wanted.items() if of_group]
        results = await self._ask_coordinators(busy, handler, batch_size=1)
        return GroupResults(results.get(group_id) or GroupResult(group_id) for group_id in wanted)


def _of_emptied(result: GroupResult[None]) -> GroupResult[None]:
    """Say of a group that was emptied first, and then not deleted, that it has lost its offsets."""
    error = result.error
    if error is None or (isinstance(error, BrokerError) and error.name == "GROUP_ID_NOT_FOUND"):
        return result
    return GroupResult(result.group_id, error=PartlyDeletedError(result.group_id, error))
