"""The runs of a cluster in numbers: ``reports/trend.json``.

Each report puts the entry of its plan there, and the newest runs stay. Nothing is decided by it: a damaged file begins
again, and an entry that two runs at once lose is written with the plan's next report.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.shown import shortened
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError, check_format, plain, read_model
from airflow_kafka_groups.storage.json_files import parse_json, write_json
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import REPORTS, TREND, is_id

log = logging.getLogger(__name__)

MOST_RUNS = 90
"""The number of runs that the trend has, the newest."""
MOST_FAMILIES = 20
"""The number of families that an entry has, the largest."""
_LONGEST_NAME = 100
_DAMAGED = (KeyError, TypeError, ValueError, OverflowError, AttributeError)
"""What an entry raises that is not as this package writes it. JSON's Infinity is no integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """One plan and its runs in numbers.

    :param counts: those of the plan.
    :param outcomes: the number of planned groups by outcome; empty before a run.
    :param dry_run: whether all its runs so far were dry ones; ``None`` before a run.
    :param families: the number of groups of the largest families.
    """

    plan_id: str
    created_at: datetime
    counts: Mapping[str, int]
    outcomes: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool | None = None
    families: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as the file has it."""
        return dict(plain(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrendPoint:
        """Read an entry. Raises one of ``_DAMAGED``."""
        point = read_model(cls, data)
        if not is_id(point.plan_id):
            raise ValueError(f"{point.plan_id!r} is not the id of a plan")
        return point


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
        families=_largest(plan.families),
    )


def update_trend(layout: Layout, point: TrendPoint | None = None) -> list[TrendPoint]:
    """Put an entry into the file, and return all of them, oldest first.

    :param point: the entry; it replaces an earlier one of the same plan. Default: nothing is written.

    Raises ``MaintenanceError`` for a file of a newer version, and ``StorageError``; the file is left as it is then.
    """
    stored = _stored(layout)
    if point is None:
        return [*stored]
    known = {each.plan_id: each for each in stored} | {point.plan_id: point}
    points = sorted(known.values(), key=lambda each: (each.created_at, each.plan_id))[-MOST_RUNS:]
    content = {"format": FORMAT, "cluster": layout.cluster, "runs": [each.to_json() for each in points]}
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
        return [TrendPoint.from_json(item) for item in data["runs"]]
    except (UnknownFormatError, MaintenanceError, *_DAMAGED) as exc:
        found = exc.found if isinstance(exc, UnknownFormatError) else None
        if isinstance(found, int) and found > FORMAT:  # what a newer version wrote is neither lost nor damaged
            raise MaintenanceError(f"{path} is left as it is: {exc}. Upgrade what writes the report") from exc
        log.warning("%s is damaged, and begins again: %s", path, exc)
    return []


def _largest(families: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    largest = sorted(families, key=lambda family: (-family["groups"], family["name"]))[:MOST_FAMILIES]
    found = Counter[str]()  # families may differ only beyond what is shown of their names
    for family in largest:
        found[shortened(family["name"], _LONGEST_NAME)] += family["groups"]
    return dict(found)
