"""What ``explain`` shows of a planned group: everything but the group itself that would keep it if the plan ran now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.commands.explain_pruning import Row
from airflow_kafka_groups.contracts.verdicts import KeptName
from airflow_kafka_groups.exceptions import KafkaGroupsError, QuietTimeError

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
    from airflow_kafka_groups.maintenance.storage import Layout

NOTICE = "a notice to its owner, and time; the task that notifies owners sends it"
_NEW_PLAN = "a new plan judges it again"
_BY_CODE = {
    "not_notified": (KeptName.NOTICE.value, NOTICE),
    "excluded": ("keep alive", "time, and then a new plan"),
}


def rows_of_guards(layout: Layout, plan: DeletionPlan, group_id: str) -> Iterator[Row]:
    """Yield what keeps a group beside its own state: a stop, the policy as it is now, newer snapshots, and records."""
    from airflow_kafka_groups.maintenance.deletion.audit import read_history
    from airflow_kafka_groups.maintenance.deletion.guards.newer_snapshots import in_use_since
    from airflow_kafka_groups.maintenance.deletion.guards.records import kept_by_records
    from airflow_kafka_groups.maintenance.deletion.guards.stop_switch import why_stopped
    from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
    from airflow_kafka_groups.maintenance.storage import utc_now

    now = utc_now()
    if (stopped := why_stopped(layout)) is not None:
        yield Row("stop", "keeps", stopped, "whoever stopped deletions")
    yield from _rows_of_policy(plan, group_id, now)
    try:
        in_use = in_use_since(layout, plan)
    except KafkaGroupsError as error:
        yield Row("newer snapshots", "keeps", str(error), "remove the damaged snapshot, or make a new plan")
    else:
        if group_id in in_use:
            yield Row("newer snapshots", "keeps", in_use[group_id].reason, _NEW_PLAN)
    history = read_history(layout, plan.kafka_cluster_id)
    kept_alive = KeepAliveRecords(layout, plan.kafka_cluster_id).read()
    kept = kept_by_records(layout, plan, plan.plan_id, history, kept_alive, now, judged=True)
    if (decision := kept.get(group_id)) is not None:
        check, change = _BY_CODE.get(decision.code.value, ("journal", _NEW_PLAN))
        yield Row(check, "keeps", decision.reason, change)


def _rows_of_policy(plan: DeletionPlan, group_id: str, now: datetime) -> Iterator[Row]:
    from airflow_kafka_groups.hooks.storage import policy_reader
    from airflow_kafka_groups.maintenance.deletion.guards.newer_policy import kept_by_newer_policy

    try:
        newer = policy_reader(plan.policy)()
        ruled_out = kept_by_newer_policy(plan, newer, now)
        if newer is not None:
            newer.quiet.require_over(now, plan.expires_at)
    except QuietTimeError as error:
        yield Row("quiet times", "keeps", str(error), "time")
    except KafkaGroupsError as error:
        yield Row("policy", "keeps", str(error), "a policy file that can be read, or a new plan")
        return
    if group_id in ruled_out:
        yield Row("policy", "keeps", ruled_out[group_id].reason, "an edit of the policy, or a new plan")
