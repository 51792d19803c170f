"""The brokers of a cluster, the groups that each of them coordinates, and what these are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from airflow_kafka_groups.exceptions import (
    BrokerError,
    EmptyGroupsNotListedError,
    KafkaGroupsError,
    SwitchedOffError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of, members_of, pattern_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.admin.handlers.describe_groups import DescribeGroupsHandler
from airflow_kafka_groups.kafka.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.kafka.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.kafka.cluster.bootstrap import ClusterMetadata
from airflow_kafka_groups.kafka.cluster.products import Product, recognize
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.kafka.models import (
    NAMED_TYPES,
    Broker,
    BrokerId,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_SHARE_OFFSETS,
    METADATA,
    ApiVersions,
)
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import GROUP_TYPES
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error

_TRIES = 3
_FORBIDDEN = int(ErrorCode.group_authorization_failed)  # of a group that nobody made: the user may see others
_PAUSE = 0.2
_LISTED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster: its id, its brokers, and the API versions of each broker that answered."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    api_versions: Mapping[BrokerId, ApiVersions]
    errors: Mapping[BrokerId, KafkaGroupsError]


class Listing:
    """The calls that list and describe: the cluster, and its groups."""

    _calls: Calls

    async def describe_cluster(self) -> ClusterDescription:
        """Ask for the brokers, and connect to each to learn its API versions.

        Brokers that cannot be reached are in ``errors``; raises only if none answers.
        """
        calls = self._calls
        metadata = await calls.cluster.refresh()
        versions: dict[BrokerId, ApiVersions] = {}
        errors: dict[BrokerId, KafkaGroupsError] = {}

        async def ask(broker_id: BrokerId) -> None:
            try:
                versions[broker_id] = (await calls.cluster.connection(broker_id)).versions
            except KafkaGroupsError as error:
                errors[broker_id] = error

        # Side by side: each that cannot be reached takes the time of a connection.
        async with asyncio.TaskGroup() as tasks:
            for broker_id in metadata.brokers:
                tasks.create_task(ask(broker_id))
        return ClusterDescription(metadata.cluster_id, tuple(metadata.brokers.values()), versions, errors)

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
        calls = self._calls
        wanted_states = members_of(GroupState, states, "states")
        wanted_types = members_of(GroupType, types, "types")
        pattern = pattern_of(group_id_pattern)
        reported = tuple(kind for kind in wanted_types if kind is not GroupType.UNKNOWN)
        handler = ListGroupsHandler(wanted_states, reported)
        is_filtered = bool(wanted_states or wanted_types or pattern)
        # A group that moves from a broker that has not listed its groups yet to one that has is listed by none. So they
        # are listed again if partitions have moved meanwhile; of those that do so again and again, it is an error.
        for _ in range(_TRIES):
            before = await calls.cluster.fresh_metadata()
            found, errors = await _ask(calls, before.brokers, handler)
            moved = dict[BrokerId | TopicPartition, KafkaGroupsError]()
            if not (errors or is_filtered) and _places_as_kafka(calls) and (unlisted := _without_groups(before, found)):
                moved = await _not_loaded(calls, before, unlisted)
                if not moved:  # they are loaded by now, whoever coordinates them, and may not have been a moment ago
                    again, errors = await _ask(calls, before.brokers, handler)
                    known = {listing.group_id for listing in found}
                    found += [listing for listing in again if listing.group_id not in known]
            if not (errors or moved):
                moved = _moved(before, await calls.cluster.refresh())
            if not moved:
                break
            await asyncio.sleep(_PAUSE)
        listings = [
            listing
            for listing in found
            if (not wanted_states or listing.state in wanted_states)
            and (not wanted_types or listing.type in wanted_types)
            and (pattern is None or pattern(listing.group_id))
        ]
        errors |= moved
        leaderless = before.leaderless_partitions()
        # The metadata may have been requested again in the meantime, for a broker that could not be reached.
        for where in (*leaderless, *calls.cluster.metadata.leaderless_partitions()):
            errors[where] = broker_error(
                ErrorCode.leader_not_available, METADATA, subject=f"{where.topic}-{where.partition}"
            )
        product = _product(calls)
        if product is not None and not product.lists_empty_groups:
            for broker_id in calls.cluster.metadata.brokers:
                errors.setdefault(broker_id, EmptyGroupsNotListedError(product.name))
        if not is_filtered:
            calls.remember_listing(listings)
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
        results = await calls.ask_coordinators(wanted, classic)
        switched_off = dict[str, GroupResult[GroupDescription]]()
        for api in GROUP_TYPES:
            not_found = _perhaps_of_another_type(results)
            if not not_found:
                return results
            modern = DescribeGroupsHandler(include_authorized_operations, size(len(not_found)), api)
            answers = await calls.ask_coordinators(list(not_found), modern)
            # A broker that does not know the API has no such groups: the earlier answer stands.
            known = {
                new.group_id: new for new in answers.values() if not isinstance(new.error, UnsupportedVersionError)
            }
            if GROUP_TYPES[api] in NAMED_TYPES:
                known = await _with_restorable(calls, known)
            results = _with(results, known)
            if api is CONSUMER_GROUP_DESCRIBE:
                switched_off = {
                    new.group_id: new for new in answers.values() if isinstance(new.error, SwitchedOffError)
                }
        absent = _perhaps_of_another_type(results)
        gone = {
            id_: GroupResult(id_, found._replace(type=GroupType.UNKNOWN, protocol_type=""))
            for id_, found in absent.items()
        }
        if not_told := [found for id_, found in absent.items() if id_ in switched_off]:
            gone |= await _listed(calls, not_told, switched_off)
        return _with(results, gone)


def _product(calls: Calls) -> Product | None:
    metadata = calls.cluster.metadata
    return recognize((broker.host for broker in metadata.brokers.values()), metadata.cluster_id)


def _places_as_kafka(calls: Calls) -> bool:
    product = _product(calls)
    return product is None or product.places_as_kafka


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


def _without_groups(metadata: ClusterMetadata, listings: Sequence[GroupListing]) -> set[int]:
    """Return the partitions of ``__consumer_offsets`` of which their leaders list no group: none of many groups.

    A partition without a leader is an error of its own.
    """
    if metadata.offsets_topic is None:
        return set()
    leaders = metadata.offsets_topic.leaders
    left = set(range(len(leaders))) - {where.partition for where in metadata.leaderless_partitions()}
    # By chance, half of the groups are where Kafka would have them on two brokers, and a third on three. On Kafka, some
    # seem to be elsewhere if the metadata is older than the move of a broker's partitions.
    expected = 0.5 if len(metadata.brokers) > 2 else 0.75
    turns = len(listings) // _LISTED_AT_ONCE + 1  # each of all brokers' groups
    for turn in range(turns):
        some = listings[turn::turns]
        places = offsets_partitions([listing.group_id for listing in some], len(leaders))
        at_home = [place for place, listing in zip(places, some, strict=True) if leaders[place] == listing.coordinator]
        if len(at_home) < expected * len(some):
            return set()  # groups are placed otherwise than Kafka places them
        left.difference_update(at_home)
        if not left:  # as nearly always after the first turn
            break
    return left


async def _not_loaded(
    calls: Calls, before: ClusterMetadata, unlisted: Set[int]
) -> dict[BrokerId | TopicPartition, KafkaGroupsError]:
    """Return the partitions of ``__consumer_offsets`` whose groups nobody coordinates.

    A leader lists no group of a partition that it has not begun to load, as after another broker's restart, or that it
    failed to load (Kafka 4), and says nothing of it. So one group that nobody made is described in each.

    :param unlisted: the partitions of which no group is listed.
    """
    count = len(before.offsets_topic.leaders) if before.offsets_topic is not None else 0
    probes = {_probe(partition, count): partition for partition in unlisted}
    errors: dict[BrokerId | TopicPartition, KafkaGroupsError] = {}
    for group_id, _, error in (await calls.ask_coordinators(list(probes), _ProbeHandler())).values():
        where = TopicPartition(OFFSETS_TOPIC, probes[group_id])
        if error is not None and not (isinstance(error, BrokerError) and error.code == _FORBIDDEN):
            errors[where] = error
    return errors


@lru_cache(4096)
def _probe(partition: int, count: int) -> str:
    """Return the id of a group that would be in a partition."""
    names = (f"airflow-kafka-groups.no-such-group.{number}" for number in itertools.count())
    return next(name for name in names if offsets_partitions([name], count)[0] == partition)


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


def _perhaps_of_another_type(results: GroupResults[GroupDescription]) -> dict[str, GroupDescription]:
    """Return the groups that were not found, unless the answer was about groups of every type."""
    dead, no_type = GroupState.DEAD, GroupType.UNKNOWN  # looking up a member takes a while
    return {
        group_id: found
        for group_id, found, _ in results.values()
        if found is not None and found.state is dead and found.type is not no_type
    }


async def _with_restorable(
    calls: Calls, known: dict[str, GroupResult[GroupDescription]]
) -> dict[str, GroupResult[GroupDescription]]:
    """Return share and streams groups, each with whether its broker can have it back.

    Kafka 4.1 answers AlterShareGroupOffsets and changes nothing, and lets no streams application join a group that a
    commit made (KAFKA-19570). What tells 4.2 is the version of another API that came with it.
    """
    described = {id_: found for id_, found, _ in known.values() if found is not None}
    able = set[BrokerId]()
    for broker_id in {found.coordinator for found in described.values()}:
        with suppress(KafkaGroupsError):  # then it is not known, which is as good as not
            if (await calls.cluster.connection(broker_id)).versions.supports(DESCRIBE_SHARE_OFFSETS, 1):
                able.add(broker_id)
    return known | {
        id_: GroupResult(id_, found._replace(restorable=True))
        for id_, found in described.items()
        if found.coordinator in able
    }


def _with(
    results: GroupResults[GroupDescription], others: dict[str, GroupResult[GroupDescription]]
) -> GroupResults[GroupDescription]:
    return GroupResults.of(dict(zip(results, results.values(), strict=True)) | others)


async def _listed(
    calls: Calls, described: Collection[GroupDescription], switched_off: Mapping[str, GroupResult[GroupDescription]]
) -> dict[str, GroupResult[GroupDescription]]:
    """Return the error of each group that is listed by the brokers that describe none, or that may be.

    Where the protocol was switched off, its groups are there still, with their offsets; only their state is not told.
    """
    kind = GroupType.CONSUMER
    answers = await calls.ask_brokers({group.coordinator for group in described}, ListGroupsHandler(types=(kind,)))
    there = {group.group_id for _, found, _ in answers for group in found or () if group.type is kind}
    errors = {broker_id: error for broker_id, _, error in answers if error is not None}
    doubtful = {
        group.group_id: GroupResult[GroupDescription](group.group_id, error=errors[group.coordinator])
        for group in described
        if group.coordinator in errors  # a group that nobody lists may be there
    }
    return doubtful | {id_: result for id_, result in switched_off.items() if id_ in there}
