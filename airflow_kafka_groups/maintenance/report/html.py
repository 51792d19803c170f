"""The report of a plan and its runs: one HTML file without external assets.

Everything from the cluster is escaped, because a group id can be any string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from airflow_kafka_groups.contracts.paths import TREND_PAGE
from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.report.charts import figures
from airflow_kafka_groups.maintenance.report.explorer.rows import groups_json
from airflow_kafka_groups.maintenance.report.facts import ReportFacts
from airflow_kafka_groups.maintenance.report.groups import (
    done_section,
    kept_section,
    not_done_section,
    restore_command,
    restore_section,
)
from airflow_kafka_groups.maintenance.report.keep_alive import keep_alive_section
from airflow_kafka_groups.maintenance.report.merging import (
    KEPT_WITHOUT_RECHECK,
    merge_outcomes,
    runs_that_count,
    still_present,
    verified_gone,
)
from airflow_kafka_groups.maintenance.report.page import render_page
from airflow_kafka_groups.maintenance.report.parts import (
    banners,
    group_name,
    link,
    section,
    shown_time,
    table,
    text,
)
from airflow_kafka_groups.maintenance.report.policy import families_section, owners_section, policy_section
from airflow_kafka_groups.maintenance.report.pruned import pruned_section
from airflow_kafka_groups.maintenance.snapshot.last_members import LastMembers

TREND_LINK = f'<a href="{TREND_PAGE}">The trend over all runs</a>'
"""The link to the second page, which lies beside the report."""


def render_report(
    plan: DeletionPlan,
    records: Sequence[Mapping[str, Any]] = (),
    *,
    files: Mapping[str, str] | None = None,
    last: Mapping[str, LastMembers] | None = None,
    facts: ReportFacts | None = None,
    now: datetime,
) -> str:
    """Render the page.

    :param records: the audit records of its runs, oldest first. Dry runs count only if there is no other run.
    :param files: names and places of files for the reader.
    :param last: the members that groups were last seen with. Default: not known.
    :param facts: what else is known. Default: nothing.
    """
    known = facts or ReportFacts()
    used, dry_run = runs_that_count(records)
    outcomes = merge_outcomes(used)
    verified = len(verified_gone(used))
    restore = restore_command(plan, outcomes, known.storage)
    body = [
        _header(plan, used, now, trend=bool(known.trend)),
        _banners(plan, used, dry_run=dry_run is True, present=still_present(used), notes=known.notes),
        _headline(plan, outcomes, verified),
        families_section(plan),
        owners_section(plan),
        _charts(plan, known, now),
        keep_alive_section(plan, known.kept_alive, now),
        pruned_section(known.pruned, plan.cluster, known.storage),
        not_done_section(plan, outcomes, dry_run=dry_run is True),
        done_section(plan, outcomes, last or {}, dry_run=dry_run is True),
        restore_section(plan, restore),
        kept_section(plan),
        policy_section(plan),
        _runs(records),
        _files(files or {}),
    ]
    data = groups_json(plan, outcomes, known.judged, restore)
    return render_page(f"Consumer groups of {plan.cluster}", "".join(body), data)


def _charts(plan: DeletionPlan, facts: ReportFacts, now: datetime) -> str:
    planned = set(plan.group_ids)
    shown = [figures.verdicts_over_time(facts.trend)] if facts.trend else []
    shown.append(figures.idle_ages(_idle(plan, facts, planned)))
    if facts.judged:
        judged = facts.judged
        shown.append(figures.expiry_ahead((each.expires_at for each in judged.values()), now))
        shown.append(figures.lag_ahead((id_, each.lag, each.lag_trend) for id_, each in judged.items()))
    if plan.families:
        shown.append(figures.family_growth(plan.families))
    return f'<section><h2>At a glance</h2><div class="charts">{"".join(shown)}</div></section>'


def _idle(plan: DeletionPlan, facts: ReportFacts, planned: set[str]) -> Iterator[tuple[float | None, bool]]:
    """Yield each group's idle time and whether it is planned; without verdicts, of the planned groups only."""
    if not facts.judged:
        yield from ((seconds, True) for seconds in plan.planned.column("idle_seconds"))
    for group_id, each in facts.judged.items():
        yield each.idle_seconds, group_id in planned


