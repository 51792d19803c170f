"""The last check of notices: a group whose rule demands one is not deleted before its owner has had it for long enough.

A plan checks the same. What counts here is the journal at the time of the deletion: not what a plan, an XCom or an
argument says.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from airflow_kafka_groups.judge.policy.notice import why_not_noticed
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.journal.history import DeletionHistory, IdleReset
from airflow_kafka_groups.ledger.notice_book import read_notices
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.storage.layout import Layout


def kept_unnoticed(
    layout: Layout,
    plan: DeletionPlan,
    history: DeletionHistory,
    kept_alive: Mapping[str, KeptAlive],
    now: datetime,
    news: Mapping[str, IdleReset] | None = None,
) -> dict[str, GroupOutcome]:
    """Return the groups of a plan whose owners have not been notified for long enough, with the reason to keep them.

    :param kept_alive: the groups of keep-alive runs; their idle times count from the run.
    :param news: the restarts of idle times by signs of life that the plan does not know. Default: none.

    Raises ``JournalError`` and ``StorageError``: without the marks, nothing is deleted by a plan that needs them.
    """
    rules = plan.policy.rules
    if not any(rule.deletes for rule in rules):
        return {}
    before = plan.policy.rules_before()
    notices, resets = read_notices(layout, plan.kafka_cluster_id, rules), history.idle_resets()
    found: dict[str, GroupOutcome] = {}
    for group in plan.groups:
        signs = [group.idle_since] if group.idle_since is not None else []
        restarts = resets.get(group.group_id), (news or {}).get(group.group_id)
        signs += [reset.at for reset in restarts if reset is not None]
        if (wanted := kept_alive.get(group.group_id)) is not None:
            signs.append(wanted.at)
        why = why_not_noticed(
            notices.get(group.group_id),
            before.most(group.decided, lambda rule: rule.notice_seconds),
            fingerprint=group.fingerprint,
            at=min(now, plan.created_at),  # nobody looked later; and a clock may be ahead
            alive_at=max(signs, default=None),
            owner=group.owner,
            contact=plan.policy.contact_of(group.owner),
        )
        if why is not None:
            found[group.group_id] = kept(group.group_id, Reason.NOT_NOTIFIED, why)
    return found
