"""The sections of a report: what was deleted, kept and why, families, owners, the policy, keep-alive runs, prunings.

A column of the forecasts that the Spark job makes is omitted where no group has a value. The page's script makes the
table of all groups, from JSON of bounded size.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from markupsafe import Markup

from airflow_kafka_groups.judge.broker_clock import MARGIN_SHARE
from airflow_kafka_groups.judge.evidence import recorded_sentence
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup, PlannedGroups, PlanRows
from airflow_kafka_groups.observe.snapshot.members import LastMembers
from airflow_kafka_groups.report.facts import KEPT_IN_ORDER, NOT_REACHED, PRUNED_DAYS, KeepAliveRuns, Pruning
from airflow_kafka_groups.report.page import SHOWN, counted, duration, part, words_of
from airflow_kafka_groups.shown import MOST, shortened
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.formats import plain

MOST_ROWS = 20_000
"""Of the table of all groups."""
MOST_BYTES = 4_000_000
"""Whatever the ids are: those that contain the longest are simply fewer."""

_FIRST = [Outcome.UNKNOWN, Outcome.FAILED, Outcome.KEPT, Outcome.GONE, Outcome.DELETED, Outcome.WOULD_DELETE, "planned"]
_PLACES = {str(name): place for place, name in enumerate([*_FIRST, *KEPT_IN_ORDER])}
_RESTORABLE = (Outcome.DELETED, Outcome.UNKNOWN)
_FIGURES = ("lag", "idle_seconds", "expires_at")
_NOT_DONE: list[str] = [Outcome.UNKNOWN, Outcome.FAILED, Outcome.KEPT, Outcome.GONE]
_SOON = timedelta(days=7)
_FORECASTS = ("late", "not kept alive yet", "due", "safe", "in use", "not in the snapshot")
_FORECAST_COLOURS = {"late": "failed", "not kept alive yet": "over_cap", "due": "over_cap"}
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
    items = [item for item in outcomes.values() if item["outcome"] in _NOT_DONE]
    unasked = [group_id for group_id in plan.group_ids if group_id not in outcomes]
    items.sort(key=lambda item: (_NOT_DONE.index(item["outcome"]), item["code"], item["group_id"]))
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


def families_section(plan: DeletionPlan) -> Markup:
    """Return the families of groups in the order of the plan; nothing where there are none."""
    if not plan.families:
        return Markup()
    every = plan.planned_by_family  # the header has the first ones only
    note = f"{sum(every.values()):,} of {len(plan.groups):,} planned groups" if plan.groups else "No group is planned"
    return part("families", plan.families[:SHOWN], len(every), note)


def owners_section(plan: DeletionPlan) -> Markup:
    """Return how many groups each owner has in the plan; nothing where no owner is known."""
    planned, kept = Counter(plan.planned.column("owner")), Counter(plan.all_kept.column("owner"))
    owners = sorted({*planned, *kept} - {None}, key=lambda owner: (-planned[owner], owner))
    if not owners:
        return Markup()
    rows = [(owner, planned[owner], kept[owner], plan.policy.contact_of(owner)) for owner in owners[:SHOWN]]
    note = f"{planned[None]:,} planned groups have no known owner" if planned[None] else ""
    return part("owners", rows, len(owners), note)


def policy_section(plan: DeletionPlan) -> Markup:
    """Return the limits of the plan, and the rules of its policy file."""
    return part("policy", plan, _limits(plan), recorded_sentence(plan.evidence)) + _rules_section(plan)


def _limits(plan: DeletionPlan) -> dict[str, Any]:
    own = ("file", "rules", "contacts", "notify")  # shown elsewhere, or not at all
    limits = {name: value for name, value in plain(plan.policy).items() if name not in own}
    # One that demands nothing is 0 or null.
    return {name: value for name, value in limits.items() if name == "allow_hidden_topics" or value not in (None, 0)}


def _rules_section(plan: DeletionPlan) -> Markup:
    if not plan.policy.rules:
        return Markup()
    planned, kept = Counter(plan.planned.column("rule")), Counter(plan.all_kept.column("rule"))
    shown = plan.policy.rules[:SHOWN]
    rows = [(rule, _demands(rule), planned[rule.name], kept[rule.name]) for rule in shown]
    return part("rules", rows, len(plan.policy.rules))


def _demands(rule: Rule) -> str:
    growth = rule.max_growth_per_day
    told = [] if growth is None else [f"at most {growth:g} new groups a day in a family, or a warning"]
    if not rule.deletes:
        return ", ".join(told) or "-"
    parts = [f"idle for {duration(rule.min_idle_seconds)} in {rule.min_observations} snapshots", *told]
    parts += [f"notice of {duration(rule.notice_seconds)}"] if rule.notice_seconds else []
    parts += ["an approval"] if rule.approval else []
    parts += [f"at most {rule.max_groups:,} groups"] if rule.max_groups is not None else []
    parts += [f"at most {rule.max_share * 100:.10g}% of all groups"] if rule.max_share is not None else []
    return ", ".join(parts)


class Forecast(NamedTuple):
    """Until when brokers remember a group that is kept alive: one of a keep-alive run, or of a rule ``keep-alive``.

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


