"""The public API of the core: every call takes many groups, and answers for each.

Nothing is decided here. A call picks a handler and a lookup strategy, and the driver does the rest (driver.py). Method
names are those of confluent-kafka's AdminClient where it has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import overload

from airflow_kafka_groups.admin import runner
from airflow_kafka_groups.admin.arguments import group_ids_of, one_or_many, partition_specs_of, pattern_of
from airflow_kafka_groups.admin.driver import AdminDriver, DriverLimits
from airflow_kafka_groups.admin.fates import K, Outcome, V
from airflow_kafka_groups.admin.handler import AdminHandler
from airflow_kafka_groups.admin.handlers.delete_groups import DeleteGroupsHandler
from airflow_kafka_groups.admin.handlers.describe_groups import (
    DescribeClassicGroupsHandler,
    DescribeConsumerGroupsHandler,
)
from airflow_kafka_groups.admin.handlers.list_group_offsets import ListGroupOffsetsHandler
from airflow_kafka_groups.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.admin.handlers.list_offsets import ListOffsetsHandler
from airflow_kafka_groups.admin.lookup import CoordinatorStrategy, PartitionLeaderStrategy
from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.cluster.config import ClientConfig
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
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.transport.base import Connector

GroupSpecs = Iterable[str] | Mapping[str, ListConsumerGroupOffsetsSpec]
_LISTING_TRIES = 5


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Be the cluster: its id, its brokers, and what each of those that answered can speak."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    api_versions: Mapping[BrokerId, ApiVersions]
    errors: Mapping[BrokerId, KafkaGroupsError]


class AdminClient:
    """Ask a Kafka cluster about its groups, many at a time. Use it as an async context manager.

    :param config: how to reach the cluster.
    :param connect: opens a connection; a test passes its own. Default: the real one.

    Entering raises ``NoBrokerAvailableError`` when no broker can be used, ``AuthenticationFailedError`` when it refuses
    the credentials. The calls raise only for bad arguments; what goes wrong with a group is in that group's result.
    """

    def __init__(self, config: ClientConfig, connect: Connector | None = None) -> None:
        self._cluster = ClusterClient(config, connect)
        self._config = config

    async def __aenter__(self) -> AdminClient:
        await self._cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cluster.aclose()

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
        return _in_order(wanted, await runner.collect(driver, self._cluster))

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
        return GroupListings(listings, errors)

    async def describe_consumer_groups(
        self, group_ids: Iterable[str], *, include_authorized_operations: bool = False
    ) -> GroupResults[GroupDescription]:
        """Describe classic groups and those of the consumer protocol (KIP-848), grouped by coordinator (KIP-347).

        :param group_ids: the groups; duplicates are removed.
        :param include_authorized_operations: also say what this user may do with each. Default false.

        A group that does not exist is a success with the state ``DEAD``. Groups that fail are in ``.failed``.
        """
        wanted = group_ids_of(group_ids)
        classic = DescribeClassicGroupsHandler(include_authorized_operations)
        results = dict(await self._ask_coordinators(wanted, classic))
        not_found = [key for key, result in results.items() if result.ok and result.unwrap().state is GroupState.DEAD]
        if not_found:
            modern = DescribeConsumerGroupsHandler(include_authorized_operations)
            for group_id, result in (await self._ask_coordinators(not_found, modern)).items():
                # A broker that does not know the API has no such groups: what DescribeGroups said stands.
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

    async def delete_consumer_groups(self, group_ids: Iterable[str]) -> GroupResults[None]:
        """Delete groups that have no members, offsets and all, grouped by coordinator (KIP-229, KIP-347).

        :param group_ids: the groups; duplicates are removed.

        This asks the brokers and nothing else: whether a group *should* go is decided in ``maintenance``. Groups that
        fail are in ``.failed``: NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND as ``BrokerError``, and a lost answer as
        ``OutcomeUnknownError``, never sent again by itself.
        """
        return await self._ask_coordinators(group_ids_of(group_ids), DeleteGroupsHandler())

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

    # How a call is driven

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._config.api_timeout

    def _driver(
        self,
        keys: Iterable[K],
        *,
        lookup: AdminHandler[K, Broker],
        handler: AdminHandler[K, V] | None,
        mapping: Mapping[K, BrokerId] | None = None,
        batch_size: int | None = None,
    ) -> AdminDriver[K, V]:
        config = self._config
        limits = DriverLimits(
            batch_size=batch_size or config.batch_size,
            batches_in_flight=config.batches_in_flight,
            singles_in_flight=config.singles_in_flight,
        )
        return AdminDriver(
            keys,
            brokers=list(self._cluster.metadata.brokers),
            lookup=lookup,
            handler=handler,
            deadline=self._deadline(),
            mapping=mapping,
            limits=limits,
        )

    def _group_driver(self, group_ids: list[str], handler: AdminHandler[str, V]) -> AdminDriver[str, V]:
        topic = self._cluster.metadata.offsets_topic
        guesses = topic.route(group_ids) if topic is not None and self._config.route_by_hash else None
        return self._driver(group_ids, lookup=CoordinatorStrategy(), handler=handler, mapping=guesses)

    async def _ask_coordinators(self, group_ids: list[str], handler: AdminHandler[str, V]) -> GroupResults[V]:
        driver = self._group_driver(group_ids, handler)
        return _in_order(group_ids, await runner.collect(driver, self._cluster))


def _in_order(keys: Iterable[str], results: Iterable[Outcome[str, V]]) -> GroupResults[V]:
    by_key = {outcome.key: GroupResult(*outcome) for outcome in results}
    return GroupResults(by_key[key] for key in keys)
