"""Operators for many clusters with one policy: the clusters to map over, and the roll-up of what was done to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments
from airflow_kafka_groups.hooks.arguments import read_place, read_storage_path
from airflow_kafka_groups.hooks.links import CleanupReportLink, push_report_path
from airflow_kafka_groups.operators.support.base import update_asset_events

if TYPE_CHECKING:
    from airflow_kafka_groups.report.fleet import ClusterRun


def _read_policy_file(field: str, value: Any) -> str:
    """Return the path; the DAGs of fleets have no file until somebody names one."""
    if value == "":
        remedy = "name the policy file that has the clusters: in the run's form, or in KAFKA_GROUPS_DEFAULTS"
        raise ConfigurationError(field, value, remedy)
    return read_place(field, value)


class ListClustersOperator(DeclaredArguments, BaseOperator):
    """Return the clusters of a policy file, to map over: one run of a task group for each.

    :param policy_file: the policy file with a section ``clusters``: an absolute path or a URL.

    Returns ``[{"kafka_groups_conn_id", "cluster"}, …]`` in the order of the file. Fails if the file cannot be read, is
    wrong, or names no clusters.
    """

    policy_file = Argument(_read_policy_file)

    def __init__(self, *, policy_file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def execute(self, context: Context) -> list[dict[str, str]]:
        from airflow_kafka_groups.hooks.floors import configured_floors
        from airflow_kafka_groups.hooks.storage import open_policy

        file = open_policy("policy_file", self.policy_file, configured_floors())
        for warning in file.warnings:
            self.log.warning("Policy %s: %s", file.path, warning)
        if not file.clusters:
            remedy = "has no section clusters: name the clusters there"
            raise ConfigurationError("policy_file", self.policy_file, remedy)
        self.log.info("Policy %s, digest %s: %d clusters", file.path, file.digest, len(file.clusters))
        return [{"kafka_groups_conn_id": each.conn_id, "cluster": each.name} for each in file.clusters]


def _read_clusters(field: str, value: Any) -> list[Mapping[str, str]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigurationError(field, value, "must be what ListClustersOperator returned: give it that task's output")
    for each in value:
        if not isinstance(each, Mapping) or not {"cluster", "kafka_groups_conn_id"} <= set(each):
            raise ConfigurationError(field, each, "must have a cluster and a kafka_groups_conn_id")
    return list(value)


class FleetReportOperator(DeclaredArguments, BaseOperator):
    """Roll up the clean-ups of a mapped task group: one page, one JSON file, and the numbers in its assets' events.

    Give it ``trigger_rule="all_done"``, so that it also reports clusters that failed.

    :param storage_path: folder above all clusters: an absolute path or a URL.
    :param clusters: what ``ListClustersOperator`` returned.
    :param mapped_group: the complete id of the task group, whose tasks ``list_offsets``, ``plan``, ``notify``,
        ``delete`` and ``report`` are those of ``cleanup_stale_groups``. Default ``clean_up`` (not templated).

    Returns ``{"report_path", "clusters", "done", "skipped", "failed", "groups", "stale", "planned", "outcomes",
    "failed_clusters"}``. It does not fail for a cluster that failed: the run does, because its task has.
    """

    operator_extra_links = (CleanupReportLink(),)
    storage_path = Argument(read_storage_path)
    clusters = Argument(_read_clusters)

    def __init__(self, *, storage_path: str, clusters: Any, mapped_group: str = "clean_up", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mapped_group = mapped_group

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.hooks.storage import open_path
        from airflow_kafka_groups.report.fleet import fleet_totals, fleet_warnings, write_fleet_report
        from airflow_kafka_groups.storage.layout import utc_now
        from airflow_kafka_groups.storage.paths import new_id

        states = self._states(context["ti"])
        runs = [self._run(context["ti"], index, each, states(index)) for index, each in enumerate(self.clusters)]
        now, totals, folder = utc_now(), fleet_totals(runs), open_path("storage_path", self.storage_path)
        path = str(write_fleet_report(folder, new_id(now), runs, now, context["ti"].dag_id))
        push_report_path(context, path)
        update_asset_events(self, context, {**totals, "report_path": path})
        self.log.info("Fleet: %s; report %s", totals, path)
        for warning in fleet_warnings(runs):
            self.log.warning("%s", warning)
        for run in runs:
            if run.failed_at is not None:
                self.log.warning("Cluster %s failed at %s", run.cluster, run.failed_at)
        return {"report_path": path, **totals}

    def _run(self, ti: Any, index: int, cluster: Mapping[str, str], states: Mapping[str, str]) -> ClusterRun:
        from airflow_kafka_groups.report.fleet import run_of_tasks

        def result(task_id: str) -> Mapping[str, Any]:
            # What a task that did not run again returned before its run was cleared is not of this try.
            if states.get(task_id) != "success":
                return {}
            return ti.xcom_pull(f"{self.mapped_group}.{task_id}", map_indexes=index) or {}

        return run_of_tasks(cluster, states, result, f"{self.mapped_group}, which did not begin")

    def _states(self, ti: Any) -> Callable[[int], dict[str, str]]:
        """Return what returns the states of a cluster's tasks by its index, in the order of the group."""
        prefix = f"{self.mapped_group}."
        ordered = [task.task_id for task in self.dag.topological_sort() if task.task_id.startswith(prefix)]  # type: ignore[no-untyped-call]
        if not ordered:
            remedy = "is no task group of this DAG with tasks in it: give its complete id, such as outer.clean_up"
            raise ConfigurationError("mapped_group", self.mapped_group, remedy)
        found = ti.get_task_states(dag_id=ti.dag_id, task_group_id=self.mapped_group, run_ids=[ti.run_id])
        states: Mapping[str, Any] = found.get(ti.run_id, {})

        def of_cluster(index: int) -> dict[str, str]:
            # A task whose upstream failed before it was mapped has one state, under its own name, for all clusters.
            named = {name: states.get(f"{name}_{index}", states.get(name)) for name in ordered}
            return {name.removeprefix(prefix): str(state) for name, state in named.items() if state is not None}

        return of_cluster
