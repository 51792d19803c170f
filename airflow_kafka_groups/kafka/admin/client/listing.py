"""The brokers of a cluster, the groups that each of them coordinates, and what these are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConnectionFailedError,
    EmptyGroupsNotListedError,
    KafkaGroupsError,
    RequestTimeoutError,
    SwitchedOffError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of, members_of, pattern_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.handlers.groups import DescribeGroupsHandler, ListGroupsHandler
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.kafka.models import (
    NAMED_TYPES,
    Broker,
    BrokerId,
    CoordinatorType,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    DESCRIBE_GROUPS,
    DESCRIBE_SHARE_OFFSETS,
    METADATA,
    ApiVersions,
)
from airflow_kafka_groups.kafka.protocol.apis import describe_groups, metadata
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import GROUP_TYPES
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error

ABSENT_TOPIC = "airflow-kafka-groups.no-such-topic"
"""A topic that nobody made, and that asking for it does not create."""
_TRIES = 3
_FORBIDDEN = int(ErrorCode.group_authorization_failed)  # of a group that nobody made: the user may see others
_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster: its id, its brokers, and the API versions of each broker that answered."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    api_versions: Mapping[BrokerId, ApiVersions]
    errors: Mapping[BrokerId, KafkaGroupsError]


class Listing:
    """The calls that list and describe: the cluster, its groups, and what this user may do."""

    _calls: Calls

    async def describe_cluster(self) -> ClusterDescription:
        """Ask for the brokers, and connect to each to learn its API versions.

        Brokers that cannot be reached are in ``errors``; raises only if none answers.
        """
        calls = self._calls
        known = await calls.cluster.refresh()
        versions: dict[BrokerId, ApiVersions] = {}
        errors: dict[BrokerId, KafkaGroupsError] = {}

        async def ask(broker_id: BrokerId) -> None:
            try:
                versions[broker_id] = (await calls.cluster.connection(broker_id)).versions
            except KafkaGroupsError as error:
                errors[broker_id] = error

        # Side by side: each that cannot be reached takes the time of a connection.
        await asyncio.gather(*map(ask, known.brokers))
        return ClusterDescription(known.cluster_id, tuple(known.brokers.values()), versions, errors)

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        group_id_pattern: str | None = None,
    ) -> GroupListings:
        """List the groups of every broker, each group once.

        :param states: only groups in these states: a group whose state the broker does not send (before ListGroups v4)
            is left out. Default: all.
        :param types: only groups of these types (sent from v5 on, in the same way). Default: all.
        :param group_id_pattern: only groups whose whole id matches this regular expression. Default: all.

        Brokers without an answer and partitions of ``__consumer_offsets`` without a leader are in ``.errors``: call
        ``require_complete()`` before anything is deleted.
        """
        calls = self._calls
        wanted_states = members_of(GroupState, states, "states")
        wanted_types = members_of(GroupType, types, "types")
        pattern = pattern_of(group_id_pattern)
        reported = tuple(kind for kind in wanted_types if kind is not GroupType.UNKNOWN)
        handler = ListGroupsHandler(reported)
        # A group that moves from a broker that has not listed its groups yet to one that has is listed by none. So they
        # are listed again if partitions have moved meanwhile; of those that do so again and again, it is an error.
        for _ in range(_TRIES):
            before = await calls.cluster.fresh_metadata()
            found, errors = await _ask(calls, before.brokers, handler)
            if errors:
                break
            if not reported and calls.places_as_kafka and (unlisted := _without_groups(before, found)):
                errors = await _not_loaded(calls, before, unlisted)
                if not errors:  # they are loaded by now, whoever coordinates them, and may not have been a moment ago
                    again, errors = await _ask(calls, before.brokers, handler)
                    known = {listing.group_id for listing in found}
                    found += [listing for listing in again if listing.group_id not in known]
            errors = errors or _moved(before, await calls.cluster.refresh())
            if not errors:
                break
            await asyncio.sleep(_PAUSE)
        # The metadata may have been requested again in the meantime, for a broker that could not be reached.
        for where in (*before.leaderless_partitions(), *calls.cluster.metadata.leaderless_partitions()):
            errors[where] = broker_error(
                ErrorCode.leader_not_available, METADATA, subject=f"{where.topic}-{where.partition}"
            )
        if (product := calls.product) is not None and not product.lists_empty_groups:
            for broker_id in calls.cluster.metadata.brokers:
                errors.setdefault(broker_id, EmptyGroupsNotListedError(product.name))
        every = GroupListings(found, errors)
        if not reported:
            calls.remember_listing(every.values())
        listings = [
            listing
            for listing in every.values()
            if (not wanted_states or listing.state in wanted_states)
            and (not wanted_types or listing.type in wanted_types)
            and (pattern is None or pattern(listing.group_id))
        ]
        return GroupListings(listings, errors)

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
        calls = self._calls
        wanted = group_ids_of(group_ids)
        size = calls.batch_size
        classic = DescribeGroupsHandler(include_authorized_operations, _BATCHES_IN_ONE * size(len(wanted)))
        found = await calls.ask_coordinators(wanted, classic)
        if not _perhaps_of_another_type(found.values()):
            return found
        results, switched_off = dict(found.items()), dict[str, SwitchedOffError]()
        for api in GROUP_TYPES:
            unclear = list(_perhaps_of_another_type(results.values()))
            modern = DescribeGroupsHandler(include_authorized_operations, size(len(unclear)), api)
            answers = await calls.ask_coordinators(unclear, modern)
            able = await _restoring(calls, answers.values()) if GROUP_TYPES[api] in NAMED_TYPES else ()
            for group_id, group, error in answers.values():
                if isinstance(error, SwitchedOffError):
                    switched_off[group_id] = error
                elif group is not None and group.coordinator in able:
                    results[group_id] = GroupResult(group_id, group._replace(restorable=True))
                elif not isinstance(error, UnsupportedVersionError):  # else the broker has no groups of this type
                    results[group_id] = answers[group_id]
        # Where the protocol was switched off, its groups are there still, with their offsets: they are listed.
        absent = _perhaps_of_another_type(results.values())
        kinds = [GroupType.CONSUMER]
        listed = await self.list_groups(types=kinds) if switched_off.keys() & absent else GroupListings((), {})
        for group_id, group in absent.items():
            doubt: KafkaGroupsError | None = None
            if group_id in switched_off:  # a group that its broker does not list for an error may be there
                doubt = switched_off[group_id] if group_id in listed else listed.errors.get(group.coordinator)
            gone = group._replace(type=GroupType.UNKNOWN, protocol_type="")
            results[group_id] = GroupResult(group_id, None if doubt else gone, doubt)
        return GroupResults.of(results)

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        """Ask what this user may do with the cluster and with some topics (KIP-430); ``None`` before Kafka 2.3."""
        calls = self._calls
        names, asked = group_ids_of(topics, "topics"), list[BrokerId]()
        calls.cluster.home.require()

        def build(version: int) -> Message:
            return metadata.build(names, version, include_authorized_operations=True)

        newest = metadata.LAST_VERSION_WITH_CLUSTER_OPERATIONS  # later ones leave these out
        while True:
            broker_id, connection = await calls.cluster.any_connection(asked)
            asked.append(broker_id)
            try:
                return cast("MetadataAnswer", await calls.ask_once(broker_id, connection, METADATA, build, newest))
            except (ConnectionFailedError, RequestTimeoutError):
                if len(asked) == _TRIES:
                    raise

    async def sees_all_topics(self) -> bool:
        """Return whether this user may describe topics in general, asked of a topic that does not exist.

        Brokers silently leave topics that a user may not describe out of committed offsets. A sign, not a proof: ACLs
        may hide single topics. Only a clear answer counts: that there is no such topic, or what it is.
        """
        answer = await self.authorized_operations([ABSENT_TOPIC])
        absent = answer.errors.get(ABSENT_TOPIC) is ErrorCode.unknown_topic_or_partition
        return absent or ABSENT_TOPIC in answer.partition_counts

    async def group_operations(self, group_id: str) -> frozenset[str] | None:
        """Return what this user may do with a group, which need not exist (KIP-430), such as ``read``.

        ``None`` before Kafka 2.3, and nothing if this user may not even describe it.
        """
        calls = self._calls
        found = (await calls.find_coordinators([group_id], CoordinatorType.GROUP))[group_id]
        if isinstance(found.error, BrokerError) and found.error.code == ErrorCode.group_authorization_failed:
            return frozenset()
        broker_id = found.unwrap().broker_id
        response = await calls.ask_once(
            broker_id,
            await calls.cluster.connection(broker_id),
            DESCRIBE_GROUPS,
            lambda version: describe_groups.build(DESCRIBE_GROUPS, [group_id], True, version),
            newest=describe_groups.LAST_VERSION_OF_ABSENT_GROUPS,
        )
        ((_, answer),) = response.groups
        if answer.error is ErrorCode.group_authorization_failed:
            return frozenset()
        if answer.error is not ErrorCode.none:
            raise broker_error(answer.error, DESCRIBE_GROUPS, broker_id=broker_id, subject=f"group {group_id!r}")
        return cast("frozenset[str] | None", answer.authorized_operations)


class _ProbeHandler(DescribeGroupsHandler):
    """DescribeGroups, which a coordinator answers for groups that do not exist, too."""

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a partition counts as not loaded."""
        return _TRIES


