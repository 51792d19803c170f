"""The Test button: describes the cluster and this user's rights, without changing anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_kafka_groups.doctor.cluster import SAMPLE_GROUPS
from airflow_kafka_groups.doctor.finding import counted
from airflow_kafka_groups.exceptions import IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.judge.policy.plan_policy import WEEK_SECONDS
from airflow_kafka_groups.judge.policy.retention import needed_minutes
from airflow_kafka_groups.kafka.admin.client.access import Access, describe_access
from airflow_kafka_groups.kafka.cluster.products import recognize
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, OFFSET_FETCH

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.guard import GuardedAdminClient
    from airflow_kafka_groups.kafka import ClusterDescription
    from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions

_HIDDEN_TOPICS = (
    " Brokers leave topics that this user may not describe out of a group's offsets, and so out of backups: allow "
    "Describe on all topics."
)

_FORGOTTEN = f", too short for the default idle time of 7 days: raise it to {needed_minutes(WEEK_SECONDS)}."


async def describe_connection(admin: GuardedAdminClient, lease_group_id: str) -> str:
    """Connect to every broker, list the groups, return the rights for the first groups and the offsets retention."""
    cluster = await admin.describe_cluster()
    groups = await admin.list_groups()
    product = recognize((broker.host for broker in cluster.brokers), cluster.cluster_id)
    made = f" ({product.name})" if product is not None else ""
    text = f"{_brokers(cluster)}{made}; {counted(len(groups), 'group')} visible"
    if groups.errors:
        text += f" (there may be more: {IncompleteListingError(groups.errors)})"
    sample = sorted(groups)[:SAMPLE_GROUPS]
    try:
        access = await describe_access(admin, sample, lease_group_id)
    except KafkaGroupsError as error:
        return f"Connected to cluster {cluster.cluster_id}: {text}. What may be done is not known: {error}."
    if access.lists_all is False:
        text += " (only those that this user may describe: there may be more)"
    lacking = "" if access.sees_all_topics else _HIDDEN_TOPICS
    if access.lease is False:
        lacking += f" A deletion needs Read on the group {lease_group_id}, which this user lacks."
    kept = await _offsets_kept(admin)
    return f"Connected to cluster {cluster.cluster_id}: {text}. {_allowed(access, sample)}{lacking} {kept}"


async def _offsets_kept(admin: GuardedAdminClient) -> str:
    try:
        retention = await admin.offsets_retention()
    except KafkaGroupsError as error:
        return f"How long brokers keep the offsets of idle groups is not known: {error}."
    if (minutes := retention.minutes) is None:
        why = next(iter(retention.errors.values()), "no broker answered")
        return f"How long brokers keep the offsets of idle groups is not known: {why}."
    source = ", Kafka's default" if retention.is_default else ""
    source += ", the smallest of different values" if retention.differs else ""
    text = f"Offsets of empty groups are kept for {_duration(minutes)} (offsets.retention.minutes={minutes}{source})"
    return text + (_FORGOTTEN if minutes * 60 <= WEEK_SECONDS else ".")


def _duration(minutes: int) -> str:
    for unit, name in ((1440, "day"), (60, "hour")):
        if minutes % unit == 0:
            return f"{minutes // unit} {name}{'' if minutes == unit else 's'}"
    return f"{minutes} minutes"


def _brokers(cluster: ClusterDescription) -> str:
    versions = list(cluster.api_versions.values())
    text = counted(len(cluster.brokers), "broker")
    if cluster.errors:
        first = next(iter(cluster.errors.values()))
        text += f" ({len(cluster.errors)} cannot be reached, first: {first})"
    return f"{text}, {_releases(versions)}, {_batching(versions)}" if versions else text


def _releases(versions: Iterable[ApiVersions]) -> str:
    from airflow_kafka_groups.kafka.protocol.api_versions import oldest_release

    found = sorted({oldest_release(of_broker) or (0, 0) for of_broker in versions})
    names = ["before 1.1" if release == (0, 0) else ".".join(map(str, release)) for release in found]
    return f"Kafka {names[0]}" if len(names) == 1 else f"Kafka {names[0]} to {names[-1]}"


def _batching(versions: list[ApiVersions]) -> str:
    batched = sum(of.supports(FIND_COORDINATOR, 4) and of.supports(OFFSET_FETCH, 8) for of in versions)
    if batched == len(versions):
        return "many groups a request"
    single = len(versions) - batched
    which = (
        f"{single} of {len(versions)} brokers {'takes' if single == 1 else 'take'}" if batched else "all brokers take"
    )
    return f"{which} one group per request (older than 3.0); many requests are in flight"


def _allowed(access: Access, sample: list[str]) -> str:
    if not sample:
        return "There is no group to ask about what is allowed."
    if not access.groups:
        return "What may be done with the groups is not known: none of them could be described."
    rights = {
        "read": [group.read for group in access.groups.values()],
        "delete": [group.delete for group in access.groups.values()],
        "restore": [group.restore for group in access.groups.values()],
    }
    text = [f"{name} {_how_many(answers)}" for name, answers in rights.items()]
    of = "the only group" if len(access.groups) == 1 else f"the {len(access.groups)} groups looked at"
    failed = f" {counted(len(access.failed), 'other')} could not be described." if access.failed else ""
    return f"Allowed with {of}: {', '.join(text)}.{failed}"


def _how_many(answers: list[bool | None]) -> str:
    yes, unknown = answers.count(True), answers.count(None)
    if unknown == len(answers):
        return "not known (the brokers are too old to say)"
    if len(answers) == 1:
        return "yes" if yes else "no"
    return "all" if yes == len(answers) else f"{yes or 'none'}" + (f" ({unknown} not known)" if unknown else "")
