"""The operator that reports what a clean-up did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import read_text_or_nothing
from airflow_kafka_groups.hooks.links import CleanupReportLink, push_report_path
from airflow_kafka_groups.operators.support.actor import actor_of
from airflow_kafka_groups.operators.support.base import StoredOperator, collection_paused
from airflow_kafka_groups.shown import storable

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan


class CleanupReportOperator(StoredOperator):
    """Write the report of a plan and all its runs: one HTML file without external assets.

    :param plan_id: the plan. An empty string skips the task (templated).
    :param kafka_groups_conn_id: the connection; only its id is used. Default ``kafka_groups_default`` (templated).

    Returns ``{"report_path", "plan_id", "dry_run", "counts", "outcomes", "verified_gone", "runs", "warnings"}``:
    ``counts`` are the plan's, ``outcomes`` the number of groups by outcome, ``dry_run`` is null without a run. Fails if
    the plan or a record is missing or damaged.
    """

    operator_extra_links = (CleanupReportLink(),)
    ui_color = "#d8f0d4"

    plan_id = Argument(read_text_or_nothing)

    @sets_arguments
    def __init__(self, *, plan_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @collection_paused
    def execute(self, context: Context) -> dict[str, Any]:
        """Read the plan and its records, and write the page."""
        from airflow.sdk.exceptions import AirflowSkipException

        from airflow_kafka_groups.ledger.deletion_plan import load_plan
        from airflow_kafka_groups.report.write import make_report

        if self.plan_id == "":
            raise AirflowSkipException("There is no plan to report: an earlier task failed")
        layout = self.layout()
        plan = load_plan(layout, self.plan_id)
        path, records = make_report(layout, plan, actor_of(context).get("dag_id"))
        push_report_path(context, path)
        self.log.info("Report: %s", path)
        return {"report_path": path, **_summary(plan, records)}


def _summary(plan: DeletionPlan, records: list[dict[str, Any]]) -> dict[str, Any]:
    from airflow_kafka_groups.report.merging import merge_outcomes, runs_that_count, verified_gone

    used, dry_run = runs_that_count(records)
    outcomes = Counter(item["outcome"] for item in merge_outcomes(used).values())
    return {
        "plan_id": plan.plan_id,
        "dry_run": dry_run,
        "counts": dict(plan.counts),
        "outcomes": dict(outcomes),
        "verified_gone": len(verified_gone(used)),
        "runs": len(records),
        "warnings": storable([*plan.warnings, *(warning for record in used for warning in record["warnings"])]),
    }
