"""The report of a plan and its runs: one HTML file without external assets.

Everything from the cluster is escaped, because a group id can be any string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from airflow_kafka_groups.contracts.evidence import recorded_sentence
from airflow_kafka_groups.contracts.paths import REPORTS
from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.plan.plan_rows import PlannedGroups
from airflow_kafka_groups.maintenance.report.forecast import forecast_columns, lag_cell
from airflow_kafka_groups.maintenance.report.merging import KEPT_BEFORE_RECHECK, merge_outcomes, verified_gone
from airflow_kafka_groups.maintenance.report.shown import shortened
from airflow_kafka_groups.maintenance.report.style import STYLE
from airflow_kafka_groups.maintenance.snapshot.last_members import LastMembers
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, write_file

SHOWN = 200
"""The maximum number of table rows; the others are counted and are in the files."""
_LONGEST_TEXT = 1_000

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
        _not_done(plan, outcomes, dry_run=not real),
        _done(plan, outcomes, last or {}),
        _kept_by_plan(plan),
        _policy(plan),
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
        f"plan <code>{escape(plan.plan_id)}</code> of {_time(plan.created_at)}",
        f"Kafka cluster <code>{escape(plan.kafka_cluster_id)}</code>",
        f"last run {_time(datetime.fromisoformat(finished))}" if finished else "not run yet",
        f"page made {_time(now)}",
    ]
    return f"<header><h1>Consumer groups of {_text(plan.cluster)}</h1><p>{' · '.join(parts)}</p></header>"


def _banners(
    plan: DeletionPlan, records: Sequence[Mapping[str, Any]], *, dry_run: bool, present: Mapping[str, str]
) -> str:
    banners = []
    if not records:
        banners.append(("plain", "Nothing was deleted: this plan has not been applied."))
    elif dry_run:
        banners.append(("dry", "Dry run: all checks were made, nothing was deleted."))
    if present:
        shown = ", ".join(f"{_id(group_id)} ({_text(state)})" for group_id, state in list(present.items())[:5])
        banners.append(("bad", f"{len(present)} group(s) that should be gone still exist: {shown}"))
    warnings = [*plan.warnings, *(warning for record in records for warning in record["warnings"])]
    banners += [("warn", _text(warning)) for warning in dict.fromkeys(warnings)]
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
            _id(group.group_id),
            _text(group.group_type),
            f"{group.partitions:,}",
            lag_cell(group),
            *forecast,
            _duration(group.idle_seconds),
            _text(group.reason),
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
            [[*row, f"<bdi>{_text(of)}</bdi>"] for row, of in zip(rows, who, strict=True)],
        )
    return _section(title, len(groups), _table(heads, rows, numeric=numeric), note, "No group.")


def _not_done(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], *, dry_run: bool) -> str:
    if not outcomes:
        return ""
    items = [item for item in outcomes.values() if item["outcome"] in _ORDER]
    unasked = [group_id for group_id in plan.group_ids if group_id not in outcomes]
    items.sort(key=lambda item: (_ORDER.index(Outcome(item["outcome"])), item["code"], item["group_id"]))
    rows = [[_id(item["group_id"]), _pill(item["outcome"]), _text(item["reason"])] for item in items]
    rows += [[_id(group_id), _pill("kept"), "the run did not reach it"] for group_id in unasked]
    codes = Counter(f"{item['outcome']}: {item['code'].replace('_', ' ')}" for item in items)
    table = _table(["Group", "Outcome", "Why"], rows[:SHOWN])
    title = "Planned but would be kept" if dry_run else "Planned but not deleted"
    everything = "Every planned group would be deleted." if dry_run else "Every planned group was deleted."
    return _section(title, len(rows), table, _counted(codes), everything)


def _kept_by_plan(plan: DeletionPlan) -> str:
    verdicts = plan.all_kept.column("verdict")
    by_verdict = Counter(verdicts)
    # Groups kept by a decision come first: a live group needs no explanation.
    order = ["over_cap", "doubt", "excluded", "protected", "unreadable", "no_offsets", "settling", "moving"]
    places = {name: place for place, name in enumerate(order)}
    # They are sorted by id already, and sorting keeps that order.
    numbers = sorted(range(len(verdicts)), key=lambda number: places.get(verdicts[number], len(order)))
    kept = plan.all_kept.take(numbers[:SHOWN])
    rows = [[_id(group.group_id), _pill(group.verdict), _text(group.reason)] for group in kept]
    table = _table(["Group", "Verdict", "Why"], rows)
    return _section("Kept by the plan", len(verdicts), table, _counted(by_verdict), "No group.")


def _policy(plan: DeletionPlan) -> str:
    rows = []
    for name, value in plan.policy.to_json().items():
        shown = " ".join(_id(item) for item in value) or "none" if isinstance(value, list) else f"{value:,.10g}"
        shown += f" ({_duration(value)})" if name.endswith("_seconds") else ""
        rows.append([f"<code>{escape(name)}</code>", shown])
    rows.append(["evidence", _text(recorded_sentence(plan.evidence))])
    rows.append(["snapshot", f"<code>{escape(plan.snapshot_id)}</code>"])
    rows.append(["bound to", _text(plan.view or "the cluster's id alone")])
    rows.append(["usable until", _time(plan.expires_at)])
    rows.append(["digest", f"<code>{plan.digest}</code>"])
    return _section("Policy", None, _table(["Setting", "Value"], rows), "", "")


def _runs(records: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for record in records:
        actor = ", ".join(f"{_text(key)} {_id(value)}" for key, value in record["actor"].items())
        counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in record["counts"].items() if count)
        rows.append(
            [
                f"<code>{escape(record['run_id'])}</code>",
                "dry run" if record["dry_run"] else "deletion",
                _time(datetime.fromisoformat(record["started_at"])),
                f"{record['seconds']:g} s",
                _text(counts or "nothing to do"),
                actor or "-",
                _lease(record.get("lease")),
            ]
        )
    heads = ["Run", "Kind", "Started", "Took", "Outcomes", "By", "Lease"]
    return _section("Runs", len(rows), _table(heads, rows, numeric=(3,)), "", "This plan has not been applied.")


def _lease(lease: Mapping[str, Any] | None) -> str:
    if lease is None:
        return "-"
    held = f"{_id(lease['group_id'])}, generation {', '.join(map(str, lease['generations']))}"
    return f"{held}, lost: {_text(lease['lost'])}" if lease["lost"] else held


def _files(files: Mapping[str, str]) -> str:
    rows = [[_text(name), _link(place)] for name, place in files.items()]
    return _section("Files", None, _table(["What", "Where"], rows), "", "") if rows else ""


def _restore(plan: DeletionPlan) -> str:
    conf = escape(f'{{"plan_id": "{plan.plan_id}", "dry_run": false}}')
    text = f"To restore the deleted groups, trigger the DAG restore_group_offsets with <code>{conf}</code>."
    return f"<section><h2>Restore</h2><p>{text}</p></section>"


def _section(title: str, count: int | None, table: str, note: str, nothing: str) -> str:
    number = "" if count is None else f' <span class="count">{count:,}</span>'
    more = f'<p class="more">The first {SHOWN} are shown; all are in the files.</p>' if (count or 0) > SHOWN else ""
    content = f'<p class="none">{escape(nothing)}</p>' if count == 0 else f"{table}{more}"
    below = f'<p class="note">{_text(note)}</p>' if note and count != 0 else ""
    return f"<section><h2>{escape(title)}{number}</h2>{below}{content}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    kinds = ["num" if place in numeric else "" for place in range(len(heads))]
    head = "".join(
        f'<th class="{kind}" scope="col">{escape(name)}</th>' for name, kind in zip(heads, kinds, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in sorted(counts.items()))


def _text(value: object) -> str:
    return escape(shortened(str(value), _LONGEST_TEXT))


def _id(value: str) -> str:
    # bdi: an id with right-to-left characters must not reorder the text around it
    return f"<code><bdi>{escape(shortened(value)) or '(empty id)'}</bdi></code>"


def _pill(value: str) -> str:
    return f'<span class="pill {escape(value)}">{escape(value.replace("_", " "))}</span>'


def _link(place: str) -> str:
    if place.startswith(("https://", "http://", "file://")):
        return f'<a href="{escape(place)}">{escape(place)}</a>'
    return f"<code>{escape(place)}</code>"


def _time(value: datetime) -> str:
    return f'<time datetime="{value.isoformat()}">{value:%Y-%m-%d %H:%M:%S %Z}</time>'


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for below, unit, name in ((120.0, 1.0, "s"), (7_200.0, 60.0, "min"), (172_800.0, 3_600.0, "h")):
        if seconds < below:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.1f} days"
