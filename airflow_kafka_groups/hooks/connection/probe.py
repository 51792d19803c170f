"""The Test button: what the doctor finds of the cluster and of this user's rights, without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_kafka_groups.doctor.cluster import examine_cluster, examine_retention, examine_rights
from airflow_kafka_groups.doctor.finding import Report, Status
from airflow_kafka_groups.judge.policy.plan_policy import WEEK_SECONDS

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
    from airflow_kafka_groups.hooks.guard import GuardedAdminClient

_ALWAYS_SHOWN = frozenset({"brokers", "product", "groups", "offsets retention"})


async def examine_connection(
    admin: GuardedAdminClient,
    settings: ConnectionSettings,
    min_idle_seconds: float,
    report: Report,
    *,
    watch_seconds: float | None = 2.0,
) -> None:
    """Check the brokers, the listing of groups, this user's rights and the retention.

    :param min_idle_seconds: the idle time to compare with the retention.
    :param watch_seconds: as of ``examine_cluster``.

    Raises what connecting raises.
    """
    lease = settings.lease_group_id
    groups = await examine_cluster(admin, lease, report, watch_seconds=watch_seconds)
    await examine_rights(admin, groups, lease, report, settings.protected_groups)
    await examine_retention(admin.offsets_retention, min_idle_seconds, report)


async def describe_connection(admin: GuardedAdminClient, settings: ConnectionSettings) -> str:
    """Connect to every broker; return what was found, and what is wrong, for a message of Airflow's UI."""
    report = Report()
    await examine_connection(admin, settings, WEEK_SECONDS, report, watch_seconds=None)
    shown = [each for each in report.findings if each.check in _ALWAYS_SHOWN or each.status is not Status.OK]
    said = [each.text if each.check in _ALWAYS_SHOWN else f"{each.check.capitalize()}: {each.text}" for each in shown]
    remedies = any(each.remedy for each in shown)
    return " ".join([*said, *(["The command doctor has a remedy for each."] if remedies else [])])
