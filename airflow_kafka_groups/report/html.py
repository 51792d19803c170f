"""The reports of a plan and its runs, and of a backlog: one HTML file each, without external assets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND, DeletionPlan
from airflow_kafka_groups.ledger.journal import NO_END, records_of_plan
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.observe.snapshot.members import LastMembers, last_members
from airflow_kafka_groups.report import charts, sections
from airflow_kafka_groups.report.facts import (
    KEPT_WITHOUT_RECHECK,
    ReportFacts,
    gather_facts,
    looked_at_again,
    merge_outcomes,
    runs_that_count,
)
from airflow_kafka_groups.report.page import dag_of, part, render
from airflow_kafka_groups.report.trend import point_of, trend_page, verdicts_over_time
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, StoragePath, utc_now
from airflow_kafka_groups.storage.paths import REPORTS, TREND_PAGE

TREND_LINK = Markup('<a href="{}">The trend over all runs</a>').format(TREND_PAGE)
"""The link to the second page, which lies beside the report."""


def render_report(
    plan: DeletionPlan,
    records: Sequence[Mapping[str, Any]] = (),
    *,
    files: Mapping[str, str] | None = None,
    last: Mapping[str, LastMembers] | None = None,
    facts: ReportFacts | None = None,
    now: datetime,
    dag_id: str | None = None,
) -> str:
    """Render the page.

    :param records: the audit records of its runs, oldest first. Dry runs count only if there is no other run.
    :param files: names and places of files for the reader.
    :param last: the members that groups were last seen with. Default: not known.
    :param facts: what else is known. Default: nothing.
    :param dag_id: the DAG whose runs show it. Default: none.
    """
    known = facts or ReportFacts()
    used, dry_run = runs_that_count(records)
    outcomes, (gone, present) = merge_outcomes(used), looked_at_again(used)
    restore = sections.restore_command(plan, outcomes, known.storage)
    return render(
        "report.html.j2",
        dag_id=dag_id,
        title=f"Consumer groups of {plan.cluster}",
        plan=plan,
        now=now,
        finished=used[-1]["finished_at"] if used else None,
        trend_link=TREND_LINK if known.trend else "",
        dry_run=dry_run,
        present=present,
        warnings=dict.fromkeys([*plan.warnings, *(warning for record in used for warning in record["warnings"])]),
        notes=known.notes,
        numbers=_numbers(plan, outcomes, len(gone)),
        families=sections.families_section(plan),
        owners=sections.owners_section(plan),
        charts=_charts(plan, known, now),
        sections=[
            sections.keep_alive_section(plan, known.kept_alive, now),
            sections.pruned_section(known.pruned, plan.cluster, known.storage),
            sections.not_done_section(plan, outcomes, dry_run=dry_run is True),
            sections.done_section(plan, outcomes, last or {}, dry_run=dry_run is True),
            part("restore", plan.plan_id, restore) if restore else Markup(),
            sections.kept_section(plan),
            sections.policy_section(plan),
        ],
        records=records,
        files=files or {},
        data=sections.groups_json(plan, outcomes, known.judged, restore),
    )


def _charts(plan: DeletionPlan, facts: ReportFacts, now: datetime) -> list[Markup]:
    shown = [verdicts_over_time(facts.trend)] if facts.trend else []
    ids, idle = plan.group_ids, plan.planned.column("idle_seconds")
    if facts.judged:  # of all groups
        ids, idle = (facts.judged[name].to_pylist() for name in ("group_id", "idle_seconds"))
    is_planned = set(plan.group_ids).__contains__
    shown.append(charts.idle_ages(zip(idle, map(is_planned, ids), strict=True)))
    if facts.judged:
        shown.append(charts.expiry_ahead(facts.judged["expires_at"].to_pylist(), now))
    if plan.families:
        shown.append(charts.family_growth(plan.families))
    return shown


def _numbers(
    plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], verified: int
) -> list[tuple[str, int, str]]:
    """Return the numbers that the page begins with: what they count, and the colour of those that are not 0."""
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
    return [
        *numbers,
        ("Deleted", found[Outcome.DELETED], "good"),
        ("Verified gone", verified, "good"),
        *[(name, codes[code], "") for code, name in KEPT_WITHOUT_RECHECK.items() if codes[code]],
        ("Kept by the recheck", codes.total() - sum(codes[code] for code in KEPT_WITHOUT_RECHECK), ""),
        *([("Gone before", found[Outcome.GONE], "")] if found[Outcome.GONE] else []),
        *([("Not reached", unasked, "")] if outcomes and unasked else []),
        ("Failed or unknown", found[Outcome.FAILED] + found[Outcome.UNKNOWN], "bad"),
    ]


@collection_paused()
def make_report(layout: Layout, plan: DeletionPlan, dag_id: str | None = None) -> tuple[str, list[dict[str, Any]]]:
    """Write the report of a plan and its runs so far, and the trend; return its path and the runs' records.

    After the plan was applied, a dry run changes nothing: the page is what that run left, with what was known then.

    :param dag_id: the DAG whose runs show the page. Default: the one that the page has had so far, if it had one.
    """
    if dag_id is None:
        dag_id = dag_of(FILES.read(layout.report(plan.plan_id)) or b"")
    records = records_of_plan(layout, plan.kafka_cluster_id, plan.plan_id)
    used, dry_run = runs_that_count(list(records.values()))
    if dry_run is False and next(reversed(records.values()))["dry_run"] and _shows(layout.report(plan.plan_id), used):
        return str(layout.report(plan.plan_id)), list(records.values())
    point = point_of(plan, merge_outcomes(used), dry_run=dry_run)
    facts = gather_facts(layout, plan, point)
    files = _report_files(layout, plan, list(records))
    last = last_members(layout, plan.group_ids, plan.kafka_cluster_id)
    now = utc_now()
    page = render_report(plan, list(records.values()), files=files, last=last, facts=facts, now=now, dag_id=dag_id)
    if facts.trend:
        trend = trend_page(plan.cluster, facts.trend, now).encode("utf-8", "replace")
        FILES.replace(layout.root / REPORTS / TREND_PAGE, trend)
    return str(write_report(layout, plan.plan_id, page)), list(records.values())


def write_report(layout: Layout, plan_id: str, html: str) -> StoragePath:
    """Write the page, replacing an older one."""
    path = layout.report(plan_id)
    FILES.replace(path, html.encode("utf-8", "replace"))
    return path


def _shows(page: StoragePath, records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a page has all of these runs, each with its end."""
    html = FILES.read(page) or b""
    return NO_END.encode() not in html and all(record["run_id"].encode() in html for record in records)


