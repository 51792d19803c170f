"""Operators that report what a clean-up did, and that export metrics for each group."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.sdk import Context

from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_integer,
    read_storage_path,
    read_text,
    read_text_or_nothing,
)
from airflow_kafka_groups.hooks.links import CleanupReportLink, push_report_path
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.operators.support.base import MatchingOperator, StoredOperator, actor_of
from airflow_kafka_groups.shown import storable


class CleanupReportOperator(StoredOperator):
    """Write the report of a plan and all its runs: one HTML file without external assets.

    :param plan_id: the plan. An empty string skips the task.
    :param kafka_groups_conn_id: the connection; only its id is used. Default ``kafka_groups_default``.

    Returns ``{"report_path", "plan_id", "dry_run", "counts", "outcomes", "verified_gone", "runs", "warnings"}``:
    ``counts`` are the plan's, ``outcomes`` the number of groups by outcome, ``dry_run`` is null without a run. Fails if
    the plan or a record is missing or damaged.
    """

    operator_extra_links = (CleanupReportLink(),)
    plan_id = Argument(read_text_or_nothing)

    def __init__(self, *, plan_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @collection_paused()
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow.sdk.exceptions import AirflowSkipException

        from airflow_kafka_groups.ledger.deletion_plan import load_plan
        from airflow_kafka_groups.report.facts import summary_of
        from airflow_kafka_groups.report.html import make_report

        if self.plan_id == "":
            raise AirflowSkipException("There is no plan to report: an earlier task failed")
        layout = self.layout()
        plan = load_plan(layout, self.plan_id)
        path, records = make_report(layout, plan, actor_of(context).get("dag_id"))
        push_report_path(context, path)
        self.log.info("Report: %s", path)
        return {"report_path": path, **storable(summary_of(plan, records))}


class ExportGroupMetricsOperator(MatchingOperator, StoredOperator):
    """Export the lag, the time since the last movement and the days to expiry of each group of a judged snapshot.

    They go to an OpenMetrics file for a scraper. Groups with generated ids are one family. No broker is asked.

    :param snapshot_id: the judged snapshot. Default: the newest judged one.
    :param max_groups: maximum number of single groups, and of families, those with the largest lag first; at most
        10,000. The number left out is a metric. Default 500.
    :param openmetrics_path: the file to replace: an absolute path or a URL. For node_exporter, a file in its textfile
        folder that ends with ``.prom``.
    :param kafka_groups_conn_id: the connection; only its id is used. Default ``kafka_groups_default``.

    Returns ``{"snapshot_id", "groups", "families", "omitted", "openmetrics_path"}``. Fails if it is not judged.
    """

    snapshot_id = Argument(optional(read_text))
    max_groups = Argument(partial(read_integer, minimum=1, maximum=10_000))
    openmetrics_path = Argument(read_storage_path)

    def __init__(
        self,
        *,
        openmetrics_path: str,
        snapshot_id: str | None = None,
        max_groups: int | str = 500,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.hooks.storage import open_path
        from airflow_kafka_groups.report.metrics import metrics_of_snapshot, write_openmetrics

        path = open_path("openmetrics_path", self.openmetrics_path)
        snapshot_id, metrics = metrics_of_snapshot(self.layout(), self.snapshot_id, self.matching, self.max_groups)
        write_openmetrics(path, self.cluster_name, metrics)
        found = {"groups": len(metrics.groups), "families": len(metrics.families), "omitted": metrics.omitted}
        self.log.info("Metrics of snapshot %s: %s; file: %s", snapshot_id, found, path)
        return {"snapshot_id": snapshot_id, **found, "openmetrics_path": str(path)}
