"""The brokers of a cluster, and the groups that each of them coordinates."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from airflow_kafka_groups.admin.client.arguments import pattern_of
from airflow_kafka_groups.admin.client.calls import Calls
from airflow_kafka_groups.admin.handlers.describe_groups import DescribeClassicGroupsHandler
from airflow_kafka_groups.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.admin.results import GroupListings
from airflow_kafka_groups.cluster.metadata import ClusterMetadata
from airflow_kafka_groups.cluster.products import Product, recognize
from airflow_kafka_groups.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.exceptions import BrokerError, EmptyGroupsNotListedError, KafkaGroupsError
from airflow_kafka_groups.models import Broker, BrokerId, GroupListing, GroupState, GroupType, TopicPartition
from airflow_kafka_groups.protocol.api_versions import ApiVersions
from airflow_kafka_groups.protocol.apis import METADATA
from airflow_kafka_groups.protocol.error_codes import ErrorCode, broker_error

_TRIES = 3
_NOBODY = frozenset({int(ErrorCode.not_coordinator), int(ErrorCode.coordinator_not_available)})
_PAUSE = 0.2
_LISTED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster: its id, its brokers, and the API versions of each broker that answered."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    api_versions: Mapping[BrokerId, ApiVersions]
    errors: Mapping[BrokerId, KafkaGroupsError]


async def describe_cluster(calls: Calls) -> ClusterDescription:
    """Ask for the brokers, and connect to each to learn its API versions."""
    metadata = await calls.cluster.refresh()
    versions: dict[BrokerId, ApiVersions] = {}
    errors: dict[BrokerId, KafkaGroupsError] = {}

    async def ask(broker_id: BrokerId) -> None:
        try:
            versions[broker_id] = (await calls.cluster.connection(broker_id)).versions
        except KafkaGroupsError as error:
            errors[broker_id] = error

    async with asyncio.TaskGroup() as tasks:  # side by side: each that cannot be reached takes the time of a connection
        for broker_id in metadata.brokers:
            tasks.create_task(ask(broker_id))
    return ClusterDescription(metadata.cluster_id, tuple(metadata.brokers.values()), versions, errors)


async def list_groups(
    calls: Calls,
    *,
    states: Iterable[GroupState | str] = (),
    types: Iterable[GroupType | str] = (),
    group_id_pattern: str | None = None,
) -> GroupListings:
    """List the groups of every broker, each group once.

    A group that moves from a broker that has not listed its groups yet to one that has is listed by none. So groups are
    listed again if partitions of ``__consumer_offsets`` have moved meanwhile, and if they do so again and again, these
    are in ``.errors``.

    Brokers without an answer are in ``.errors``, and so are partitions of ``__consumer_offsets`` without a leader or,
    where all groups are listed, whose leader could not load them, and all brokers of a product that lists no empty
    groups.
    """
    wanted_states = tuple(GroupState(state) for state in states)
    wanted_types = tuple(GroupType(kind) for kind in types)
    pattern = pattern_of(group_id_pattern)
    for _ in range(_TRIES):
        before = await calls.cluster.fresh_metadata()
        listings: list[GroupListing] = []
        errors: dict[BrokerId | TopicPartition, KafkaGroupsError] = {}
        for broker_id, found, error in await calls.ask_all_brokers(ListGroupsHandler(wanted_states, wanted_types)):
            if error is not None:
                errors[broker_id] = error
            listings.extend(
                listing
                for listing in found or ()
                if (not wanted_states or listing.state in wanted_states)
                and (not wanted_types or listing.type in wanted_types)
                and (pattern is None or pattern.fullmatch(listing.group_id))
            )
        moved = {} if errors else _moved(before, await calls.cluster.refresh())
        if not (errors or moved or wanted_states or wanted_types or pattern or _product(calls)):
            moved = await _not_loaded(calls, listings)
        if not moved:
            break
        await asyncio.sleep(_PAUSE)
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
    if not (wanted_states or wanted_types or pattern):
        calls.remember_listing(listings)
    return GroupListings(listings, errors)


def _product(calls: Calls) -> Product | None:
    metadata = calls.cluster.metadata
    return recognize((broker.host for broker in metadata.brokers.values()), metadata.cluster_id)


class _ProbeHandler(DescribeClassicGroupsHandler):
    """DescribeGroups, which a coordinator answers for groups that do not exist, too."""

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a partition counts as not loaded."""
        return _TRIES


async def _not_loaded(
    calls: Calls, listings: Sequence[GroupListing]
) -> dict[BrokerId | TopicPartition, KafkaGroupsError]:
    """Return the partitions of ``__consumer_offsets`` that nobody coordinates though they have a leader.

    Kafka 4 lists no group of a partition that its leader failed to load, and says nothing of it. So of each partition
    without a listed group, which there are on small clusters only, one group is described that nobody made.
    """
    topic = calls.cluster.metadata.offsets_topic
    if topic is None:
        return {}
    count = len(topic.leaders)
    listed = {where.partition for where in calls.cluster.metadata.leaderless_partitions()}  # an error of their own
    turns = len(listings) // _LISTED_AT_ONCE + 1  # each of all brokers' groups
    for turn in range(turns):
        some = listings[turn::turns]
        places = offsets_partitions([listing.group_id for listing in some], count)
        if any(topic.leaders[place] != listing.coordinator for place, listing in zip(places, some, strict=True)):
            return {}  # groups are placed otherwise than Kafka places them
        listed.update(places)
        if len(listed) == count:  # as nearly always after the first turn
            return {}
    if not (probes := {_probe(where, count): where for where in range(count) if where not in listed}):
        return {}
    answers = await calls.ask_coordinators(list(probes), _ProbeHandler())
    return {
        TopicPartition(OFFSETS_TOPIC, probes[group_id]): error
        for group_id, error in answers.failed.items()
        if isinstance(error, BrokerError) and error.code in _NOBODY
    }


@lru_cache(4096)
def _probe(partition: int, count: int) -> str:
    """Return the id of a group that would be in a partition."""
    names = (f"airflow-kafka-groups.no-such-group.{number}" for number in itertools.count())
    return next(name for name in names if offsets_partitions([name], count)[0] == partition)


def _moved(before: ClusterMetadata, after: ClusterMetadata) -> dict[BrokerId | TopicPartition, KafkaGroupsError]:
    """Return the partitions of ``__consumer_offsets`` that have another leader than before, with a message each."""
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
