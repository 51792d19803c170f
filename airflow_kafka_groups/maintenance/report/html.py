"""The report of a plan and its runs: one HTML file without external assets.

Everything from the cluster is escaped, because a group id can be any string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from airflow_kafka_groups.contracts.paths import REPORTS
from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.plan.plan_rows import PlannedGroups
from airflow_kafka_groups.maintenance.report.forecast import forecast_columns, lag_cell
from airflow_kafka_groups.maintenance.report.merging import KEPT_BEFORE_RECHECK, merge_outcomes, verified_gone
from airflow_kafka_groups.maintenance.report.parts import (
    SHOWN,
    counted,
    duration,
    group_name,
    link,
    pill,
    section,
    shown_time,
    table,
    text,
)
from airflow_kafka_groups.maintenance.report.policy import families_section, owners_section, policy_section
from airflow_kafka_groups.maintenance.report.style import STYLE
from airflow_kafka_groups.maintenance.snapshot.last_members import LastMembers
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, write_file

HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="generator" content="airflow-kafka-groups">'
)
"""The beginning of every report, by which a report is recognized."""

_ORDER = [Outcome.UNKNOWN, Outcome.FAILED, Outcome.KEPT, Outcome.GONE]


def render_report(
    plan: DeletionPlan,
    records: Sequence[Mapping[str, Any]] = (),
    *,
    files: Mapping[str, str] | None = None,
    last: Mapping[str, LastMembers] | None = None,
    now: datetime,
) -> str:
    """Render the page.

    :param plan: the plan.
    :param records: the audit records of its runs, oldest first. Dry runs count only if there is no other run.
    :param files: names and places of files for the reader.
    :param last: the members that groups were last seen with. Default: not known.
    :param now: the time of rendering.
    """
    real = [record for record in records if not record["dry_run"]]
    used = real or list(records)
    outcomes = merge_outcomes(used)
    verified = len(verified_gone(used))
    found = [record["verification"] for record in used if record["verification"]]
    present = {group_id: state for item in found for group_id, state in item["present"].items()}
    body = [
        _header(plan, used, now),
        _banners(plan, used, dry_run=not real, present=present),
        _headline(plan, outcomes, verified),
        families_section(plan),
        owners_section(plan),
        _not_done(plan, outcomes, dry_run=not real),
        _done(plan, outcomes, last or {}),
        _kept_by_plan(plan),
        policy_section(plan),
        _runs(used),
        _files(files or {}),
        _restore(plan)
        if any(item["outcome"] in (Outcome.DELETED, Outcome.UNKNOWN) for item in outcomes.values())
        else "",
    ]
    title = escape(f"Consumer groups of {plan.cluster}")
    return (
        f'{HEAD}<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def write_report(layout: Layout, plan_id: str, html: str) -> StoragePath:
    """Write the page, replacing an older one."""
    path = layout.report(plan_id)
    return write_file(layout.root / REPORTS, path.name, html.encode("utf-8", "replace"))


def _header(plan: DeletionPlan, records: Sequence[Mapping[str, Any]], now: datetime) -> str:
    finished = records[-1]["finished_at"] if records else None
    parts = [
        f"plan <code>{escape(plan.plan_id)}</code> of {shown_time(plan.created_at)}",
        f"Kafka cluster <code>{escape(plan.kafka_cluster_id)}</code>",
        f"last run {shown_time(datetime.fromisoformat(finished))}" if finished else "not run yet",
        f"page made {shown_time(now)}",
    ]
    return f"<header><h1>Consumer groups of {text(plan.cluster)}</h1><p>{' · '.join(parts)}</p></header>"


def _banners(
    plan: DeletionPlan, records: Sequence[Mapping[str, Any]], *, dry_run: bool, present: Mapping[str, str]
) -> str:
    banners = []
    if not records:
        banners.append(("plain", "Nothing was deleted: this plan has not been applied."))
    elif dry_run:
        banners.append(("dry", "Dry run: all checks were made, nothing was deleted."))
    if present:
        shown = ", ".join(f"{group_name(group_id)} ({text(state)})" for group_id, state in list(present.items())[:5])
        banners.append(("bad", f"{len(present)} group(s) that should be gone still exist: {shown}"))
    warnings = [*plan.warnings, *(warning for record in records for warning in record["warnings"])]
    banners += [("warn", text(warning)) for warning in dict.fromkeys(warnings)]
    return "".join(f'<p class="banner {kind}">{text}</p>' for kind, text in banners)


def _headline(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], verified: int) -> str:
    found = Counter(item["outcome"] for item in outcomes.values())
    codes = Counter(item["code"] for item in outcomes.values() if item["outcome"] == Outcome.KEPT)
    counts = plan.counts
    numbers = [
        ("Found", counts.get("found", 0), ""),
        ("Live", counts.get("live", 0), ""),
        ("Moving", counts.get("moving", 0), ""),
        ("Settling", counts.get("settling", 0), ""),
        ("Stale", counts.get("stale", 0), ""),
        ("Protected", counts.get("protected", 0) + counts.get("excluded", 0), ""),
        ("Planned", len(plan.groups), ""),
    ]
    if found[Outcome.WOULD_DELETE]:
        numbers.append(("Would be deleted", found[Outcome.WOULD_DELETE], "good"))
    numbers += [
        ("Deleted", found[Outcome.DELETED], "good"),
        ("Verified gone", verified, "good"),
        *[(name, codes[code], "") for code, name in KEPT_BEFORE_RECHECK.items() if codes[code]],
        ("Kept by the recheck", codes.total() - sum(codes[code] for code in KEPT_BEFORE_RECHECK), ""),
        ("Failed or unknown", found[Outcome.FAILED] + found[Outcome.UNKNOWN], "bad"),
    ]
    cards = "".join(
        f'<div class="card {kind if value else ""}"><b>{value:,}</b><span>{escape(name)}</span></div>'
        for name, value, kind in numbers
    )
    return f'<section class="cards">{cards}</section>'


def _done(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], last: Mapping[str, LastMembers]) -> str:
    wanted = (Outcome.DELETED, Outcome.WOULD_DELETE)
    if not outcomes:
        return _groups_table("Planned", plan.planned, last)
    done = [n for n, id_ in enumerate(plan.group_ids) if outcomes.get(id_, {}).get("outcome") in wanted]
    dry = any(item["outcome"] == Outcome.WOULD_DELETE for item in outcomes.values())
    return _groups_table("Would be deleted" if dry else "Deleted", plan.planned.take(done), last)


def _groups_table(title: str, groups: PlannedGroups, last: Mapping[str, LastMembers]) -> str:
    shown = groups[:SHOWN]
    who = [last[group.group_id].sentence() if group.group_id in last else "-" for group in shown] if last else []
    told, cells = forecast_columns(shown)
    rows = [
        [
            group_name(group.group_id),
            text(group.group_type),
            f"{group.partitions:,}",
            lag_cell(group),
            *forecast,
            duration(group.idle_seconds),
            text(group.reason),
        ]
        for group, forecast in zip(shown, cells, strict=True)
    ]
    partitions, lag = groups.total("partitions"), groups.total("lag")
    note = f"{partitions:,} committed offsets, {lag:,} records unread" if groups else ""
    heads = ["Group", "Type", "Partitions", "Lag", *told, "Idle", "Why"]
    numeric = range(2, len(heads) - 1)
    if who:
        heads, rows = (
            [*heads, "Last members"],
            [[*row, f"<bdi>{text(of)}</bdi>"] for row, of in zip(rows, who, strict=True)],
        )
    return section(title, len(groups), table(heads, rows, numeric=numeric), note, "No group.")


def _not_done(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], *, dry_run: bool) -> str:
    if not outcomes:
        return ""
    items = [item for item in outcomes.values() if item["outcome"] in _ORDER]
    unasked = [group_id for group_id in plan.group_ids if group_id not in outcomes]
    items.sort(key=lambda item: (_ORDER.index(Outcome(item["outcome"])), item["code"], item["group_id"]))
    rows = [[group_name(item["group_id"]), pill(item["outcome"]), text(item["reason"])] for item in items]
    rows += [[group_name(group_id), pill("kept"), "the run did not reach it"] for group_id in unasked]
    codes = Counter(f"{item['outcome']}: {item['code'].replace('_', ' ')}" for item in items)
    shown_table = table(["Group", "Outcome", "Why"], rows[:SHOWN])
    title = "Planned but would be kept" if dry_run else "Planned but not deleted"
    everything = "Every planned group would be deleted." if dry_run else "Every planned group was deleted."
    return section(title, len(rows), shown_table, counted(codes), everything)


def _kept_by_plan(plan: DeletionPlan) -> str:
    verdicts = plan.all_kept.column("verdict")
    by_verdict = Counter(verdicts)
    # Groups kept by a decision come first: a live group needs no explanation.
    order = ["over_cap", "doubt", "excluded", "protected", "unreadable", "no_offsets", "settling", "moving"]
    places = {name: place for place, name in enumerate(order)}
    # They are sorted by id already, and sorting keeps that order.
    numbers = sorted(range(len(verdicts)), key=lambda number: places.get(verdicts[number], len(order)))
    kept = plan.all_kept.take(numbers[:SHOWN])
    rows = [[group_name(group.group_id), pill(group.verdict), text(group.reason)] for group in kept]
    shown_table = table(["Group", "Verdict", "Why"], rows)
    return section("Kept by the plan", len(verdicts), shown_table, counted(by_verdict), "No group.")


def _runs(records: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for record in records:
        actor = ", ".join(f"{text(key)} {group_name(value)}" for key, value in record["actor"].items())
        counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in record["counts"].items() if count)
        rows.append(
            [
                f"<code>{escape(record['run_id'])}</code>",
                "dry run" if record["dry_run"] else "deletion",
                shown_time(datetime.fromisoformat(record["started_at"])),
                f"{record['seconds']:g} s",
                text(counts or "nothing to do"),
                actor or "-",
                _lease(record.get("lease")),
            ]
        )
    heads = ["Run", "Kind", "Started", "Took", "Outcomes", "By", "Lease"]
    return section("Runs", len(rows), table(heads, rows, numeric=(3,)), "", "This plan has not been applied.")


def _lease(lease: Mapping[str, Any] | None) -> str:
    if lease is None:
        return "-"
    held = f"{group_name(lease['group_id'])}, generation {', '.join(map(str, lease['generations']))}"
    return f"{held}, lost: {text(lease['lost'])}" if lease["lost"] else held


def _files(files: Mapping[str, str]) -> str:
    rows = [[text(name), link(place)] for name, place in files.items()]
    return section("Files", None, table(["What", "Where"], rows), "", "") if rows else ""


def _restore(plan: DeletionPlan) -> str:
    conf = escape(f'{{"plan_id": "{plan.plan_id}", "dry_run": false}}')
    text = f"To restore the deleted groups, trigger the DAG restore_group_offsets with <code>{conf}</code>."
    return f"<section><h2>Restore</h2><p>{text}</p></section>"
