"""The calls of one client: its connections, deadline, limits and change policy; results in the order asked."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from itertools import count, filterfalse, repeat
from math import ceil
from operator import itemgetter
from typing import Protocol, cast

from airflow_kafka_groups.exceptions import (
    BrokerError,
    KafkaGroupsError,
    MissingAnswerError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.admin.client.arguments import members_of
from airflow_kafka_groups.kafka.admin.engine import runner
from airflow_kafka_groups.kafka.admin.engine.driver import AdminDriver
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, K, Outcome, V
from airflow_kafka_groups.kafka.admin.engine.request_queue import DriverLimits
from airflow_kafka_groups.kafka.admin.handlers.find_coordinator import FindCoordinatorHandler
from airflow_kafka_groups.kafka.admin.handlers.list_group_offsets import ListShareOffsetsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_offsets import FindLeadersHandler
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults, collection_paused, is_not_found
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.products import Product, recognize
from airflow_kafka_groups.kafka.models import (
    ELIGIBLE_TYPES,
    Broker,
    BrokerId,
    CoordinatorType,
    GroupListing,
    GroupOffsets,
    ListConsumerGroupOffsetsSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, Connector


class ChangePolicy(Protocol):
    """A rule for changes: which groups must stay as they are."""

    def refusals(self, group_ids: Iterable[str]) -> Mapping[str, KafkaGroupsError]:
        """Return the groups that may not be changed, each with the reason; raise one if nothing may be changed."""
        ...


_STREAM_WINDOW = 50_000
_BATCH = 220
_LARGE_BATCH = 400
_MANY_GROUPS = 20_000
_GROUPS_OF_A_CONNECTION = 5
_LISTING_IS_FRESH = 60.0  # seconds for which a listing says who coordinates a group


def _has_no_share_groups(error: KafkaGroupsError | None) -> bool:
    switched_off = isinstance(error, BrokerError) and error.code == ErrorCode.unsupported_version
    return isinstance(error, UnsupportedVersionError) or switched_off or is_not_found(error)


class Calls:
    """The calls over one cluster's connections. The parameters are those of ``AdminClient``."""

    def __init__(
        self, config: ClientConfig, connect: Connector | None = None, policy: ChangePolicy | None = None
    ) -> None:
        self.config = config
        self.cluster = ClusterClient(config, connect)
        self.product: Product | None = None
        self._policy = policy
        self._limits = DriverLimits(
            batches_in_flight=config.batches_in_flight, singles_in_flight=config.singles_in_flight
        )
        self._throttled: dict[BrokerId, float] = {}
        self._listed: dict[str, GroupListing] = {}
        self._listed_at = -_LISTING_IS_FRESH
        self._turns: dict[str, int] = {}

    async def open(self) -> None:
        """Connect, and recognize the product."""
        await self.cluster.__aenter__()
        metadata = self.cluster.metadata
        self.product = recognize((broker.host for broker in metadata.brokers.values()), metadata.cluster_id)

    @property
    def places_as_kafka(self) -> bool:
        """Whether groups are where Kafka's hash places them, as far as is known."""
        return self.product is None or self.product.places_as_kafka

    def refusals(self, group_ids: Iterable[str]) -> Mapping[str, KafkaGroupsError]:
        """Return the groups that may not be changed, each with the reason (see ``ChangePolicy``)."""
        return {} if self._policy is None else self._policy.refusals(group_ids)

    async def ask_coordinators(
        self,
        group_ids: list[str],
        handler: AdminHandler[str, V],
        *,
        guess: Mapping[str, BrokerId] | None = None,
        only: Mapping[str, BrokerId] | None = None,
    ) -> GroupResults[V]:
        """Ask the coordinators of groups, and return the results in the order of the groups.

        Every change of a group goes through here: groups that the policy refuses fail, and no request names them.

        :param guess: who coordinates which group, where that was computed already.
        :param only: ask exactly this broker about each group. A group fails that has none here, or another one by now.
        """
        refused = dict(self.refusals(group_ids)) if handler.changes_groups else {}
        if only is not None and (unknown := set(group_ids).difference(only, refused)):
            refused |= {group_id: MissingAnswerError("nobody said who coordinates it") for group_id in unknown}
        allowed = [group_id for group_id in group_ids if group_id not in refused] if refused else group_ids
        lookup = FindCoordinatorHandler() if only is None else None
        known = guess if only is None else only
        driver = self._driver(allowed, lookup, handler, self.guess_coordinators(allowed) if known is None else known)
        results = await self._gather(allowed, driver)
        if not refused:
            return results
        return GroupResults(
            GroupResult(group_id, error=refused[group_id]) if group_id in refused else results[group_id]
            for group_id in group_ids
        )

    async def stream_coordinators(
        self, group_ids: list[str], handler: AdminHandler[str, V]
    ) -> AsyncGenerator[Iterable[Outcome[str, V]], None]:
        """Ask the coordinators of groups without changing any, and yield the groups of each answer as it arrives.

        The engine gets a window of the groups at a time, with the deadline of a call. The time that the caller takes
        with the groups does not count: a slow caller is no reason to lose a group.
        """
        if handler.changes_groups:
            raise TypeError(f"{handler.api} changes groups; it goes through ask_coordinators")
        clock = asyncio.get_running_loop().time
        for start in range(0, len(group_ids), _STREAM_WINDOW):
            window = group_ids[start : start + _STREAM_WINDOW]
            driver = self._driver(window, FindCoordinatorHandler(), handler, self.guess_coordinators(window))
            async with aclosing(runner.batches(driver, self.cluster)) as batches:
                async for batch in batches:
                    handed_over = clock()
                    yield batch
                    taken = clock() - handed_over
                    driver.deadline += taken
                    self.cluster.patience.extend(taken)

    async def share_offsets(
        self, read: Iterable[GroupResult[GroupOffsets]], specs: Mapping[str, ListConsumerGroupOffsetsSpec]
    ) -> dict[str, GroupResult[GroupOffsets]]:
        """Ask for the start offsets of those that have no committed offset, and return the share groups among them.

        OffsetFetch has neither offsets nor an error for a share group. A broker without the API, or where it is
        switched off, has none. Groups that a listing called another type a moment ago are not asked about.
        """
        listed = self._listed_now()
        empty = [
            id_
            for id_, found, _ in read
            if found is not None and found.is_empty and not (id_ in listed and listed[id_].type in ELIGIBLE_TYPES)
        ]
        if not empty:
            return {}
        answers = await self.ask_coordinators(empty, ListShareOffsetsHandler(specs, False, self.batch_size(len(empty))))
        return {
            each.group_id: each
            for each in answers.values()
            if not (_has_no_share_groups(each.error) if each.value is None else each.value.is_empty)
        }

    async def find_coordinators(self, keys: list[str], key_type: CoordinatorType) -> GroupResults[Broker]:
        """Find the coordinator of each key."""
        (kind,) = members_of(CoordinatorType, [key_type], "key_type")
        driver: AdminDriver[str, Broker] = self._driver(keys, FindCoordinatorHandler(kind), None, {})
        return await self._gather(keys, driver)

    async def ask_leaders(
        self, partitions: Collection[TopicPartition], handler: AdminHandler[TopicPartition, V]
    ) -> list[Outcome[TopicPartition, V]]:
        """Ask the leaders of partitions."""
        return await runner.collect(self._driver(partitions, FindLeadersHandler(), handler, {}), self.cluster)

    async def ask_brokers(
        self, brokers: Collection[BrokerId], handler: AdminHandler[BrokerId, V]
    ) -> list[Outcome[BrokerId, V]]:
        """Ask some brokers about themselves."""
        themselves = {broker_id: broker_id for broker_id in brokers}
        return await runner.collect(self._driver(brokers, None, handler, themselves), self.cluster)

    async def ask_once(
        self, broker_id: BrokerId, connection: BrokerConnection, api: Api, build: Callable[[int], Message], newest: int
    ) -> Message:
        """Send one request, of a version up to ``newest``, once, and return its answer."""
        version = min(connection.versions.choose(api), newest)
        answer = connection.send(api, version, build(version), self.config.request_timeout)
        return await self.cluster.patience.wait(answer, broker_id)

    def batch_size(self, groups: int) -> int:
        """Return how many groups a request takes in a call for so many groups."""
        return self.config.batch_size or (_LARGE_BATCH if groups >= _MANY_GROUPS else _BATCH)

    def commit_connections(self, groups: int) -> int:
        """Return over how many connections to each broker commits of so many groups go: few groups over one."""
        shares = ceil(groups / (_GROUPS_OF_A_CONNECTION * max(len(self.cluster.metadata.brokers), 1)))
        return max(1, min(shares, self.config.commit_connections))

    def take_turns(
        self, group_ids: Iterable[str], connections: int, brokers: Mapping[str, BrokerId]
    ) -> Mapping[str, int]:
        """Return over which connection to its broker each group's commit goes: in turn, so that all have as much to do.

        The groups of a connection come in series, which are sent together; the first ones of all series are neighbours.
        A broker may still work on a commit that was given up. So all commits of a group go over the same connection:
        another one could overtake it.
        """
        turns: defaultdict[BrokerId | None, count[int]] = defaultdict(count)
        places = {group_id: next(turns[brokers.get(group_id)]) for group_id in group_ids}
        size = connections * self._limits.series
        in_series = sorted(places, key=lambda group_id: (places[group_id] // size, places[group_id] % connections))
        taken = {group_id: self._turns.get(group_id, places[group_id] % connections) for group_id in in_series}
        self._turns |= taken
        return taken

    def guess_coordinators(
        self, group_ids: list[str], partitions: Mapping[str, int] | None = None
    ) -> dict[str, BrokerId]:
        """Guess coordinators: by the hash (``partitions`` if computed), or by who listed the group a moment ago."""
        if not self.config.route_by_hash:
            return {}
        topic = self.cluster.metadata.offsets_topic
        if topic is None or not self.places_as_kafka:
            guesses = {}
        else:
            guesses = topic.route(group_ids) if partitions is None else topic.leaders_of(partitions)
        if listed := self._listed_now():
            guesses |= {group_id: listed[group_id].coordinator for group_id in group_ids if group_id in listed}
        return guesses

    def remember_listing(self, listings: Iterable[GroupListing]) -> None:
        """Remember who listed which group: each broker lists the groups that it coordinates."""
        self._listed = {listing.group_id: listing for listing in listings}
        self._listed_at = time.monotonic()

    def _listed_now(self) -> Mapping[str, GroupListing]:
        return self._listed if time.monotonic() - self._listed_at < _LISTING_IS_FRESH else {}

    def _driver(
        self,
        keys: Collection[K],
        lookup: AdminHandler[K, Broker] | None,
        handler: AdminHandler[K, V] | None,
        mapping: Mapping[K, BrokerId],
    ) -> AdminDriver[K, V]:
        loop, home = asyncio.get_running_loop(), self.cluster.home
        if home.place != (os.getpid(), loop):  # else there is nothing to ask
            home.require()
        brokers = list(self.cluster.metadata.brokers)
        return AdminDriver(
            keys,
            brokers=list(filterfalse(self.cluster.patience.is_silent, brokers)) or brokers,
            lookup=lookup,
            handler=handler,
            deadline=loop.time() + self.config.api_timeout,
            mapping=mapping,
            limits=self._limits,
            throttled=self._throttled,
        )

    async def _gather(self, keys: Collection[str], driver: AdminDriver[str, V]) -> GroupResults[V]:
        results = dict.fromkeys(keys, cast("GroupResult[V]", None))
        asked, outcomes = len(results), 0
        with collection_paused():
            async with aclosing(runner.batches(driver, self.cluster)) as batches:
                async for batch in batches:
                    # A named tuple's own constructor calls ``tuple.__new__``, too, and takes twice the time for many.
                    made = list(map(tuple.__new__, repeat(GroupResult), batch))
                    outcomes += len(made)
                    results.update(zip(map(itemgetter(0), made), made, strict=True))
        if not asked == outcomes == len(results):
            raise RuntimeError(f"{asked} keys have {outcomes} outcomes; please report this")
        return GroupResults.of(results)
