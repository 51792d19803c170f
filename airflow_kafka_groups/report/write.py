"""Writing the report of a plan from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.ledger.audit import NO_END, records_of_plan
from airflow_kafka_groups.ledger.deletion_plan import NAMED_BY_HAND, DeletionPlan
from airflow_kafka_groups.observe.snapshot.last_members import last_members
from airflow_kafka_groups.report.facts import gather_facts
from airflow_kafka_groups.report.html import render_report
from airflow_kafka_groups.report.merging import merge_outcomes, runs_that_count
from airflow_kafka_groups.report.page import dag_of
from airflow_kafka_groups.report.trend import trend_page
from airflow_kafka_groups.report.trend_points import point_of
from airflow_kafka_groups.storage.durable_files import read_file
from airflow_kafka_groups.storage.json_files import is_there
from airflow_kafka_groups.storage.layout import Layout, StoragePath, utc_now, write_file
from airflow_kafka_groups.storage.paths import REPORTS, TREND_PAGE


@collection_paused()
def make_report(layout: Layout, plan: DeletionPlan, dag_id: str | None = None) -> tuple[str, list[dict[str, Any]]]:
    """Write the report of a plan and its runs so far, and the trend; return its path and the runs' records.

    After the plan was applied, a dry run changes nothing: the page is what that run left, with what was known then.

    :param dag_id: the DAG whose runs show the page. Default: the one that the page has had so far, if it had one.
    """
    if dag_id is None:
        dag_id = dag_of(read_file(layout.report(plan.plan_id)) or b"")
    records = records_of_plan(layout, plan.kafka_cluster_id, plan.plan_id, plan.created_at)
    used, dry_run = runs_that_count(list(records.values()))
    if dry_run is False and next(reversed(records.values()))["dry_run"] and _shows(layout.report(plan.plan_id), used):
        return str(layout.report(plan.plan_id)), list(records.values())
    point = point_of(plan, merge_outcomes(used), dry_run=dry_run)
    facts = gather_facts(layout, plan, point)
    files = _files(layout, plan, list(records))
    last = last_members(layout, plan.group_ids, plan.kafka_cluster_id)
    now = utc_now()
    page = render_report(plan, list(records.values()), files=files, last=last, facts=facts, now=now, dag_id=dag_id)
    if facts.trend:
        trend = trend_page(plan.cluster, facts.trend, now).encode("utf-8", "replace")
        write_file(layout.root / REPORTS, TREND_PAGE, trend)
    return str(write_report(layout, plan.plan_id, page)), list(records.values())


def write_report(layout: Layout, plan_id: str, html: str) -> StoragePath:
    """Write the page, replacing an older one."""
    path = layout.report(plan_id)
    return write_file(path.parent, path.name, html.encode("utf-8", "replace"))


def _shows(page: StoragePath, records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a page has all of these runs, each with its end."""
    html = read_file(page) or b""
    return NO_END.encode() not in html and all(record["run_id"].encode() in html for record in records)


def _files(layout: Layout, plan: DeletionPlan, audits: Sequence[str]) -> dict[str, str]:
    paths = {"plan": layout.plan(plan.plan_id), "backup": layout.backup_manifest(plan.plan_id)}
    if plan.snapshot_id != NAMED_BY_HAND:
        paths["snapshot"] = layout.manifest(plan.snapshot_id)
    files = {name: str(path) for name, path in paths.items() if _may_be_there(path)}
    return files | {f"record {number}": path for number, path in enumerate(audits, start=1)}


def _may_be_there(path: StoragePath) -> bool:
    try:
        return is_there(path)
    except StorageError:  # whoever needs a backup looks for its path here
        return True
