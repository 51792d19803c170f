"""The operator that exports metrics for each group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_flag,
    read_integer,
    read_patterns,
    read_storage_path,
    read_text,
)
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.operators.support.base import StoredOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_read_limit = partial(read_integer, minimum=1, maximum=10_000)


class ExportGroupMetricsOperator(StoredOperator):
    """Export the lag, the time since the last movement and the days to expiry of each group of a judged snapshot.

    They go to Airflow's metrics, to an OpenMetrics file for a scraper, or both. Groups with generated ids are exported
    as their family. No cluster is accessed.

    :param snapshot_id: the judged snapshot. Default: the newest judged one (templated).
    :param include: patterns of the groups. Default: all (templated).
    :param exclude: patterns of the groups to leave out. Default: none (templated).
    :param max_groups: maximum number of single groups, and of families, those with the largest lag first; at most
        10,000. The number left out is a metric. Default 500 (templated).
    :param openmetrics_path: the file to replace: an absolute path or a URL. For node_exporter, a file in its textfile
        folder that ends with ``.prom``. Default: no file (templated).
    :param airflow_metrics: send gauges through Airflow's metrics. Default false (templated).
    :param kafka_groups_conn_id: the connection; only its id is used. Default ``kafka_groups_default`` (templated).

    Returns ``{"snapshot_id", "groups", "families", "omitted", "openmetrics_path"}``. Fails if the snapshot is not
    judged, or if neither a file nor Airflow's metrics are asked for.
    """

    snapshot_id = Argument(optional(read_text))
    include = Argument(read_patterns)
    exclude = Argument(read_patterns)
    max_groups = Argument(_read_limit)
    openmetrics_path = Argument(optional(read_storage_path))
    airflow_metrics = Argument(read_flag)

    @sets_arguments
    def __init__(
        self,
        *,
        snapshot_id: str | None = None,
        include: Sequence[str] | str = ("*",),
        exclude: Sequence[str] | str = (),
        max_groups: int | str = 500,
        openmetrics_path: str | None = None,
        airflow_metrics: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the verdicts, and export."""
        from airflow_kafka_groups.hooks.storage import open_path
        from airflow_kafka_groups.operators.support.telemetry import gauges_of_groups
        from airflow_kafka_groups.report.group_metrics import metrics_of_snapshot
        from airflow_kafka_groups.report.openmetrics import write_openmetrics

        if self.openmetrics_path is None and not self.airflow_metrics:
            raise ConfigurationError("openmetrics_path", None, "pass it, or airflow_metrics=True, or both")
        path = None if self.openmetrics_path is None else open_path("openmetrics_path", self.openmetrics_path)
        snapshot_id, metrics = metrics_of_snapshot(
            self.layout(), self.snapshot_id, GroupFilter(self.include, self.exclude), self.max_groups
        )
        if self.airflow_metrics:
            gauges_of_groups(self.cluster_name, metrics)
        if path is not None:
            write_openmetrics(path, self.cluster_name, metrics)
        found = {"groups": len(metrics.groups), "families": len(metrics.families), "omitted": metrics.omitted}
        self.log.info("Metrics of snapshot %s: %s; file: %s", snapshot_id, found, path)
        return {"snapshot_id": snapshot_id, **found, "openmetrics_path": None if path is None else str(path)}
