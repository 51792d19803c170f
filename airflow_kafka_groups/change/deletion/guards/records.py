"""What the journal, notices and keep-alive runs say against a deletion, put together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from airflow_kafka_groups.change.deletion.guards.exclusions import exclusions, spare
from airflow_kafka_groups.change.deletion.guards.newer_policy import idle_times_by_edit
from airflow_kafka_groups.change.deletion.guards.notices import kept_unnoticed
from airflow_kafka_groups.change.deletion.recheck import Decision
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, least_idle_times
from airflow_kafka_groups.ledger.journal.history import History
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.storage.layout import Layout


def kept_by_records(
    layout: Layout,
    plan: DeletionPlan | None,
    request_id: str,
    history: History,
    kept_alive: Mapping[str, KeptAlive],
    now: datetime,
    *,
    judged: bool,
    policy: PolicyFile | None = None,
) -> dict[str, Decision]:
    """Return the groups that a request must keep because of what is on record, with the reason.

    :param plan: its plan; ``None`` for a dry run of groups that were named.
    :param request_id: the plan's id, or what the tries of a deletion by name have in common.
    :param history: everything that the journal says of the cluster.
    :param kept_alive: the groups that keep-alive runs and restores want to stay.
    :param judged: whether the plan was made by verdicts, so that idle times count.
    :param policy: the plan's policy file as it is now, which may demand longer idle times. Default: nobody read it.
    """
    unnoticed = {} if plan is None else kept_unnoticed(layout, plan, history, kept_alive, now)
    judged_at = plan.created_at if plan is not None and judged else None
    idle: dict[str, float] = {}
    if plan is not None:
        idle, groups = least_idle_times(plan), [(group.group_id, group.group_type) for group in plan.decided]
        by_edit = idle_times_by_edit(plan, policy, groups)
        idle = {id_: max(idle[id_], seconds) for (id_, _), seconds in zip(groups, by_edit, strict=True)}
    before = exclusions(history, request_id, now=now, judged_at=judged_at, min_idle_seconds=idle)
    return unnoticed | spare(kept_alive, now, judged_at or now, idle) | before
