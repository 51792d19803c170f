"""The runs of a cluster in numbers: ``reports/trend.json``, and the page that shows them.

Each report puts the entry of its plan into the file, and the newest runs stay. Nothing is decided by it: a damaged file
begins again, and an entry that two runs at once lose is written with the plan's next report.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from markupsafe import Markup

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.report.charts import Series, columns, time_labels
from airflow_kafka_groups.report.page import render, words_of
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT, check_format, plain, read_model
from airflow_kafka_groups.storage.json_files import parse_json, write_json
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import REPORTS, TREND

log = logging.getLogger(__name__)

MOST_RUNS = 90
"""The number of runs that the trend has, the newest."""
SHOWN_RUNS = 30
"""The number of runs in a chart of the report; the trend page has more."""
_DAMAGED = (MaintenanceError, KeyError, TypeError, ValueError, OverflowError, AttributeError)
"""What a file raises that is not as this package writes it. JSON's Infinity is no integer."""
_VERDICTS: Mapping[str, tuple[str, str]] = {
    VerdictName.LIVE: ("live", "c-live"),
    VerdictName.MOVING: ("moving", "c-moving"),
    VerdictName.SETTLING: ("settling", "c-settling"),
    VerdictName.STALE: ("stale", "c-stale"),
    VerdictName.NO_OFFSETS: ("no offsets", "c-other"),
    VerdictName.UNTOUCHABLE: ("untouchable", "c-other2"),
    VerdictName.UNREADABLE: ("unreadable", "c-bad"),
}
"""The name and the colour of each verdict."""
_COUNTS = ("found", "live", "moving", "settling", "stale", "planned")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """One plan and its runs in numbers.

    :param counts: those of the plan.
    :param outcomes: the number of planned groups by outcome; empty before a run.
    :param dry_run: whether all its runs so far were dry ones; ``None`` before a run.
    """

    plan_id: str
    created_at: datetime
    counts: Mapping[str, int]
    outcomes: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool | None = None


def point_of(
    plan: DeletionPlan, outcomes: Mapping[str, Mapping[str, str]], *, dry_run: bool | None = None
) -> TrendPoint:
    """Return the entry of a plan.

    :param outcomes: the latest outcome of each group, as ``merge_outcomes`` returns it.
    :param dry_run: whether all its runs so far were dry ones. Default: it was not run.
    """
    found = Counter(item["outcome"] for item in outcomes.values())
    return TrendPoint(
        plan_id=plan.plan_id,
        created_at=plan.created_at,
        counts=plan.counts,
        outcomes=dict(sorted(found.items())),
        dry_run=dry_run,
    )


def update_trend(layout: Layout, point: TrendPoint | None = None) -> Sequence[TrendPoint]:
    """Put an entry into the file, and return all of them, oldest first.

    :param point: the entry; it replaces an earlier one of the same plan. Default: nothing is written.

    Raises ``StorageError``; the file is left as it is then.
    """
    stored = _stored(layout)
    if point is None:
        return stored
    known = {each.plan_id: each for each in stored} | {point.plan_id: point}
    points = sorted(known.values(), key=lambda each: (each.created_at, each.plan_id))[-MOST_RUNS:]
    content = {"format": FORMAT, "cluster": layout.cluster, "runs": [plain(each) for each in points]}
    write_json(layout.root / REPORTS, TREND, content)
    return points


def _stored(layout: Layout) -> Sequence[TrendPoint]:
    path = layout.root / REPORTS / TREND
    content = FILES.read(path)
    if content is None:
        return []
    try:
        data = parse_json(content, path, "the trend", MaintenanceError, has_format=False)
        check_format(data)
        return [read_model(TrendPoint, item) for item in data["runs"]]
    except _DAMAGED as exc:
        log.warning("%s is damaged, and begins again: %s", path, exc)
    return []


def trend_page(cluster: str, points: Sequence[TrendPoint], now: datetime) -> str:
    """Return the page.

    :param points: the runs, oldest first.
    """
    labels = time_labels([point.created_at for point in points])
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
    ]
    shown: dict[str, Any] = {"points": points, "charts": charts, "counts": _COUNTS, "most_runs": MOST_RUNS, "now": now}
    return render("trend.html.j2", title=f"Trend of the consumer groups of {cluster}", **shown)


def verdicts_over_time(points: Sequence[TrendPoint], most: int = SHOWN_RUNS) -> Markup:
    """Return the chart of the number of groups of the newest runs, by verdict.

    :param points: the runs, oldest first.
    """
    shown = points[-most:]
    series = [
        Series(name, kind, [point.counts.get(verdict, 0) for point in shown])
        for verdict, (name, kind) in _VERDICTS.items()
    ]
    labels = time_labels([point.created_at for point in shown])
    return columns("Groups over time, by verdict", labels, series, over_time=True)
