"""The roll-up of a fleet's clean-ups: one line for each cluster, as numbers and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.report.page import render
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import StoragePath

FOLDER = "_fleet"
"""The folder of the roll-ups, beside those of the clusters: no cluster's name begins with an underscore."""
REPORTS = "reports"
_KEPT = 1_000
"""So many of the newest roll-ups stay, more than two years of daily ones. The folder belongs to no cluster: no
pruning of one looks into it."""


_WELL = ("success", "skipped")
"""States of tasks that are no failure."""


class ClusterState(StrEnum):
    """How the clean-up of one cluster ended."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRun:
    """The clean-up of one cluster.

    :param state: how it ended.
    :param failed_at: the first task that failed; ``None`` if none did.
    :param skipped_at: the first task that was skipped; ``None`` if none was.
    :param plan_id: its plan; ``None`` if it did not get so far.
    :param dry_run: whether it was one; ``None`` if nothing was deleted or would have been.
    :param counts: the numbers of the plan.
    :param outcomes: the number of groups by outcome.
    :param marked: how many groups were marked, or would be in a dry run.
    :param notified: how many groups of each owner were notified of, or would be.
    :param report: the path of its own report.
    :param kafka_cluster_id: the id that its brokers report; ``None`` if it is not known.
    :param warnings: of the plan and the run.
    """

    cluster: str
    conn_id: str
    state: ClusterState
    failed_at: str | None = None
    skipped_at: str | None = None
    plan_id: str | None = None
    dry_run: bool | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    marked: int = 0
    notified: Mapping[str, int] = field(default_factory=dict)
    report: str | None = None
    kafka_cluster_id: str | None = None
    warnings: Sequence[str] = ()


def _is_of(cluster: str, result: Mapping[str, Any]) -> bool:
    """Return whether what a task returned is of a cluster, by the folder of its file.

    A list of clusters that is made again may have another one at the place of a task that did not run again.
    """
    path = result.get("manifest") or result.get("plan_path")
    # Folders further above may have a cluster's name, too: s3://prod/groups/east/plans/….json is not of prod.
    return not isinstance(path, str) or path.split("/")[-3:-2] == [cluster]


def run_of_tasks(
    cluster: Mapping[str, str],
    states: Mapping[str, str],
    result: Callable[[str], Mapping[str, Any]],
    not_begun: str,
) -> ClusterRun:
    """Return how the clean-up of a cluster ended, by its tasks.

    :param cluster: its ``cluster`` and ``kafka_groups_conn_id``.
    :param states: Airflow's states of its tasks, in their order.
    :param result: returns what a task of this try returned; nothing if it was no success.
    :param not_begun: what to say has failed where no task is known.
    """
    if not all(_is_of(cluster["cluster"], result(task_id)) for task_id in ("list_offsets", "plan")):
        conn_id, other = cluster["kafka_groups_conn_id"], "its tasks were of another cluster: clear them with the list"
        return ClusterRun(cluster=cluster["cluster"], conn_id=conn_id, state=ClusterState.FAILED, failed_at=other)
    failed = next((name for name, state in states.items() if state == "failed"), None)
    failed = failed or next((name for name, state in states.items() if state not in _WELL), None)
    failed = failed or (None if states else not_begun)
    skipped = next((name for name, state in states.items() if state == "skipped"), None)
    plan, notified = result("plan"), result("notify")
    # It is written whatever failed, and then about the plan that an earlier try has left.
    report = result("report") if states.get("plan") == "success" else {}
    if not report and (done := result("delete")):  # what was deleted counts, also where the report failed
        counts = {outcome: count for outcome, count in done["counts"].items() if count}
        report = {"dry_run": done["dry_run"], "outcomes": counts, "warnings": done["warnings"]}
    dry_run = report.get("dry_run")  # null without a run, of which owners may have been notified all the same
    return ClusterRun(
        cluster=cluster["cluster"],
        conn_id=cluster["kafka_groups_conn_id"],
        state=ClusterState.FAILED if failed else ClusterState.SKIPPED if skipped else ClusterState.DONE,
        failed_at=failed,
        skipped_at=skipped,
        plan_id=plan.get("plan_id"),
        dry_run=notified.get("dry_run") or None if dry_run is None else dry_run,
        counts=plan.get("counts", {}),
        outcomes=report.get("outcomes", {}),
        marked=notified.get("marked", 0),
        notified=notified.get("notified", {}),
        report=report.get("report_path"),
        kafka_cluster_id=result("list_offsets").get("kafka_cluster_id"),
        warnings=tuple(report.get("warnings") or plan.get("warnings", ())),
    )


def fleet_totals(runs: Sequence[ClusterRun]) -> dict[str, Any]:
    """Return the numbers of the fleet."""
    states, counts, outcomes = Counter[str](), Counter[str](), Counter[str]()
    for run in runs:
        states[run.state.value] += 1
        counts.update(run.counts)
        outcomes.update(run.outcomes)
    return {
        "clusters": len(runs),
        **{state.value: states[state.value] for state in ClusterState},
        "groups": counts["found"],
        "stale": counts["stale"],
        "planned": counts["planned"],
        "outcomes": dict(outcomes),
        "failed_clusters": [run.cluster for run in runs if run.state is ClusterState.FAILED],
    }


def fleet_warnings(runs: Sequence[ClusterRun]) -> list[str]:
    """Return what is wrong with the fleet as a whole: two of its clusters that are the same one."""
    names: dict[str, list[str]] = {}
    for run in runs:
        if run.kafka_cluster_id:
            names.setdefault(run.kafka_cluster_id, []).append(run.cluster)
    return [
        f"{', '.join(same)} are the same Kafka cluster ({id_}): its groups count {len(same)} times here. Name it once "
        "in the policy file's section clusters"
        for id_, same in names.items()
        if len(same) > 1
    ]


def write_fleet_report(
    base: StoragePath, run_id: str, runs: Sequence[ClusterRun], now: datetime, dag_id: str | None = None
) -> StoragePath:
    """Write the roll-up as JSON and as a page, remove what is older than the newest 1,000, and return the page's path.

    :param base: the folder above all clusters.
    :param dag_id: the DAG whose runs show the page. Default: none.

    Raises ``StorageError``.
    """
    folder = base / FOLDER / REPORTS
    data = {"format": 1, "run_id": run_id, "made_at": now.isoformat(), "totals": fleet_totals(runs)}
    data["warnings"] = fleet_warnings(runs)
    write_json(folder, f"{run_id}.json", {**data, "clusters": [asdict(run) for run in runs]})
    page = folder / f"{run_id}.html"
    FILES.replace(page, render_fleet(runs, now, dag_id).encode("utf-8", "replace"))
    with suppress(StorageError):  # the report is written; where nothing can be removed, all of them stay
        for old in FILES.ids(folder)[:-_KEPT]:
            for name in (f"{old}.html", f"{old}.json"):  # found by the latter, which goes last
                FILES.remove(folder / name)
    return page


def render_fleet(runs: Sequence[ClusterRun], now: datetime, dag_id: str | None = None) -> str:
    """Render the page: clusters that failed come first."""
    order = [ClusterState.FAILED, ClusterState.SKIPPED, ClusterState.DONE]
    return render(
        "fleet.html.j2",
        dag_id=dag_id,
        title="Consumer groups of the fleet",
        runs=sorted(runs, key=lambda run: (order.index(run.state), run.cluster)),
        totals=fleet_totals(runs),
        warnings=fleet_warnings(runs),
        href=report_href,
        now=now,
    )


def report_href(place: str) -> Markup:
    """Return the attribute that links the roll-up to a cluster's report: relative, so that a copied storage works."""
    return Markup('href="../../{}"').format("/".join(quote(part) for part in place.split("/")[-3:]))
