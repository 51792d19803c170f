"""The marks of groups that wait for a notice, by the log of their cluster, and what a plan changes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_kafka_groups.judge.policy.notice import Notice, is_of_this_idle_time
from airflow_kafka_groups.judge.policy.rules import Rule, RuleFacts, RulesBefore
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.models import GroupType
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.observe.cluster_log import EntryKind
from airflow_kafka_groups.storage.formats import plain
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import is_id, time_of

_STALE = frozenset(name.value for name in KeptName)


def noted_by(ledger: Ledger, plan_id: str) -> list[Mapping[str, Any]]:
    """Return the entries of marks and notices of one plan, newest first. Raises as ``Ledger.notices``."""
    return [entry.data for entry in reversed(ledger.of_plan(plan_id, [EntryKind.NOTICES]))]


def note(ledger: Ledger, plan_id: str, marks: Mapping[str, Notice | None], at: datetime, **facts: Any) -> None:
    """Add an entry of marks to the log, durably. ``Ledger.notices`` must have been asked last.

    :param marks: those that changed; ``None`` for a group that has none any more.
    :param facts: whatever else is to be known of it later.

    Raises ``JournalError`` when somebody else has written marks meanwhile, and ``StorageError``.
    """
    about = {"kind": EntryKind.NOTICES, "at": at.isoformat(), "folder": ledger.layout.cluster, "plan_id": plan_id}
    changed = {group_id: mark if mark is None else plain(mark) for group_id, mark in marks.items()}
    ledger.append({**about, **facts, "marks": changed}, lambda records: records.noted)


def read_notices(layout: Layout, kafka_cluster_id: str | None, rules: Iterable[Rule]) -> dict[str, Notice]:
    """Return all marks of a cluster, by group; none are read for a policy without a file, or that deletes nothing.

    A policy whose rules demand no notice any more reads them, too: what messages said holds.

    Raises ``JournalError`` and ``StorageError``.
    """
    deleting = [rule for rule in rules if rule.deletes]
    if not deleting or not (kafka_cluster_id or any(rule.notice_seconds for rule in deleting)):
        return {}
    return Ledger(layout, kafka_cluster_id).notices()


def marked(notices: Mapping[str, Notice], plan: DeletionPlan, *, of_all_groups: bool) -> dict[str, Notice]:
    """Return the marks after a plan: its groups that wait for a notice get one, and groups that live lose theirs.

    :param plan: the plan. Its snapshot's time is that of new marks, by the same clock as every later sign of life.
    :param of_all_groups: whether a group that the plan does not name is gone, and its mark with it.
    """
    at = time_of(plan.snapshot_id) if is_id(plan.snapshot_id) else plan.created_at
    stale, rules = set(plan.group_ids), plan.policy.rules_before()
    found: dict[str, Notice] = {}
    for group in plan.kept:
        if group.verdict in _STALE or (group.verdict == VerdictName.SETTLING and _is_told(notices.get(group.group_id))):
            stale.add(group.group_id)  # settling is no sign of life: by now, a longer idle time may be demanded
        if group.verdict != KeptName.NOTICE or group.fingerprint is None or group.idle_since is None:
            continue
        before = notices.get(group.group_id)
        if before is None or not is_of_this_idle_time(before, group.fingerprint, group.idle_since):
            before = Notice(fingerprint=group.fingerprint, marked_at=at)
        elif not notice_of(group, rules):  # it only waits for the end of what the message said, to whomever
            found[group.group_id] = before
            continue
        if before.owner != group.owner or before.contact != plan.policy.contact_of(group.owner):
            before = replace(before, contact=None)  # what the last message said holds until the next one
        found[group.group_id] = replace(before, owner=group.owner)
    if not of_all_groups:
        stale |= notices.keys() - {group.group_id for group in plan.kept}
    others = {group_id: notice for group_id, notice in notices.items() if group_id in stale}
    return {**others, **found}


def notice_of(group: KeptGroup, rules: RulesBefore) -> float:
    """Return the notice period of a kept group in seconds, 0 for none: the longest of the rules that may match it."""
    kind = group.group_type or GroupType.UNKNOWN.value  # in doubt, the longest period that may hold
    return rules.most(RuleFacts(group.group_id, kind, group.owner, rule=group.rule), lambda rule: rule.notice_seconds)


def _is_told(notice: Notice | None) -> bool:
    return notice is not None and notice.notified_at is not None
