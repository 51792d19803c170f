"""The page of the trend: the cluster over its runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from airflow_kafka_groups.contracts.verdicts import KeptName
from airflow_kafka_groups.maintenance.deletion.outcomes import Outcome
from airflow_kafka_groups.maintenance.report.charts.figures import run_labels, verdicts_over_time
from airflow_kafka_groups.maintenance.report.charts.svg import Series, columns
from airflow_kafka_groups.maintenance.report.page import render_page
from airflow_kafka_groups.maintenance.report.parts import section, shown_time, table, text, words_of
from airflow_kafka_groups.maintenance.report.trend.points import MOST_FAMILIES, MOST_RUNS, TrendPoint

_FAMILY_KINDS = ("c-live", "c-moving", "c-stale", "c-other", "c-bad", "c-settling")
_COUNTS = ("found", "live", "moving", "settling", "stale", "planned")


def trend_page(cluster: str, points: Sequence[TrendPoint], now: datetime) -> str:
    """Return the page.

    :param points: the runs, oldest first.
    """
    labels = run_labels(points)
    title = f"Trend of the consumer groups of {cluster}"
    first = f" since {shown_time(points[0].created_at)}" if points else ""
    charts = [
        verdicts_over_time(points, MOST_RUNS),
        columns(
            "Groups deleted",
            labels,
            [
                Series(words_of(name), kind, [point.outcomes.get(name, 0) for point in points])
                for name, kind in ((Outcome.DELETED, "c-live"), (Outcome.WOULD_DELETE, "c-settling"))
            ],
            over_time=True,
        ),
        _families(points, labels),
    ]
    runs = "run" if len(points) == 1 else "runs"
    body = (
        f"<header><h1>{text(title)}</h1><p>{len(points):,} {runs}{first} · page made {shown_time(now)}</p></header>"
        f'<section><h2>At a glance</h2><div class="charts wide">{"".join(charts)}</div></section>{_runs(points)}'
    )
    return render_page(title, body)


def _families(points: Sequence[TrendPoint], labels: Sequence[str]) -> str:
    newest = points[-1].families if points else {}
    names = sorted(newest, key=lambda name: (-newest[name], name))[: len(_FAMILY_KINDS)]
    series = [
        Series(name, kind, [point.families.get(name, 0) for point in points])
        for name, kind in zip(names, _FAMILY_KINDS, strict=False)
    ]
    # Of a run with so many families, the others are not on record, and had some groups or none; plans of earlier
    # versions, which knew no policy file either, have none on record.
    unknown = {
        (name, place)
        for place, point in enumerate(points)
        for name in names
        if name not in point.families
        and (len(point.families) >= MOST_FAMILIES or not (point.families or KeptName.BY_RULE in point.counts))
    }
    return columns("Groups of the largest families", labels, series, over_time=True, unknown=unknown)


def _runs(points: Sequence[TrendPoint]) -> str:
    rows = [
        [
            shown_time(point.created_at),
            f"<code>{escape(point.plan_id)}</code>",
            *(f"{point.counts.get(name, 0):,}" for name in _COUNTS),
            *(f"{point.outcomes.get(outcome, 0):,}" for outcome in (Outcome.DELETED, Outcome.KEPT)),
            {None: "not run", True: "dry run", False: "deletion"}[point.dry_run],
        ]
        for point in reversed(points)
    ]
    heads = ["Time", "Plan", *(name.capitalize() for name in _COUNTS), "Deleted", "Kept", "Kind"]
    shown = table(heads, rows, numeric=range(2, len(heads) - 1))
    return section("Runs", len(rows), shown, f"The newest {MOST_RUNS} are kept.", "No run.")