def _header(plan: DeletionPlan, records: Sequence[Mapping[str, Any]], now: datetime, *, trend: bool) -> str:
    finished = records[-1]["finished_at"] if records else None
    parts = [
        f"plan <code>{escape(plan.plan_id)}</code> of {shown_time(plan.created_at)}",
        f"Kafka cluster <code>{escape(plan.kafka_cluster_id)}</code>",
        f"last run {shown_time(datetime.fromisoformat(finished))}" if finished else "not run yet",
        f"page made {shown_time(now)}",
        *([TREND_LINK] if trend else []),
    ]
    return f"<header><h1>Consumer groups of {text(plan.cluster)}</h1><p>{' · '.join(parts)}</p></header>"


def _banners(
    plan: DeletionPlan,
    records: Sequence[Mapping[str, Any]],
    *,
    dry_run: bool,
    present: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    found = []
    if not records:
        found.append(("plain", "Nothing was deleted: this plan has not been applied."))
    elif dry_run:
        found.append(("dry", "Dry run: all checks were made, nothing was deleted."))
    if present:
        shown = ", ".join(f"{group_name(group_id)} ({text(state)})" for group_id, state in list(present.items())[:5])
        found.append(("bad", f"{len(present)} group(s) that should be gone still exist: {shown}"))
    warnings = [*plan.warnings, *(warning for record in records for warning in record["warnings"])]
    found += [("warn", text(warning)) for warning in dict.fromkeys(warnings)]
    found += [("plain", text(note)) for note in notes]
    return banners(found)


def _headline(plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], verified: int) -> str:
    found = Counter(item["outcome"] for item in outcomes.values())
    codes = Counter(item["code"] for item in outcomes.values() if item["outcome"] == Outcome.KEPT)
    counts, unasked = plan.counts, sum(group_id not in outcomes for group_id in plan.group_ids)
    numbers = [
        ("Found", counts.get("found", 0), ""),
        ("Live", counts.get("live", 0), ""),
        ("Moving", counts.get("moving", 0), ""),
        ("Settling", counts.get("settling", 0), ""),
        ("Stale", counts.get("stale", 0), ""),
        ("Protected", counts.get("protected", 0) + counts.get("excluded", 0), ""),
        *([("Wait for their notice", counts["notice"], "")] if counts.get("notice") else []),
        ("Planned", len(plan.groups), ""),
    ]
    if found[Outcome.WOULD_DELETE]:
        numbers.append(("Would be deleted", found[Outcome.WOULD_DELETE], "good"))
    numbers += [
        ("Deleted", found[Outcome.DELETED], "good"),
        ("Verified gone", verified, "good"),
        *[(name, codes[code], "") for code, name in KEPT_WITHOUT_RECHECK.items() if codes[code]],
        ("Kept by the recheck", codes.total() - sum(codes[code] for code in KEPT_WITHOUT_RECHECK), ""),
        *([("Gone before", found[Outcome.GONE], "")] if found[Outcome.GONE] else []),
        *([("Not reached", unasked, "")] if outcomes and unasked else []),
        ("Failed or unknown", found[Outcome.FAILED] + found[Outcome.UNKNOWN], "bad"),
    ]
    cards = "".join(
        f'<div class="card {kind if value else ""}"><b>{value:,}</b><span>{escape(name)}</span></div>'
        for name, value, kind in numbers
    )
    return f'<section class="cards">{cards}</section>'


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
                "-" if record["seconds"] is None else f"{record['seconds']:g} s",  # a run without an end has none
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
