"""What there is: the cluster's brokers, and the groups that each of them coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_groups.admin.client.arguments import pattern_of
from airflow_kafka_groups.admin.client.calls import Calls
from airflow_kafka_groups.admin.engine import runner
from airflow_kafka_groups.admin.engine.driver import AdminDriver
from airflow_kafka_groups.admin.engine.limits import DriverLimits
from airflow_kafka_groups.admin.handlers.list_groups import ListGroupsHandler
from airflow_kafka_groups.admin.results import GroupListings
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.models import Broker, BrokerId, GroupListing, GroupState, GroupType
from airflow_kafka_groups.protocol.api_versions import ApiVersions

_LISTING_TRIES = 5


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Be the cluster: its id, its brokers, and what each of those that answered can speak."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    api_versions: Mapping[BrokerId, ApiVersions]
    errors: Mapping[BrokerId, KafkaGroupsError]


class ListingCalls(Calls):
    """List brokers and groups."""

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
        brokers = list((await self._cluster.fresh_metadata()).brokers)
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
