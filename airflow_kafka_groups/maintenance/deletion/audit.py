"""The record of a run: who did what to which group, by which plan, when, and what became of it. Written once, kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.contracts.formats import FORMAT
from airflow_kafka_groups.contracts.ids import parse_time
from airflow_kafka_groups.exceptions import ConfigurationError, MaintenanceError
from airflow_kafka_groups.maintenance.deletion.outcomes import DeletionReport, Outcome
from airflow_kafka_groups.maintenance.deletion.verify import Verification
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, check_id, read_json, write_json

_RECORD = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}-(\d{8}T\d{6}Z)-[0-9a-f]{8}\.json")
"""A record's name: the plan's id and the run's own."""


def audit_record(
    report: DeletionReport,
    *,
    run_id: str,
    plan: DeletionPlan | None = None,
    verification: Verification | None = None,
    actor: Mapping[str, str] | None = None,
    kafka_cluster_id: str | None = None,
) -> dict[str, Any]:
    """Give the record as docs/formats.md shows it.

    :param report: what became of each group.
    :param run_id: an id made by ``new_id()``.
    :param plan: the plan, if there was one; its policy is in the record.
    :param verification: what was found afterwards.
    :param actor: who: DAG run, task, user, approver. Texts only.
    :param kafka_cluster_id: the cluster's id, when there is no plan to tell it.
    """
    if plan is not None and plan.digest != report.plan_digest:
        raise ConfigurationError("plan", plan.plan_id, "give the plan that the report is about")
    return {
        "format": FORMAT,
        "run_id": run_id,
        **report.summary(),
        "kafka_cluster_id": plan.kafka_cluster_id if plan else kafka_cluster_id,
        "seconds": round((report.finished_at - report.started_at).total_seconds(), 3),
        "actor": dict(actor or {}),
        "policy": plan.policy.to_json() if plan else None,
        "verification": verification.to_json() if verification else None,
        "outcomes": [item.to_json() for item in report.outcomes],
    }


def write_audit(layout: Layout, record: Mapping[str, Any], *, begun: StoragePath | None = None) -> StoragePath:
    """Write the record below its plan's id (or its own, if there was no plan); refuses to overwrite another run's.

    :param record: what ``audit_record`` gave.
    :param begun: what this very run wrote when it began: it is replaced. Default: nothing.
    """
    path = layout.audit(record["plan_id"] or record["run_id"], record["run_id"])
    if path != begun and path.exists():
        raise MaintenanceError(f"{path} exists: every run has its own record")
    written = write_json(layout.root / "audit", path.name, record)
    if begun is not None and begun != written:
        begun.unlink()
    return written


def load_audits(layout: Layout, plan_id: str) -> dict[str, dict[str, Any]]:
    """Read the records of every run of a plan, by their paths, oldest first.

    Raises ``MaintenanceError`` for one that is damaged.
    """
    folder = layout.root / "audit"
    prefix = f"{check_id('plan_id', plan_id)}-"
    found = sorted(folder.iterdir(), key=lambda path: path.name) if folder.exists() else []
    paths = [path for path in found if path.name.startswith(prefix) and path.name.endswith(".json")]
    return {str(path): read_json(path, "the record of a run", MaintenanceError) for path in paths}


def deleted_since(layout: Layout, since: datetime) -> dict[str, datetime]:
    """Give the groups that were deleted since then, each with the time by which it was.

    All records of the cluster's folder count. Raises ``MaintenanceError`` for a record that is damaged.
    """
    folder = layout.root / "audit"
    first = f"{since.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    found: dict[str, datetime] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name) if folder.exists() else ():
        name = _RECORD.fullmatch(path.name)
        if name is None or name[1] < first:
            continue
        record = read_json(path, "the record of a run", MaintenanceError)
        try:
            finished_at = parse_time(record["finished_at"])
        except (KeyError, TypeError, ValueError) as exc:
            raise MaintenanceError(f"the record {path} is damaged: {type(exc).__name__}: {exc}") from exc
        for group_id in deleted_by([record]):
            found[group_id] = max(finished_at, found.get(group_id, finished_at))
    return found


def deleted_by(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Give the groups that these runs have deleted, each with the run that did. Raises ``MaintenanceError``."""
    found: dict[str, str] = {}
    for record in records:
        try:
            if not record["dry_run"]:
                gone = [item["group_id"] for item in record["outcomes"] if item["outcome"] == Outcome.DELETED]
                found |= dict.fromkeys(gone, str(record["run_id"]))
        except (KeyError, TypeError) as exc:
            raise MaintenanceError(f"the record of a run is damaged: {type(exc).__name__}: {exc}") from exc
    return found
