"""The tables of a plan's groups: what was deleted, kept and why, with the forecasts that the Spark job made.

A forecast column without a value is omitted, e.g. for verdicts of a job that made no forecasts.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup, PlannedGroups
from airflow_kafka_groups.observe.snapshot.members import LastMembers
from airflow_kafka_groups.report.merging import KEPT_IN_ORDER, NOT_REACHED
from airflow_kafka_groups.report.page import SHOWN, counted, part

_COLUMNS = {
    "lag_trend": "Lag a day",
    "lost": "Lost unread",
    "offsets_expire_by": "Offsets expire by",
    "data_loss_not_before": "Unread safe until",
}


def forecast_columns(groups: Sequence[PlannedGroup]) -> tuple[list[str], list[list[str]]]:
    """Return the column heads, and the cells of each group."""
    told = [name for name in _COLUMNS if any(getattr(group, name) is not None for group in groups)]
    cells = [[_shown(getattr(group, name), signed=name == "lag_trend") for name in told] for group in groups]
    return [_COLUMNS[name] for name in told], cells


def lag_cell(group: PlannedGroup) -> str:
    """Return a group's lag, with "at least" if some of its log ends are unknown."""
    if group.lag is None:
        return "-"
    return f"at least {group.lag:,}" if group.lag_unknown else f"{group.lag:,}"


def _shown(value: Any, *, signed: bool) -> str:
    if isinstance(value, datetime):
        return part("minute", value.astimezone(UTC))
    if value is None:
        return "-"
    number = round(value)
    return f"{number:+,}" if signed and number else f"{number:,}"


_ORDER = [Outcome.UNKNOWN, Outcome.FAILED, Outcome.KEPT, Outcome.GONE]


def done_section(
    plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], last: Mapping[str, LastMembers], *, dry_run: bool
) -> Markup:
    """Return the groups that were deleted, or would be; before a run the planned ones."""
    wanted = (Outcome.DELETED, Outcome.WOULD_DELETE)
    if not outcomes:
        return _groups_table("Planned", plan.planned, last)
    done = [n for n, id_ in enumerate(plan.group_ids) if outcomes.get(id_, {}).get("outcome") in wanted]
    return _groups_table("Would be deleted" if dry_run else "Deleted", plan.planned.take(done), last)


def _groups_table(title: str, groups: PlannedGroups, last: Mapping[str, LastMembers]) -> Markup:
    shown = groups[:SHOWN]
    heads, cells = forecast_columns(shown)
    members = [last[group.group_id].sentence() if group.group_id in last else None for group in shown]
    rows = by_reason(zip(shown, map(lag_cell, shown), cells, members, strict=True), [g.reason for g in shown])
    note = f"{groups.total('partitions'):,} committed offsets, {_unread(groups)}" if groups else ""
    return part("groups", title, rows, heads, bool(last), len(groups), note)


def _unread(groups: PlannedGroups) -> str:
    unknown = groups.column("lag").count(None)
    if unknown == len(groups):
        return "unread records not known"
    known = f"{groups.total('lag'):,} records unread"
    return known + (f", not known of {unknown:,} group(s)" if unknown else "")


def not_done_section(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], *, dry_run: bool) -> Markup:
    """Return the planned groups that were not deleted, and why."""
    if not outcomes:
        return Markup()
    items = [item for item in outcomes.values() if item["outcome"] in _ORDER]
    unasked = [group_id for group_id in plan.group_ids if group_id not in outcomes]
    items.sort(key=lambda item: (_ORDER.index(Outcome(item["outcome"])), item["code"], item["group_id"]))
    rows = [(item["group_id"], item["outcome"]) for item in items[:SHOWN]]
    rows += [(group_id, "kept") for group_id in unasked[: SHOWN - len(rows)]]
    reasons = [item["reason"] for item in items[:SHOWN]] + [NOT_REACHED] * (len(rows) - len(items[:SHOWN]))
    codes = Counter(f"{item['outcome']}: {item['code'].replace('_', ' ')}" for item in items)
    codes += Counter({"kept: not reached": len(unasked)})
    return part("not_done", by_reason(rows, reasons), len(items) + len(unasked), counted(codes), dry_run)


def kept_section(plan: DeletionPlan) -> Markup:
    """Return the groups that the plan keeps. The page's script makes it a table of all groups."""
    verdicts = plan.all_kept.column("verdict")
    # Groups kept by a decision come first: a live group needs no explanation.
    places = {name: place for place, name in enumerate(KEPT_IN_ORDER)}
    # They are sorted by id already, and sorting keeps that order.
    numbers = sorted(range(len(verdicts)), key=lambda number: places.get(verdicts[number], len(places)))
    shown = list(plan.all_kept.take(numbers[:SHOWN]))
    rows = by_reason(shown, [group.reason for group in shown])
    return part("kept", rows, len(verdicts), counted(Counter(verdicts)))


def by_reason(rows: Iterable[Any], reasons: Iterable[str]) -> list[tuple[str, list[tuple[Any, str]]]]:
    """Group rows by what their reasons have in common, in the order in which these first appear.

    The first clause of a reason with several is about the group alone, such as "idle for 9.0 days (4 snapshots)": it
    stays with the row.
    """
    found: dict[str, list[tuple[Any, str]]] = {}
    for row, reason in zip(rows, reasons, strict=True):
        own, several, common = reason.partition("; ")
        found.setdefault(common if several else reason, []).append((row, own if several else ""))
    return list(found.items())


def restore_command(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, Any]], storage: str) -> str:
    """Return the command that restores the deleted groups; empty if none was deleted.

    :param storage: the folder above all clusters; left out where it is not known.
    """
    if not any(item["outcome"] in (Outcome.DELETED, Outcome.UNKNOWN) for item in outcomes.values()):
        return ""
    return restore_line(plan.plan_id, plan.cluster, storage)


def restore_line(plan_id: str, cluster: str, storage: str) -> str:
    """Return the command that restores what was deleted by a plan.

    :param storage: the folder above all clusters; left out where it is not known.
    """
    words = ["airflow-kafka-groups", "restore", "--conn-id", "CONNECTION", "--cluster", cluster]
    words += ["--storage-path", storage] if storage else []
    return shlex.join([*words, "--yes", plan_id])  # group ids have to follow the plan at once


def restore_section(plan: DeletionPlan, command: str) -> Markup:
    """Return how the deleted groups are restored; nothing without a command."""
    return part("restore", plan.plan_id, command) if command else Markup()
