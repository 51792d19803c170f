"""The page of the trend: the cluster over its runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.report.charts import run_labels, verdicts_over_time
from airflow_kafka_groups.report.page import render, words_of
from airflow_kafka_groups.report.svg import Series, columns
from airflow_kafka_groups.report.trend_points import MOST_FAMILIES, MOST_RUNS, TrendPoint

_FAMILY_KINDS = ("c-live", "c-moving", "c-stale", "c-other", "c-bad", "c-settling")
_COUNTS = ("found", "live", "moving", "settling", "stale", "planned")


def trend_page(cluster: str, points: Sequence[TrendPoint], now: datetime) -> str:
    """Return the page.

    :param points: the runs, oldest first.
    """
    labels = run_labels(points)
    title = f"Trend of the consumer groups of {cluster}"
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
    return render(
        "trend.html.j2", title=title, points=points, charts=charts, counts=_COUNTS, most_runs=MOST_RUNS, now=now
    )


def _families(points: Sequence[TrendPoint], labels: Sequence[str]) -> Markup:
    newest = points[-1].families if points else {}
    names = sorted(newest, key=lambda name: (-newest[name], name))[: len(_FAMILY_KINDS)]
    series = [
        Series(name, kind, [point.families.get(name, 0) for point in points])
        for name, kind in zip(names, _FAMILY_KINDS, strict=False)
    ]
    # Of a run with so many families, the others are not on record, and had some groups or none.
    unknown = {
        (name, place)
        for place, point in enumerate(points)
        for name in names
        if name not in point.families and len(point.families) >= MOST_FAMILIES
    }
    return columns("Groups of the largest families", labels, series, over_time=True, unknown=unknown)
