"""Checks of a cluster: product, brokers, API versions, the listing of groups, other leases, and the brokers' clock.

Everything is requested and nothing is tried: no group, topic or config changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.lease import other_leases
from airflow_kafka_groups.doctor.finding import Report, counted
from airflow_kafka_groups.exceptions import IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.kafka.cluster.products import recognize
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol import protocol_apis as apis
from airflow_kafka_groups.kafka.protocol.releases import oldest_release

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient, ClusterDescription
    from airflow_kafka_groups.kafka.admin.results import GroupListings
    from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions

SKEW_SECONDS = 5.0
"""Clocks that differ by less are in step: the shortest limits of this package are three times as long."""

_FRESH_SECONDS = 60.0
"""An older commit says nothing of a clock. Consumers commit every five seconds by default."""
_REACH = "Start the brokers that are down, and let this machine reach all of them at their advertised.listeners."
_NEEDED = (apis.LIST_GROUPS, apis.DESCRIBE_GROUPS, apis.OFFSET_FETCH, apis.FIND_COORDINATOR, apis.DELETE_GROUPS)
_UPGRADE = "Nothing: older requests are used. A newer broker needs fewer requests."
_OLDER = (
    (apis.FIND_COORDINATOR, 4, "find one coordinator per request (KIP-699 came with 3.0)"),
    (apis.OFFSET_FETCH, 8, "read one group per request (KIP-709 came with 3.0)"),
    (apis.LIST_GROUPS, 5, "list groups without their types (they came with 3.8), so types are described"),
)
_MAX_TIMESTAMP_VERSION = 7


async def examine_cluster(
    admin: AdminClient, lease_group_id: str, report: Report, *, now: Callable[[], float] = time.time
) -> GroupListings:
    """Check the brokers and the listing of groups; return the listing.

    :param admin: a connected client.
    :param lease_group_id: the group that represents this connection's lease.
    :param now: the time of this machine, seconds since the epoch.

    Raises what connecting raises.
    """
    cluster = await admin.describe_cluster()
    _examine_brokers(cluster, report)
    product = recognize([broker.host for broker in cluster.brokers], cluster.cluster_id)
    if product is not None:
        text = f"This is {product.name}. {product.note}"
        if product.lists_empty_groups:
            report.ok("product", text)
        else:
            report.fail("product", text, "Back up groups by name; nothing can be judged or cleaned up here.")
    _examine_versions(cluster.api_versions, report)
    groups = await admin.list_groups()
    _examine_listing(groups, report)
    for warning in other_leases(groups, lease_group_id):
        report.warn("other leases", f"{warning[0].upper()}{warning[1:]}.", "Use one lease for a cluster.")
    await _examine_clock(admin, cluster.api_versions.values(), report, now)
    return groups


def _examine_brokers(cluster: ClusterDescription, report: Report) -> None:
    releases = sorted({oldest_release(of) or (0, 0) for of in cluster.api_versions.values()})
    names = " and ".join("before 1.1" if of == (0, 0) else ".".join(map(str, of)) for of in releases)
    text = f"Cluster {cluster.cluster_id}: {counted(len(cluster.brokers), 'broker')}"
    text += f", with the APIs of Kafka {names}." if names else "."
    if cluster.errors:
        first = next(iter(cluster.errors.values()))
        text += f" {len(cluster.errors)} of them cannot be reached, first: {first}."
        report.fail("brokers", text, _REACH)
    else:
        report.ok("brokers", text)


def _examine_versions(api_versions: Mapping[int, ApiVersions], report: Report) -> None:
    of_brokers = list(api_versions.values())
    if missing := [api.name for api in _NEEDED if not all(of.supports(api, api.min_version) for of in of_brokers)]:
        text = f"Some brokers lack {', '.join(missing)}, without which nothing can be cleaned up."
        report.fail("API versions", text, "Use Kafka 2.8 or later, or ask the provider to allow them.")
        return
    older = [what for api, version, what in _OLDER if not all(of.supports(api, version) for of in of_brokers)]
    if older:
        report.warn("API versions", f"Some brokers {'; '.join(older)}.", _UPGRADE)
    else:
        report.ok("API versions", "Coordinators and offsets of many groups are read in one request.")


def _examine_listing(groups: GroupListings, report: Report) -> None:
    if groups.complete:
        report.ok("groups", f"{counted(len(groups), 'group')} listed, and the listing is complete.")
        return
    of_partitions = any(isinstance(where, TopicPartition) for where in groups.errors)
    remedy = (
        f"Give every partition of {OFFSETS_TOPIC} a leader: start its brokers, and let the topic have three replicas. "
        "If partitions have moved, repeat this when no broker restarts."
        if of_partitions
        else _REACH
    )
    text = f"{counted(len(groups), 'group')} listed; there may be more: {IncompleteListingError(groups.errors)}."
    report.fail("groups", text, remedy)


async def _examine_clock(
    admin: AdminClient, api_versions: Iterable[ApiVersions], report: Report, now: Callable[[], float]
) -> None:
    """Compare this clock with the newest record in the offsets topic, whose time the brokers have set.

    Kafka has no request for its time. A record that is newer than now proves that a clock is wrong; an old one proves
    nothing, for nobody may have committed.
    """
    unknown = "The brokers' clocks are not known"
    if not all(of.supports(apis.LIST_OFFSETS, _MAX_TIMESTAMP_VERSION) for of in api_versions):
        report.unknown("clock", f"{unknown}: these brokers do not tell the time of the newest record.")
        return
    try:
        count = (await admin.authorized_operations([OFFSETS_TOPIC])).partition_counts.get(OFFSETS_TOPIC, 0)
        specs = {TopicPartition(OFFSETS_TOPIC, number): OffsetSpec.max_timestamp() for number in range(count)}
        answers = (await admin.list_offsets(specs)).values() if specs else ()
    except KafkaGroupsError as error:
        report.unknown("clock", f"{unknown}: {error}.")
        return
    times = [of.timestamp / 1000 for of in answers if isinstance(of, ListedOffset) and of.timestamp >= 0]
    if not times:
        report.unknown("clock", f"{unknown}: there is no record in {OFFSETS_TOPIC} that this user may see.")
    elif (ahead := max(times) - now()) > SKEW_SECONDS:
        text = f"This machine's clock is at least {ahead:,.0f} s behind that of a broker."
        report.fail("clock", text, "Synchronize the clocks (NTP): idle times are measured with them.")
    elif -ahead > _FRESH_SECONDS:
        text = f"{unknown}: the newest commit is {-ahead:,.0f} s old by this clock, and nobody has committed since."
        report.unknown("clock", text)
    else:
        text = f"The newest commit is {max(0.0, -ahead):,.0f} s old: this clock is not behind the brokers'."
        report.ok("clock", text)
