"""Checks of a cluster and of what this user may do in it. Requests only: no group, topic or config changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.lease import other_leases
from airflow_kafka_groups.doctor.finding import Report, counted
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.judge.policy.retention import remedy as fitting
from airflow_kafka_groups.kafka.admin.client.access import FEWER_LISTED, SEE_ALL, describe_access
from airflow_kafka_groups.kafka.cluster.products import recognize
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol import api_versions as apis
from airflow_kafka_groups.kafka.protocol.api_versions import oldest_release
from airflow_kafka_groups.observe.readings import is_out_of_reach
from airflow_kafka_groups.observe.snapshot.broker_clocks import compared, read_marks
from airflow_kafka_groups.storage.layout import utc_now

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient, ClusterDescription
    from airflow_kafka_groups.kafka.admin.results import GroupListings
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient, OffsetsRetention
    from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions


SAMPLE_GROUPS = 50
_ONLY_THERE = (
    "Only it shows consumers that commit the same offset again, and members of classic groups that come and go."
)
_SPARK_GROUP = "spark-kafka-relation"
"""Begins the names of the groups by which Spark reads a topic; none of this name has to exist."""
_TOO_OLD = "The brokers are too old to say (before 2.3)."
_ACLS = (
    "Add the missing ACLs: Describe, Read and Delete on groups, Describe and Read on topics. The page 'Connect to a "
    "cluster' of the documentation has the table."
)


async def examine_connection(
    admin: MaintenanceClient,
    lease_group_id: str,
    protected: Sequence[str],
    min_idle_seconds: float,
    report: Report,
    *,
    watch_seconds: float | None = 2.0,
) -> None:
    """Check the brokers, the listing of groups, this user's rights and the retention.

    :param protected: patterns of the groups that the connection protects.
    :param min_idle_seconds: the idle time to compare with the retention.
    :param watch_seconds: as of ``examine_cluster``.

    Raises what connecting raises.
    """
    groups = await examine_cluster(admin, lease_group_id, report, watch_seconds=watch_seconds)
    await examine_rights(admin, groups, lease_group_id, report, protected)
    await examine_retention(admin.offsets_retention, min_idle_seconds, report)


async def examine_rights(
    admin: AdminClient, group_ids: Iterable[str], lease_group_id: str, report: Report, protected: Sequence[str] = ()
) -> None:
    """Check the rights on some groups, all topics, the lease and the offsets topic (KIP-430).

    :param admin: a connected client.
    :param group_ids: the groups of the cluster; the first 50 are looked at.
    :param protected: patterns of groups that may be refused, besides those of platform groups. Default: none.
    """
    sample = sorted(group_ids)[:SAMPLE_GROUPS]
    try:
        access = await describe_access(admin, sample, lease_group_id)
        of_topics = (await admin.authorized_operations([OFFSETS_TOPIC])).topic_operations
        of_spark = await admin.group_operations(_SPARK_GROUP)
    except KafkaGroupsError as error:
        report.unknown("rights", f"What this user may do is not known: {error}.", _ACLS)
        return
    failed = {id_: error for id_, error in access.failed.items() if not is_out_of_reach(id_, error, protected)}
    if access.lists_all is False:
        report.warn("all groups", FEWER_LISTED, SEE_ALL)
    if access.sees_all_topics:
        report.ok("all topics", "Offsets of all topics are visible.")
    else:
        text = "Brokers leave topics that this user may not describe out of a group's offsets, and so out of backups."
        report.fail("all topics", text, "Allow Describe on all topics. Until then nothing is planned or deleted.")
    if refused := sorted(access.failed.keys() - failed.keys()):
        text = f"{counted(len(refused), 'protected group')} may not be described: nobody changes them."
        report.ok("protected groups", f"{text} The first is {refused[0]!r}.")
    for name, right in (("read offsets", "read"), ("delete groups", "delete"), ("restore groups", "restore")):
        _examine_right(name, [getattr(group, right) for group in access.groups.values()], failed, report)
    if access.lease is None:
        report.unknown("lease", _TOO_OLD)
    elif access.lease:
        report.ok("lease", f"The lease {lease_group_id} can be taken.")
    else:
        text = f"The lease {lease_group_id} cannot be taken, so no deletion can begin."
        report.fail("lease", text, f"Allow Read on the group {lease_group_id}.")
    _examine_offsets_topic(of_topics.get(OFFSETS_TOPIC, frozenset()), of_spark, report)


def _examine_right(
    name: str, answers: list[bool | None], failed: Mapping[str, KafkaGroupsError], report: Report
) -> None:
    text = f"Allowed with {answers.count(True)} of {counted(len(answers) + len(failed), 'group')}"
    if failed:
        first = next(iter(failed.values()))
        report.warn(name, f"{text}; {len(failed)} cannot be described, first: {first}.", _ACLS)
    elif not answers:
        report.unknown(name, "There is no group to ask about.")
    elif all(answers):
        report.ok(name, f"{text}.")
    elif None in answers:
        report.unknown(name, _TOO_OLD)
    else:
        report.warn(name, f"{text}.", _ACLS)


def _examine_offsets_topic(operations: frozenset[str] | None, of_spark: frozenset[str] | None, report: Report) -> None:
    lacking = [
        what
        for what, allowed in ((OFFSETS_TOPIC, operations), ("groups whose names begin with spark-kafka-", of_spark))
        if allowed is not None and "read" not in allowed
    ]
    if lacking:
        remedy = f"Allow Read on {' and on '.join(lacking)}, or protect such groups by patterns."
        report.warn("log of commits", f"{OFFSETS_TOPIC} cannot be read. {_ONLY_THERE}", remedy)
    elif operations is None or of_spark is None:
        report.unknown("log of commits", _TOO_OLD)
    else:
        report.ok("log of commits", f"{OFFSETS_TOPIC} can be read: set commit_log to required. {_ONLY_THERE}")


async def examine_retention(
    retention: Callable[[], Awaitable[OffsetsRetention]], min_idle_seconds: float, report: Report
) -> None:
    """Check whether brokers keep groups for longer than the idle time, so that any can be found stale."""
    try:
        found = await retention()
        minutes, why = found.minutes, next(iter(found.errors.values()), "no broker answered")
    except KafkaGroupsError as error:
        minutes, why = None, error
    if minutes is None:
        text = f"How long brokers keep the offsets of idle groups is not known: {why}."
        remedy = "Allow DescribeConfigs on the cluster, or ask the provider for offsets.retention.minutes."
        report.unknown("offsets retention", text, remedy)
        return
    kept, idle = show_duration(minutes * 60), show_duration(min_idle_seconds)
    text = f"Brokers keep the offsets of a group without members for {kept}, the idle time is {idle}."
    if minutes * 60 <= min_idle_seconds:
        text += " Brokers forget most idle groups before they become stale."
        report.warn("offsets retention", text, f"To find more, {fitting(min_idle_seconds, minutes)}.")
    else:
        report.ok("offsets retention", text)


SKEW_SECONDS = 5.0
"""Clocks that differ by less are in step: the shortest limits of this package are three times as long."""

_FRESH_SECONDS = 60.0
"""An older commit says nothing of a clock. Consumers commit every five seconds by default."""
_REACH = "Start the brokers that are down, and let this machine reach all of them at their advertised.listeners."
_UNKNOWN_CLOCKS = "The brokers' clocks are not known"
_NEEDED = (apis.LIST_GROUPS, apis.DESCRIBE_GROUPS, apis.OFFSET_FETCH, apis.FIND_COORDINATOR, apis.DELETE_GROUPS)
_MAX_TIMESTAMP_VERSION = 7


async def examine_cluster(
    admin: AdminClient, lease_group_id: str, report: Report, *, watch_seconds: float | None = 2.0
) -> GroupListings:
    """Check the brokers and the listing of groups; return the listing.

    :param admin: a connected client.
    :param lease_group_id: the group that represents this connection's lease.
    :param watch_seconds: how long commits are watched to compare clocks. Default 2; ``None``: clocks are left alone.

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
    if watch_seconds is None:
        return groups
    if groups.complete:
        await _examine_clock(admin, cluster.api_versions.values(), report, watch_seconds)
    else:  # whoever is silent is not waited for again
        report.unknown("clock", f"{_UNKNOWN_CLOCKS}: not all brokers answer.")
    return groups