async def _ask(
    calls: Calls, brokers: Collection[BrokerId], handler: ListGroupsHandler
) -> tuple[list[GroupListing], dict[BrokerId | TopicPartition, KafkaGroupsError]]:
    listings: list[GroupListing] = []
    errors: dict[BrokerId | TopicPartition, KafkaGroupsError] = {}
    for broker_id, found, error in await calls.ask_brokers(brokers, handler):
        listings += found or ()
        if error is not None:
            errors[broker_id] = error
    return listings, errors


def _without_groups(known: ClusterMetadata, listings: Sequence[GroupListing]) -> set[int]:
    """Return the partitions of ``__consumer_offsets`` whose leaders list no group of theirs."""
    if known.offsets_topic is None:
        return set()
    leaders = known.offsets_topic.leaders
    places = offsets_partitions([listing.group_id for listing in listings], len(leaders))
    at_home = {place for place, listing in zip(places, listings, strict=True) if leaders[place] == listing.coordinator}
    return set(range(len(leaders))) - at_home - {where.partition for where in known.leaderless_partitions()}


async def _not_loaded(
    calls: Calls, before: ClusterMetadata, unlisted: Set[int]
) -> dict[BrokerId | TopicPartition, KafkaGroupsError]:
    """Return the partitions of ``__consumer_offsets`` whose groups nobody coordinates.

    A leader lists no group of a partition that it has not begun to load, as after another broker's restart, or that it
    failed to load (Kafka 4), and says nothing of it. So one group that nobody made is described in each.
    """
    count = len(before.offsets_topic.leaders) if before.offsets_topic is not None else 0
    names = (f"airflow-kafka-groups.no-such-group.{number}" for number in itertools.count())
    probes: dict[int, str] = {}
    while not unlisted <= probes.keys():
        name = next(names)
        probes.setdefault(offsets_partitions([name], count)[0], name)
    asked = {probes[partition]: partition for partition in unlisted}
    errors: dict[BrokerId | TopicPartition, KafkaGroupsError] = {}
    for group_id, _, error in (await calls.ask_coordinators(list(asked), _ProbeHandler())).values():
        if error is not None and not (isinstance(error, BrokerError) and error.code == _FORBIDDEN):
            errors[TopicPartition(OFFSETS_TOPIC, asked[group_id])] = error
    return errors