def _report_files(layout: Layout, plan: DeletionPlan, audits: Sequence[str]) -> dict[str, str]:
    paths = {"plan": layout.plan(plan.plan_id), "backup": layout.backup_manifest(plan.plan_id)}
    if plan.snapshot_id != NAMED_BY_HAND:
        paths["snapshot"] = layout.manifest(plan.snapshot_id)
    files = {name: str(path) for name, path in paths.items() if FILES.exists(path)}
    return files | {f"record {number}": path for number, path in enumerate(audits, start=1)}


def write_taken_records(
    layout: Layout, backlog_id: str, group_id: str, taken: Sequence[Mapping[str, Any]], outcome: str, dag_id: str | None
) -> str:
    """Write the page, and return its path.

    :param taken: ``topic``, ``partition``, ``start`` and ``end`` (exclusive) of each range of offsets, of any slice.
    :param outcome: what became of the commit, in words.
    :param dag_id: the DAG whose runs show the page. ``None``: no run does.
    """
    offsets: dict[str, int] = {}
    for each in taken:
        name = f"{each['topic']}-{each['partition']}"
        offsets[name] = offsets.get(name, 0) + each["end"] - each["start"]
    page = render(
        "taken.html.j2",
        dag_id=dag_id,
        title=f"Records that Spark took from {group_id}",
        chart=charts.offsets_taken(offsets),
        backlog_id=backlog_id,
        group_id=group_id,
        partitions=len(offsets),
        total=sum(offsets.values()),
        outcome=outcome,
        now=utc_now(),
    )
    return str(write_report(layout, backlog_id, page))