def _examine_brokers(cluster: ClusterDescription, report: Report) -> None:
    releases = sorted({oldest_release(of) or (0, 0) for of in cluster.api_versions.values()})
    names = " and ".join("before 2.8" if of == (0, 0) else ".".join(map(str, of)) for of in releases)
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
    else:
        report.ok("API versions", "All brokers have what listing, backing up and deleting groups needs.")


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
    admin: AdminClient, api_versions: Iterable[ApiVersions], report: Report, watch_seconds: float
) -> None:
    """Compare this clock with the newest record in the offsets topic, whose time the brokers have set.

    Kafka has no request for its time. A record that is newer than now proves that a clock is wrong; an old one proves
    nothing, for nobody may have committed, unless it is committed while somebody watches.
    """
    unknown = _UNKNOWN_CLOCKS
    if not all(of.supports(apis.LIST_OFFSETS, _MAX_TIMESTAMP_VERSION) for of in api_versions):
        report.unknown("clock", f"{unknown}: these brokers do not tell the time of the newest record.")
        return
    try:
        marks = await read_marks(admin, utc_now)
        if marks.newest:
            await asyncio.sleep(watch_seconds)
        clocks = compared(await read_marks(admin, utc_now), compared(marks, None))
    except KafkaGroupsError as error:
        report.unknown("clock", f"{unknown}: {error}.")
        return
    if not marks.newest:
        report.unknown("clock", f"{unknown}: there is no record in {OFFSETS_TOPIC} that this user may see.")
    elif clocks.off_at is not None and not clocks.off_ahead:
        text = f"A broker's clock is at least {clocks.off_seconds:,} s behind this machine's: the log of commits is no "
        report.fail("clock", f"{text}evidence.", "Synchronize the clocks (NTP): what is committed looks old.")
    elif (ahead := (max(marks.newest.values()) - utc_now()).total_seconds()) > SKEW_SECONDS:
        text = f"This machine's clock is at least {ahead:,.0f} s behind that of a broker."
        report.fail("clock", text, "Synchronize the clocks (NTP): idle times are measured with them.")
    elif -ahead > _FRESH_SECONDS:
        text = f"{unknown}: the newest commit is {-ahead:,.0f} s old by this clock, and nobody has committed since."
        report.unknown("clock", text)
    else:
        text = f"The newest commit is {max(0.0, -ahead):,.0f} s old: this clock is not behind the brokers'."
        report.ok("clock", text)