def _moved(before: ClusterMetadata, after: ClusterMetadata) -> dict[BrokerId | TopicPartition, KafkaGroupsError]:
    if before.offsets_topic is None or after.offsets_topic is None:
        return {}
    leaders = zip(before.offsets_topic.leaders, after.offsets_topic.leaders, strict=False)
    return {
        TopicPartition(OFFSETS_TOPIC, partition): broker_error(
            ErrorCode.not_leader_or_follower,
            METADATA,
            subject=f"{OFFSETS_TOPIC}-{partition}",
            message=f"it moved from broker {old} to {new} while groups were listed, so its groups may be missing",
        )
        for partition, (old, new) in enumerate(leaders)
        if old not in (None, new)
    }


_BATCHES_IN_ONE = 4
"""Descriptions are short: larger requests cost less, and still overlap."""


def _perhaps_of_another_type(results: Iterable[GroupResult[GroupDescription]]) -> dict[str, GroupDescription]:
    """Return the groups that were not found, unless the answer was about groups of every type."""
    dead, no_type = GroupState.DEAD, GroupType.UNKNOWN  # looking up a member takes a while
    return {
        group_id: found
        for group_id, found, _ in results
        if found is not None and found.state is dead and found.type is not no_type
    }


async def _restoring(calls: Calls, described: Iterable[GroupResult[GroupDescription]]) -> set[BrokerId]:
    """Return the coordinators of share and streams groups that can have such a group back.

    Kafka 4.1 answers AlterShareGroupOffsets and changes nothing, and lets no streams application join a group that a
    commit made (KAFKA-19570). What tells 4.2 is the version of another API that came with it.
    """
    able = set[BrokerId]()
    for broker_id in {found.coordinator for _, found, _ in described if found is not None}:
        with suppress(KafkaGroupsError):  # then it is not known, which is as good as not
            if (await calls.cluster.connection(broker_id)).versions.supports(DESCRIBE_SHARE_OFFSETS, 1):
                able.add(broker_id)
    return able