def forecast(plan: DeletionPlan, runs: KeepAliveRuns, now: datetime) -> list[Forecast]:
    """Return the groups that are kept alive, those in danger first."""
    rules = {rule.name for rule in plan.policy.rules if rule.action is RuleAction.KEEP_ALIVE}
    rows = zip(*map(plan.all_kept.column, ("group_id", "verdict", "rule", "owner")), strict=True)
    kept = [row for row in rows if row[0] in runs.meant or row[2] in rules]
    gone = runs.meant.keys() - {group_id for group_id, *_ in kept} - set(plan.group_ids)
    found = [_forecast(runs, now, *row) for row in kept]
    found += [_forecast(runs, now, group_id, None, None, None) for group_id in gone]
    return sorted(found, key=lambda each: (_FORECASTS.index(each.status), each.until or now, each.group_id))


def _forecast(
    runs: KeepAliveRuns, now: datetime, group_id: str, verdict: str | None, rule: str | None, owner: str | None
) -> Forecast:
    meant, kept_at = runs.meant.get(group_id), runs.verified.get(group_id)
    until = due_at = None
    if meant is None or kept_at is None:  # an interrupted run proves nothing
        kept_at, status = None, "not kept alive yet"
    else:
        retention = min(filter(None, (meant.lasts, runs.retention)))  # it may have been shortened since
        until = kept_at + retention
        due_at = until - retention / MARGIN_SHARE
        status = "late" if until <= now else "due" if due_at <= now else "safe"
    if verdict is None:
        return Forecast(group_id, "not in the snapshot", kept_at, until, None, rule, owner)
    status = "in use" if verdict == VerdictName.LIVE else status
    return Forecast(group_id, status, kept_at, until, due_at, rule, owner)


def keep_alive_section(plan: DeletionPlan, runs: KeepAliveRuns, now: datetime) -> Markup:
    """Return the section; nothing where no group is kept alive."""
    groups = forecast(plan, runs, now)
    if not groups:
        return Markup()
    counts = Counter(each.status for each in groups)
    soon = sum(each.status == "safe" and each.due_at is not None and each.due_at <= now + _SOON for each in groups)
    note = ", ".join(f"{counts[status]:,} {status}" for status in _FORECASTS if counts[status])
    ahead = f"{note}; {soon:,} more are due within 7 days"
    return part("kept_alive", groups[:SHOWN], len(groups), ahead, _FORECAST_COLOURS)


def pruned_section(found: Sequence[Pruning], cluster: str, storage: str) -> Markup:
    """Return the topics that were pruned and the command for each plan; nothing where there are none."""
    if not found:
        return Markup()
    rows = [(pruning, topic) for pruning in found for topic in pruning.topics]
    commands = [restore_line(pruning.plan_id, cluster, storage) for pruning in found]
    note = f"Offsets that live groups no longer read, deleted in the last {PRUNED_DAYS} days"
    return part("pruned", rows[:SHOWN], len(rows), note, commands)


def groups_json(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], judged: Any, restore: str) -> str:
    """Return the groups as JSON without ``<``, those that somebody should look at first.

    :param outcomes: the latest outcome of each planned group.
    :param judged: what the verdicts say, as of ``ReportFacts``.
    :param restore: the command that restores the deleted groups; empty for none.
    """
    rows = list(_rows(plan, outcomes))
    figures = _figures(judged, [group_id for _, group_id, *_ in rows])
    encoded: list[str] = []
    size = 0
    for (status, group_id, *names, reason), numbers in zip(rows, figures, strict=True):
        said = (None if name is None else shortened(name) for name in names)
        line = _encode((shortened(group_id), status, *said, *numbers, shortened(reason), len(group_id) > MOST))
        if (size := size + len(line) + 1) > MOST_BYTES:
            break
        encoded.append(line)
    head = {
        "total": len(plan.planned) + len(plan.all_kept),
        "words": {status: words_of(status) for status in dict.fromkeys(status for status, *_ in rows)},
        "restorable": _RESTORABLE,
        "restore": restore,
    }
    return f'{_encode(head)[:-1]},"rows":[{",".join(encoded)}]}}'


def _rows(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[Any, ...]]:
    """Yield status, id, family, owner and reason of the groups to show, those that somebody should look at first."""
    planned, kept = plan.planned, plan.all_kept
    other = Outcome.KEPT.value if outcomes else "planned"
    statuses = [outcomes[group_id]["outcome"] if group_id in outcomes else other for group_id in plan.group_ids]
    statuses += kept.column("verdict")
    places = [_PLACES.get(status, len(_PLACES)) for status in statuses]
    shown = sorted(range(len(places)), key=places.__getitem__)[:MOST_ROWS]
    of_plan, of_kept = (
        _columns(groups.take([number - first for number in shown if 0 <= number - first < len(groups)]))
        for groups, first in ((planned, 0), (kept, len(planned)))
    )
    for number in shown:
        status = statuses[number]
        group_id, family, owner, reason = next(of_plan if number < len(planned) else of_kept)
        if number < len(planned) and status not in ("planned", Outcome.DELETED, Outcome.WOULD_DELETE):
            reason = outcomes[group_id]["reason"] if group_id in outcomes else NOT_REACHED
        yield status, group_id, family, owner, reason


def _figures(judged: Any, group_ids: list[str]) -> list[tuple[Any, ...]]:
    """Return what the verdicts say of groups; nothing of one that has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if judged is None:
        return [(None,) * len(_FIGURES)] * len(group_ids)
    places = pc.index_in(column(group_ids, pa.string()), value_set=judged["group_id"])
    found = judged.take(places)
    return list(zip(*(found[name].to_pylist() for name in _FIGURES), strict=True))


def _columns(groups: PlanRows[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*map(groups.column, ("group_id", "family", "owner", "reason")), strict=True)


def _encode(value: Any) -> str:
    # A script element ends with "</script", whatever the quotes around it; a comment would begin with "<!--".
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
