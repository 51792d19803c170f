"""The forecast of groups that are kept alive: until when brokers certainly remember them, and when they are due again.

A group is forecast if a keep-alive run was about it, or if a rule of the policy has the action ``keep-alive``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from airflow_kafka_groups.judge.broker_clock import MARGIN_SHARE
from airflow_kafka_groups.judge.policy.rules import RuleAction
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.report.page import SHOWN, part

_SOON = timedelta(days=7)


class KeepAliveRuns(NamedTuple):
    """The recorded keep-alive runs of a cluster.

    :param meant: the groups that runs were about, also interrupted ones.
    :param verified: when the last verified run of a group began.
    :param retention: the brokers' offsets retention as the snapshot found it; ``None`` if it is not known.
    """

    meant: Mapping[str, KeptAlive]
    verified: Mapping[str, datetime]
    retention: timedelta | None = None


NO_KEEP_ALIVE = KeepAliveRuns({}, {})


class Forecast(NamedTuple):
    """One group.

    :param status: ``late``, ``due``, ``safe``, ``in use``, ``not kept alive yet`` or ``not in the snapshot``.
    :param kept_at: when its last verified run began.
    :param until: brokers certainly remember its offsets until then.
    :param due_at: when it is due again.
    """

    group_id: str
    status: str
    kept_at: datetime | None
    until: datetime | None
    due_at: datetime | None
    rule: str | None
    owner: str | None


_ORDER = ("late", "not kept alive yet", "due", "safe", "in use", "not in the snapshot")
_PILLS = {"late": "failed", "not kept alive yet": "over_cap", "due": "over_cap"}


def forecast(plan: DeletionPlan, runs: KeepAliveRuns, now: datetime) -> list[Forecast]:
    """Return the groups that are kept alive, those in danger first."""
    rules = {rule.name for rule in plan.policy.rules if rule.action is RuleAction.KEEP_ALIVE}
    found = list(_forecasts(plan, runs, rules, now))
    return sorted(found, key=lambda each: (_ORDER.index(each.status), each.until or now, each.group_id))


def keep_alive_section(plan: DeletionPlan, runs: KeepAliveRuns, now: datetime) -> Markup:
    """Return the section; nothing where no group is kept alive."""
    groups = forecast(plan, runs, now)
    if not groups:
        return Markup()
    counts = Counter(each.status for each in groups)
    soon = sum(each.due_at is not None and now < each.due_at <= now + _SOON for each in groups if each.status == "safe")
    note = ", ".join(f"{counts[status]:,} {status}" for status in _ORDER if counts[status])
    ahead = f"{note}; {soon:,} more are due within 7 days"
    return part("kept_alive", groups[:SHOWN], len(groups), ahead, _PILLS)


def _forecasts(plan: DeletionPlan, runs: KeepAliveRuns, rules: set[str], now: datetime) -> Iterator[Forecast]:
    names = ("group_id", "verdict", "rule", "owner")
    left = set(runs.meant)
    for group_id, verdict, rule, owner in zip(*(plan.all_kept.column(name) for name in names), strict=True):
        if group_id not in left and rule not in rules:
            continue
        left.discard(group_id)
        kept_at, until, due_at = _times(runs, group_id)
        yield Forecast(group_id, _status(verdict, until, due_at, now), kept_at, until, due_at, rule, owner)
    for group_id in left.difference(plan.group_ids):
        kept_at, until, due_at = _times(runs, group_id)
        yield Forecast(group_id, "not in the snapshot", kept_at, until, None, None, None)


def _times(runs: KeepAliveRuns, group_id: str) -> tuple[datetime | None, datetime | None, datetime | None]:
    meant, kept_at = runs.meant.get(group_id), runs.verified.get(group_id)
    if meant is None or kept_at is None:  # an interrupted run proves nothing
        return None, None, None
    retention = min(filter(None, (meant.lasts, runs.retention)))  # it may have been shortened since
    until = kept_at + retention
    return kept_at, until, until - retention / MARGIN_SHARE


def _status(verdict: str, until: datetime | None, due_at: datetime | None, now: datetime) -> str:
    if verdict == VerdictName.LIVE:
        return "in use"
    if until is None or due_at is None:
        return "not kept alive yet"
    return "late" if until <= now else "due" if due_at <= now else "safe"
