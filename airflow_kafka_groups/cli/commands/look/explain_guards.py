"""What ``explain`` shows of a planned group: everything but the group itself that would keep it if the plan ran now."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.commands.look.explain_pruning import Row
from airflow_kafka_groups.exceptions import KafkaGroupsError, PlanError, QuietTimeError
from airflow_kafka_groups.judge.verdict_names import KeptName

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
    from airflow_kafka_groups.ledger.floors import SiteFloors
    from airflow_kafka_groups.observe.protocols import BackupAdmin
    from airflow_kafka_groups.storage.layout import Layout

NOTICE = "a notice to its owner, and time; the task that notifies owners sends it"
TIME = "time, and then a new plan"
_NEW_PLAN = "a new plan judges it again"
_BY_CODE = {
    "not_notified": (KeptName.NOTICE.value, NOTICE),
    "excluded": ("keep alive", TIME),
}


async def why_not_here(admin: BackupAdmin, plan: DeletionPlan) -> str | None:
    """Return why a plan cannot be applied to this cluster now, ``None`` if it can."""
    from airflow_kafka_groups.ledger.sealed_plan import require_all_seen, require_here
    from airflow_kafka_groups.storage.layout import utc_now

    try:
        await require_here(admin, plan, await admin.cluster_id(), utc_now())
        await require_all_seen(admin, plan)
    except PlanError as error:
        return str(error)
    return None


def rows_of_guards(
    layout: Layout, plan: DeletionPlan, group_id: str, floors: SiteFloors, protects: Callable[[str], bool]
) -> Iterator[Row]:
    """Yield what keeps a group beside its own state: site, approval, stop, policy, newer snapshots, and records.

    :param protects: whether the connection protects a group. A plan that has one is refused as it is.
    """
    from airflow_kafka_groups.change.deletion.guards.newer_snapshots import in_use_since
    from airflow_kafka_groups.change.deletion.guards.records import kept_by_records
    from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped
    from airflow_kafka_groups.cli.connection import use_airflow_database
    from airflow_kafka_groups.hooks.stop_variable import STOP_VARIABLE, why_variable_stops
    from airflow_kafka_groups.ledger.audit import read_history
    from airflow_kafka_groups.ledger.records import KeepAliveRecords
    from airflow_kafka_groups.storage.layout import utc_now

    now = utc_now()
    if not protects(group_id) and (other := next(filter(protects, plan.group_ids), None)) is not None:
        yield Row("connection", "keeps", f"protects {other!r}, which the plan names too: it is refused", _NEW_PLAN)
    yield from _rows_of_site(layout, plan, group_id, floors)
    use_airflow_database()
    for stopped in (why_stopped(layout), why_variable_stops(STOP_VARIABLE)):
        if stopped is not None:
            yield Row("stop", "keeps", stopped, "whoever stopped deletions")
    policy = yield from _rows_of_policy(layout, plan, group_id, now)
    try:
        in_use = in_use_since(layout, plan)
    except KafkaGroupsError as error:
        yield Row("newer snapshots", "keeps", str(error), "remove the damaged snapshot, or make a new plan")
    else:
        if group_id in in_use:
            yield Row("newer snapshots", "keeps", in_use[group_id].reason, _NEW_PLAN)
    history = read_history(layout, plan.kafka_cluster_id)
    kept_alive = KeepAliveRecords(layout, plan.kafka_cluster_id).read()
    kept = kept_by_records(layout, plan, plan.plan_id, history, kept_alive, now, judged=True, policy=policy)
    if (decision := kept.get(group_id)) is not None:
        check, change = _BY_CODE.get(decision.code.value, ("journal", _NEW_PLAN))
        yield Row(check, "keeps", decision.reason, change)


def _rows_of_site(layout: Layout, plan: DeletionPlan, group_id: str, floors: SiteFloors) -> Iterator[Row]:
    from airflow_kafka_groups.ledger.approval import require_approval

    try:
        replace(floors, dry_run_only=False).require(plan, dry_run=False)  # that one has its row
    except PlanError as error:
        yield Row("site", "keeps", str(error), _NEW_PLAN)
    try:
        approval = require_approval(layout, plan, floors.approval(None, plan))
    except KafkaGroupsError as error:
        yield Row("approval", "keeps", str(error), "an approval of this plan in Airflow, or a new plan")
        return
    if approval is not None and group_id in approval.excluded:
        yield Row("approval", "keeps", f"{approval.approved_by} kept it at the approval", _NEW_PLAN)


def _rows_of_policy(
    layout: Layout, plan: DeletionPlan, group_id: str, now: datetime
) -> Generator[Row, None, PolicyFile | None]:
    """Yield what keeps the group by the policy as it is now, and return that; ``None`` if it cannot be read."""
    from airflow_kafka_groups.change.deletion.guards.newer_policy import kept_by_newer_policy
    from airflow_kafka_groups.hooks.storage import policy_reader

    newer = None
    try:
        newer = policy_reader(plan.policy)()
        ruled_out = kept_by_newer_policy(plan, newer, now)
        if newer is not None:
            newer.require_cluster(layout.cluster)
            newer.quiet.require_over(now, plan.expires_at)
    except QuietTimeError as error:
        yield Row("quiet times", "keeps", str(error), "time")
    except KafkaGroupsError as error:
        yield Row("policy", "keeps", str(error), "a policy file that can be read, or a new plan")
        return newer
    if group_id in ruled_out:
        yield Row("policy", "keeps", ruled_out[group_id].reason, "an edit of the policy, or a new plan")
    return newer
