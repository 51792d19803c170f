"""The public API of the core: every call takes many groups, and answers for each.

Nothing is decided here. A call picks a handler and a lookup strategy, and the driver does the rest (driver.py). Method
names are those of confluent-kafka's AdminClient where it has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import overload

from airflow_kafka_groups.admin import runner
from airflow_kafka_groups.admin.arguments import (
    commits_of,
    group_ids_of,
    one_or_many,
    partition_specs_of,
    partitions_of,
    pattern_of,
)
from airflow_kafka_groups.admin.calls import Calls, in_order
from airflow_kafka_groups.admin.driver import AdminDriver
from airflow_kafka_groups.admin.handlers.change_group_offsets import (
    AlterGroupOffsetsHandler,
    DeleteGroupOffsetsHandler,
)
from airflow_kafka_groups.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.admin.handlers.describe_groups import (
    DescribeClassicGroupsHandler,
    DescribeModernGroupsHandler,
)
from airflow_kafka_groups.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.admin.handlers.list_offsets import ListOffsetsHandler
from airflow_kafka_groups.admin.lag import GroupLag, group_lag
from airflow_kafka_groups.admin.lookup import CoordinatorStrategy, PartitionLeaderStrategy
from airflow_kafka_groups.admin.requests import DriverLimits
from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.admin.weights import GroupWeights
from airflow_kafka_groups.exceptions import KafkaGroupsError, UnsupportedVersionError
from airflow_kafka_groups.models import (
    Broker,
    BrokerId,
    CoordinatorType,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.modern_group_describe import GROUP_TYPES

GroupSpecs = Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec]
_LISTING_TRIES = 5
_DELETE_BATCHES = 5


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Be the cluster: its id, its brokers, and what each of those that answered can speak."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    api_versions: Mapping[BrokerId, ApiVersions]
    errors: Mapping[BrokerId, KafkaGroupsError]


class AdminClient(Calls):
    """Ask a Kafka cluster about its groups, many at a time. Use it as an async context manager.

    :param config: how to reach the cluster.
    :param connect: opens a connection; a test passes its own. Default: the real one.

    Entering raises ``NoBrokerAvailableError`` when no broker can be used, ``AuthenticationFailedError`` when it refuses
    the credentials. The calls raise only for bad arguments; what goes wrong with a group is in that group's result.
    """

    # The cluster

    async def cluster_id(self) -> str | None:
        """Give the cluster's id; ``None`` where the brokers do not tell (before Kafka 0.10.1)."""
        return self._cluster.metadata.cluster_id

    async def describe_cluster(self) -> ClusterDescription:
        """Ask for the brokers, and connect to each to learn what it speaks.

        Brokers that cannot be reached are in ``errors``; raises only if none answers.
        """
        metadata = await self._cluster.refresh()
        versions: dict[BrokerId, ApiVersions] = {}
        errors: dict[BrokerId, KafkaGroupsError] = {}
        for broker_id in metadata.brokers:
            try:
                versions[broker_id] = (await self._cluster.connection(broker_id)).versions
            except KafkaGroupsError as error:
                errors[broker_id] = error
        return ClusterDescription(metadata.cluster_id, tuple(metadata.brokers.values()), versions, errors)

    # Groups

    async def find_coordinators(
        self, keys: Iterable[str], *, key_type: CoordinatorType = CoordinatorType.GROUP
    ) -> GroupResults[Broker]:
        """Find the coordinator of each key (KIP-699).

        :param keys: group ids, transactional ids or share keys; duplicates are removed.
        :param key_type: what the keys are. Default: groups.

        Keys that fail are in ``.failed``; raises only for bad arguments.
        """
        wanted = group_ids_of(keys, "keys")
        lookup = CoordinatorStrategy(CoordinatorType(key_type))
        driver: AdminDriver[str, Broker] = self._driver(wanted, lookup=lookup, handler=None)
        return in_order(wanted, await runner.collect(driver, self._cluster))

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        group_id_pattern: str | None = None,
    ) -> GroupListings:
        """List the groups of every broker, each group once.

        :param states: only groups in these states (needs ListGroups v4: a group whose state the broker does not tell
            is left out). Default: all.
        :param types: only groups of these types (likewise, v5). Default: all.
        :param group_id_pattern: only groups whose whole id matches this regular expression. Default: all.

        Brokers that did not answer are in ``.errors``: call ``require_complete()`` before anything is deleted.
        """
        wanted_states = tuple(GroupState(state) for state in states)
        wanted_types = tuple(GroupType(kind) for kind in types)
        pattern = pattern_of(group_id_pattern)
        brokers = list((await self._cluster.refresh()).brokers)
        handler = ListGroupsHandler(wanted_states, wanted_types)
        driver: AdminDriver[BrokerId, tuple[GroupListing, ...]] = AdminDriver(
            brokers,
            brokers=brokers,
            lookup=None,
            handler=handler,
            deadline=self._deadline(),
            mapping={broker_id: broker_id for broker_id in brokers},
            limits=DriverLimits(batch_size=1, give_up_after=_LISTING_TRIES),
        )
        listings: list[GroupListing] = []
        errors: dict[BrokerId, KafkaGroupsError] = {}
        for broker_id, found, error in await runner.collect(driver, self._cluster):
            if error is not None:
                errors[broker_id] = error
            listings.extend(
                listing
                for listing in found or ()
                if (not wanted_states or listing.state in wanted_states)
                and (not wanted_types or listing.type in wanted_types)
                and (pattern is None or pattern.fullmatch(listing.group_id))
            )
        if not (wanted_states or wanted_types or pattern):
            self._remember(listings)
        return GroupListings(listings, errors)

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> GroupResults[GroupDescription]:
        """Describe groups of every type, grouped by coordinator (KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param include_authorized_operations: also say what this user may do with each. Default false.

        Classic groups are asked for first, and what is not found there as consumer (KIP-848), share (KIP-932) and
        streams groups (KIP-1071), where the brokers know those. A group that does not exist is a success with the state
        ``DEAD``. Groups that fail are in ``.failed``.
        """
        wanted = group_ids_of(group_ids)
        results = dict(
            await self._ask_coordinators(wanted, DescribeClassicGroupsHandler(include_authorized_operations))
        )
        for api in GROUP_TYPES:
            not_found = [key for key in wanted if results[key].ok and results[key].unwrap().state is GroupState.DEAD]
            if not not_found:
                break
            modern = DescribeModernGroupsHandler(api, include_authorized_operations)
            for group_id, result in (await self._ask_coordinators(not_found, modern)).items():
                # A broker that does not know the API has no such groups: what was said before stands.
                if not isinstance(result.error, UnsupportedVersionError):
                    results[group_id] = result
        return GroupResults(results.values())

    @overload  # a text is an iterable of texts too: the first signature that fits is the one meant
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

        Many: groups that fail are in ``.failed``. One: gives its offsets, or raises its error. A group that does not
        exist has no offsets and no error: existence is ListGroups' and DescribeGroups' to say.
        """
        if isinstance(groups, str):
            return (await self.list_consumer_group_offsets([groups], require_stable=require_stable))[groups].unwrap()
        wanted, specs = one_or_many(groups)
        return await self._ask_coordinators(wanted, ListGroupOffsetsHandler(specs, require_stable))

    async def stream_consumer_group_offsets(
        self, groups: GroupSpecs, *, require_stable: bool = False, progress: runner.Progress | None = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        """List committed offsets, each group as its answer arrives, so that memory does not grow with their number.

        :param groups: group ids, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.
        :param require_stable: wait for open transactions that hold offsets back (KIP-447). Default false.
        :param progress: called with (groups done, groups in all). Default: nobody is told.

        Leaving the iterator early (``contextlib.aclosing``) cancels what is under way.
        """
        wanted, specs = one_or_many(groups)
        driver = self._group_driver(wanted, ListGroupOffsetsHandler(specs, require_stable))
        async with aclosing(runner.stream(driver, self._cluster, progress)) as results:
            async for outcome in results:
                yield GroupResult(*outcome)

    async def delete_consumer_groups(
        self, group_ids: Iterable[str], *, offsets: Mapping[str, GroupOffsets] | None = None
    ) -> GroupResults[None]:
        """Delete groups that have no members, offsets and all, grouped by coordinator (KIP-229, KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param offsets: their committed offsets, where they have just been read: requests are then cut by what they
            make the broker write, and a group that is more than one batch is emptied in slices first (KIP-496).
            Without it sizes are estimated, and such a group fails with UNKNOWN_SERVER_ERROR.

        This asks the brokers and nothing else: whether a group *should* go is decided in ``maintenance``. Groups that
        fail are in ``.failed``: NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND as ``BrokerError``, and a lost answer as
        ``OutcomeUnknownError``, never sent again by itself.
        """
        wanted = group_ids_of(group_ids)
        topic = self._cluster.metadata.offsets_topic
        weights = GroupWeights(offsets or {}, len(topic.leaders) if topic is not None else None)
        emptied = dict[str, GroupResult[None]]()
        for group_id, known in weights.known.items():
            if group_id in wanted and not weights.fits(group_id):
                emptied[group_id] = await self._empty_in_slices(known, weights)
        ready = [group_id for group_id in wanted if group_id not in emptied or emptied[group_id].ok]
        deleted = await self._ask_coordinators(
            ready,
            DeleteGroupsHandler(),
            # A broker works on one request of a connection at a time and waits for the replicas of each deletion: fewer
            # and larger requests wait less often. What is too large the weights see to.
            batch_size=_DELETE_BATCHES * self._config.batch_size,
            weights=weights.without(emptied),
        )
        return GroupResults(deleted.get(group_id) or emptied[group_id] for group_id in wanted)

    async def _empty_in_slices(self, offsets: GroupOffsets, weights: GroupWeights) -> GroupResult[None]:
        """Delete the offsets of a group that is too big for one batch, slice by slice; stop at the first failure."""
        group_id = offsets.group_id
        for partitions in weights.slices(offsets):
            handler = DeleteGroupOffsetsHandler({group_id: partitions})
            result = (await self._ask_coordinators([group_id], handler))[group_id]
            if not result.ok:
                return result
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

    async def list_consumer_group_lag(self, groups: GroupSpecs) -> GroupResults[GroupLag]:
        """List how far groups are behind, partition by partition, each with a flag (see ``admin.lag``).

        :param groups: group ids, or a mapping of group id to ``ListConsumerGroupOffsetsSpec``.

        Each partition is asked for its ends once, however many groups read it. Groups whose offsets cannot be read are
        in ``.failed``; a partition whose ends cannot be read has the flag ``UNKNOWN``.
        """
        results = await self.list_consumer_group_offsets(groups)
        partitions = {partition for offsets in results.succeeded.values() for partition in offsets}
        starts, ends = await asyncio.gather(
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.earliest())),
            self.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())),
        )
        return GroupResults(
            GroupResult(group_id, None if result.value is None else group_lag(result.value, starts, ends), result.error)
            for group_id, result in results.items()
        )

    # Partitions

    async def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, ListedOffset | KafkaGroupsError]:
        """List log start, end or the offset at a time.

        :param specs: what is wanted of which partition.

        A partition that fails (a deleted topic, say) has its error as the value; raises only for bad arguments.
        """
        wanted = partition_specs_of(specs)
        driver: AdminDriver[TopicPartition, ListedOffset] = self._driver(
            wanted, lookup=PartitionLeaderStrategy(), handler=ListOffsetsHandler(wanted), batch_size=5000
        )
        results: dict[TopicPartition, ListedOffset | KafkaGroupsError] = {}
        for key, value, error in await runner.collect(driver, self._cluster):
            results[key] = error or value  # type: ignore[assignment]  # one of the two is there
        return {key: results[key] for key in wanted}
