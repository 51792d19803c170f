"""Checks of what this user may do, and of how long brokers keep what is to be judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_kafka_groups.doctor.finding import Report, counted
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.judge.policy.retention import remedy as fitting
from airflow_kafka_groups.kafka.admin.client.access import FEWER_LISTED, SEE_ALL, describe_access
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.observe.protocols import is_out_of_reach

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.client.access import Access
    from airflow_kafka_groups.kafka.cluster_admin.offsets_retention import OffsetsRetention

SAMPLE_GROUPS = 50
_DAY = 86_400
_SPARK_GROUP = "spark-kafka-relation"
"""Begins the names of the groups by which Spark reads a topic; none of this name has to exist."""
_ACLS = (
    "Add the missing ACLs: Describe, Read and Delete on groups, Describe and Read on topics. The page 'Connect to a "
    "cluster' of the documentation has the table."
)


async def examine_rights(
    admin: AdminClient,
    group_ids: Iterable[str],
    lease_group_id: str,
    report: Report,
    protected: Sequence[str] = (),
) -> None:
    """Check the rights on some groups, all topics, the lease and the offsets topic (KIP-430).

    :param admin: a connected client.
    :param group_ids: the groups of the cluster; the first 50 are looked at.
    :param protected: patterns of groups that may be refused, besides those of platform groups. Default: none.
    """
    sample = sorted(group_ids)[:SAMPLE_GROUPS]
    try:
        access = await describe_access(admin, sample, lease_group_id)
        operations = (await admin.authorized_operations([OFFSETS_TOPIC])).topic_operations.get(
            OFFSETS_TOPIC, frozenset()
        )
        of_spark = await admin.group_operations(_SPARK_GROUP)
    except KafkaGroupsError as error:
        report.unknown("rights", f"What this user may do is not known: {error}.", _ACLS)
        return
    failed = {id_: error for id_, error in access.failed.items() if not is_out_of_reach(id_, error, protected)}
    _examine_general(access, report)
    if refused := sorted(access.failed.keys() - failed.keys()):
        text = f"{counted(len(refused), 'protected group')} may not be described: nobody changes them."
        report.ok("protected groups", f"{text} The first is {refused[0]!r}.")
    for name, answers in (
        ("read offsets", [group.read for group in access.groups.values()]),
        ("delete groups", [group.delete for group in access.groups.values()]),
        ("restore groups", [group.restore for group in access.groups.values()]),
    ):
        _examine_right(name, answers, failed, report)
    _examine_lease(access.lease, lease_group_id, report)
    _examine_offsets_topic(operations, of_spark, report)


def _examine_general(access: Access, report: Report) -> None:
    if access.lists_all is False:
        report.warn("all groups", FEWER_LISTED, SEE_ALL)
    if access.sees_all_topics:
        report.ok("all topics", "Offsets of all topics are visible.")
        return
    text = "Brokers leave topics that this user may not describe out of a group's offsets, and so out of backups."
    report.fail("all topics", text, "Allow Describe on all topics. Until then nothing is planned or deleted.")


def _examine_right(
    name: str, answers: list[bool | None], failed: Mapping[str, KafkaGroupsError], report: Report
) -> None:
    if failed:
        asked = counted(len(answers) + len(failed), "group")
        text = f"Allowed with {answers.count(True)} of {asked}; {len(failed)} cannot be described"
        report.warn(name, f"{text}, first: {next(iter(failed.values()))}.", _ACLS)
    elif not answers:
        report.unknown(name, "There is no group to ask about.")
    elif (allowed := answers.count(True)) == len(answers):
        report.ok(name, f"Allowed with all of {counted(len(answers), 'group')}.")
    elif None in answers:
        report.unknown(name, "The brokers are too old to say (before 2.3).")
    else:
        report.warn(name, f"Allowed with {allowed} of {counted(len(answers), 'group')}.", _ACLS)


def _examine_lease(allowed: bool | None, lease_group_id: str, report: Report) -> None:
    if allowed is None:
        report.unknown("lease", "The brokers are too old to say whether the lease can be taken.")
    elif allowed:
        report.ok("lease", f"The lease {lease_group_id} can be taken.")
    else:
        text = f"The lease {lease_group_id} cannot be taken, so no deletion can begin."
        report.fail("lease", text, f"Allow Read on the group {lease_group_id}.")


def _examine_offsets_topic(operations: frozenset[str] | None, of_spark: frozenset[str] | None, report: Report) -> None:
    lacking = [
        what
        for what, allowed in ((OFFSETS_TOPIC, operations), ("groups whose names begin with spark-kafka-", of_spark))
        if allowed is not None and "read" not in allowed
    ]
    if not lacking and (operations is None or of_spark is None):
        report.unknown("log of commits", f"The brokers are too old to say whether {OFFSETS_TOPIC} can be read.")
    elif not lacking:
        report.ok("log of commits", f"{OFFSETS_TOPIC} can be read: commits of the same offset are seen.")
    else:
        text = f"{OFFSETS_TOPIC} cannot be read: a consumer without membership on a quiet topic looks idle."
        report.warn(
            "log of commits",
            text,
            f"Allow Read on {' and on '.join(lacking)}, or protect such groups by patterns.",
        )


async def examine_retention(
    retention: Callable[[], Awaitable[OffsetsRetention]], min_idle_seconds: float, report: Report
) -> None:
    """Check whether brokers keep groups for longer than the idle time, so that any can be found stale."""
    unknown = "How long brokers keep the offsets of idle groups is not known"
    remedy = "Allow DescribeConfigs on the cluster, or ask the provider for offsets.retention.minutes."
    try:
        found = await retention()
    except KafkaGroupsError as error:
        report.unknown("offsets retention", f"{unknown}: {error}.", remedy)
        return
    if found.minutes is None:
        why = next(iter(found.errors.values()), "no broker answered")
        report.unknown("offsets retention", f"{unknown}: {why}.", remedy)
        return
    kept, idle = _days(found.minutes * 60), _days(min_idle_seconds)
    text = f"Brokers keep the offsets of a group without members for {kept}, the idle time is {idle}."
    if found.minutes * 60 <= min_idle_seconds:
        text += " Brokers forget most idle groups before they become stale."
        report.warn("offsets retention", text, f"To find more, {fitting(min_idle_seconds, found.minutes)}.")
    else:
        report.ok("offsets retention", text)


def _days(seconds: float) -> str:
    if seconds < _DAY:
        return show_duration(seconds)
    return f"{seconds / _DAY:,.1f}".removesuffix(".0") + " days"
