"""How a call of the AdminClient is driven: its connections, its deadline, its driver, its results in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import aclosing
from itertools import repeat
from operator import itemgetter
from types import TracebackType
from typing import Self, cast

from airflow_kafka_groups.admin.engine import runner
from airflow_kafka_groups.admin.engine.driver import AdminDriver
from airflow_kafka_groups.admin.engine.gc_pause import collection_paused
from airflow_kafka_groups.admin.engine.handler import AdminHandler
from airflow_kafka_groups.admin.engine.handler_result import K, V
from airflow_kafka_groups.admin.engine.limits import DriverLimits, KeyWeights
from airflow_kafka_groups.admin.handlers.lookup import CoordinatorStrategy
from airflow_kafka_groups.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import BrokerError, MissingAnswerError
from airflow_kafka_groups.models import Broker, BrokerId, GroupListing
from airflow_kafka_groups.protocol.answers import MetadataAnswer
from airflow_kafka_groups.protocol.apis import DESCRIBE_GROUPS, METADATA
from airflow_kafka_groups.protocol.cluster_apis import metadata as metadata_api
from airflow_kafka_groups.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.protocol.group_apis import describe_groups
from airflow_kafka_groups.transport.base import Connector

_MADE_UP_TOPIC = "airflow-kafka-groups.no-such-topic"
_LISTING_IS_FRESH = 60.0  # seconds for which a listing says who coordinates a group


class Calls:
    """Drive calls over one cluster's connections."""

    def __init__(self, config: ClientConfig, connect: Connector | None = None) -> None:
        self._cluster = ClusterClient(config, connect)
        self._config = config
        self._listed: dict[str, BrokerId] = {}
        self._listed_at = -_LISTING_IS_FRESH

    async def __aenter__(self) -> Self:
        await self._cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cluster.aclose()

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        """Ask what this user may do with the cluster and with some topics (KIP-430).

        The answer has the cluster's operations, such as ``describe``, each topic's, and the errors of the other topics;
        ``None`` where the broker is too old to say (before 2.3).
        """
        connection = await self._cluster.any_connection()
        # Newer versions leave out what may be done with the cluster.
        version = min(connection.versions.choose(METADATA), metadata_api.LAST_VERSION_WITH_CLUSTER_OPERATIONS)
        request = metadata_api.build(list(topics), version, include_authorized_operations=True)
        answer: MetadataAnswer = await connection.send(METADATA, version, request, self._config.request_timeout)
        return answer

    async def sees_all_topics(self) -> bool:
        """Say whether this user may describe topics in general: asked of one that nobody made, which is not made by it.

        Brokers leave topics that a user may not describe out of committed offsets without a word, so where this is
        false a group may have more offsets than it shows. A sign, not a proof: ACLs may hide single topics. Only a
        clear answer is a yes: that there is no such topic, or what it is.
        """
        told = await self.authorized_operations([_MADE_UP_TOPIC])
        absent = told.errors.get(_MADE_UP_TOPIC) is ErrorCode.unknown_topic_or_partition
        return absent or _MADE_UP_TOPIC in told.partition_counts

    async def group_operations(self, group_id: str) -> frozenset[str] | None:
        """Ask what this user may do with a group, also with one that does not exist (KIP-430).

        Gives operations such as ``read``; ``None`` where the broker is too old to say (before 2.3). Raises the error of
        the look-up or of the group, unless it is that this user may not even describe it: then nothing is allowed.
        """
        driver: AdminDriver[str, Broker] = self._driver([group_id], lookup=CoordinatorStrategy(), handler=None)
        ((_, broker, error),) = await runner.collect(driver, self._cluster)
        if isinstance(error, BrokerError) and error.code == ErrorCode.group_authorization_failed:
            return frozenset()
        if error is not None or broker is None:
            raise error or MissingAnswerError(f"nobody said who coordinates group {group_id!r}")
        connection = await self._cluster.connection(broker.broker_id)
        # Newer versions say nothing of a group that is not there.
        version = min(connection.versions.choose(DESCRIBE_GROUPS), describe_groups.LAST_VERSION_OF_ABSENT_GROUPS)
        request = describe_groups.build([group_id], True, version)
        response = await connection.send(DESCRIBE_GROUPS, version, request, self._config.request_timeout)
        ((_, answer),) = response.groups
        if answer.error is ErrorCode.group_authorization_failed:
            return frozenset()
        if answer.error is not ErrorCode.none:
            raise broker_error(answer.error, DESCRIBE_GROUPS, broker_id=broker.broker_id, subject=f"group {group_id!r}")
        allowed: frozenset[str] | None = answer.authorized_operations
        return allowed

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._config.api_timeout

    def _driver(
        self,
        keys: Collection[K],
        *,
        lookup: AdminHandler[K, Broker],
        handler: AdminHandler[K, V] | None,
        mapping: Mapping[K, BrokerId] | None = None,
        batch_size: int | None = None,
        weights: KeyWeights[K] | None = None,
    ) -> AdminDriver[K, V]:
        config = self._config
        limits = DriverLimits(
            batch_size=batch_size or config.groups_in_request(len(keys)),
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
            weights=weights,
        )

    def _group_driver(
        self,
        group_ids: list[str],
        handler: AdminHandler[str, V],
        *,
        batch_size: int | None = None,
        weights: KeyWeights[str] | None = None,
        mapping: Mapping[str, BrokerId] | None = None,
    ) -> AdminDriver[str, V]:
        return self._driver(
            group_ids,
            lookup=CoordinatorStrategy(),
            handler=handler,
            mapping=self._guess(group_ids) if mapping is None else mapping,
            batch_size=batch_size,
            weights=weights,
        )

    def _guess(self, group_ids: list[str], partitions: Mapping[str, int] | None = None) -> dict[str, BrokerId]:
        """Guess coordinators: by the hash, or by who listed the group a moment ago (Redpanda hashes differently).

        :param partitions: of the groups, where they have been computed.
        """
        if not self._config.route_by_hash:
            return {}
        topic = self._cluster.metadata.offsets_topic
        if topic is None:
            guesses = {}
        else:
            guesses = topic.route(group_ids) if partitions is None else topic.leaders_of(partitions)
        if time.monotonic() - self._listed_at < _LISTING_IS_FRESH:
            listed = self._listed
            guesses |= {group_id: listed[group_id] for group_id in group_ids if group_id in listed}
        return guesses

    def _remember(self, listings: Iterable[GroupListing]) -> None:
        """Keep who listed which group: each broker lists the groups that it coordinates."""
        self._listed = {listing.group_id: listing.coordinator for listing in listings}
        self._listed_at = time.monotonic()

    async def _ask_coordinators(
        self,
        group_ids: list[str],
        handler: AdminHandler[str, V],
        *,
        batch_size: int | None = None,
        weights: KeyWeights[str] | None = None,
        mapping: Mapping[str, BrokerId] | None = None,
    ) -> GroupResults[V]:
        driver = self._group_driver(group_ids, handler, batch_size=batch_size, weights=weights, mapping=mapping)
        return await self._gather(group_ids, driver)

    async def _gather(self, keys: Collection[str], driver: AdminDriver[str, V]) -> GroupResults[V]:
        """Drive a call to its end and give the results in the order in which their keys were asked for."""
        results = dict.fromkeys(keys, cast("GroupResult[V]", None))
        asked, outcomes = len(results), 0
        with collection_paused():
            async with aclosing(runner.batches(driver, self._cluster)) as batches:
                async for batch in batches:
                    outcomes += len(batch)
                    # A named tuple's own constructor calls ``tuple.__new__``, too, and takes twice the time for many.
                    made = map(tuple.__new__, repeat(GroupResult), batch)
                    results.update(zip(map(itemgetter(0), batch), made, strict=True))
        if not asked == outcomes == len(results):
            raise RuntimeError(f"{asked} keys have {outcomes} outcomes; please report this")
        return GroupResults.of(results)
