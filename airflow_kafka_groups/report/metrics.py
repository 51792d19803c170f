"""The OpenMetrics file of a cluster, with the numbers of each group and family, and a limit for its series.

Two things bound the series of a scraper. Groups whose ids are generated, such as ``report-<uuid>``, are one series for
their family: every run makes new ones, so their ids would grow a time series database without end. Of the others,
those with the largest lag are reported up to a limit, and the number of those left out is a metric of its own.

All metrics are gauges without timestamps, because node_exporter's textfile collector, which reads the older text
format, accepts the file then, too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.policy.families import family_of
from airflow_kafka_groups.ledger.verdicts import Verdicts, load_verdicts, newest_judged
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.schemas import utc_times

MAX_SERIES_GROUPS = 10_000
"""The largest limit of groups: a scraper that needs more should aggregate first."""
_DAY_SECONDS = 86_400.0
_LONGEST_NAME = 200


class Gauges(NamedTuple):
    """What is measured of a group, or of a family as a whole. ``None`` is not known, and not reported.

    :param lag: unread records; a lower bound where some log ends are unknown. Of a family: the sum.
    :param idle: seconds from the last movement of an offset to the snapshot; a lower bound where none was seen. Of a
        family: the smallest.
    :param expiry_days: days from the snapshot until the brokers forget the offsets. Of a family: the smallest.
    """

    lag: int | None
    idle: float | None
    expiry_days: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    """The metrics of one snapshot.

    :param groups: the numbers of each reported group, by the name that is shown for it.
    :param families: the number of groups, and the numbers, of each family with at least two groups.
    :param omitted: the number of groups and families over the limit.
    :param verdicts: the number of groups by verdict, of all groups.
    :param observed_at: the newest observation, ``None`` without groups.
    """

    groups: Mapping[str, Gauges] = field(default_factory=dict)
    families: Mapping[str, tuple[int, Gauges]] = field(default_factory=dict)
    omitted: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    observed_at: datetime | None = None


def metrics_of_snapshot(
    layout: Layout, snapshot_id: str | None, selected: GroupFilter, max_groups: int
) -> tuple[str, GroupMetrics]:
    """Return the id of a judged snapshot, and its metrics.

    :param snapshot_id: the snapshot; ``None`` for the newest judged one.
    :param max_groups: the maximum number of single groups, and of families.

    Raises ``SnapshotError`` if there is no judged snapshot or its verdicts cannot be read, and ``StorageError``.
    """
    if (known := snapshot_id or newest_judged(layout)) is None:
        raise SnapshotError(f"no snapshot in {layout.root} is judged. Run judge_staleness first")
    return known, group_metrics(load_verdicts(layout, known), selected, max_groups)


def group_metrics(verdicts: Verdicts, selected: GroupFilter, max_groups: int) -> GroupMetrics:
    """Compute the metrics of a snapshot.

    :param max_groups: the maximum number of single groups, and of families.
    """
    counts = Counter(verdicts.table["verdict"].to_pylist())
    members: dict[tuple[str, bool], list[tuple[str, Gauges]]] = {}
    newest: datetime | None = None
    for group_id, observed_at, numbers in _rows(verdicts.table):
        newest = observed_at if newest is None else max(newest, observed_at)
        # To Prometheus's lexer, a zero byte is the end of the file, and it refuses all of it.
        if "\0" not in group_id and selected.selects(group_id):
            family = family_of(group_id)
            name = (group_id, False) if family is None else (family.name, True)
            members.setdefault(name, []).append((group_id, numbers))
    # The only group of a family is shown as it is: nothing shows yet that its id is generated.
    single = {shown_name(found[0][0]): found[0][1] for found in members.values() if len(found) == 1}
    whole = {
        shown_name(name): (len(found), _sum_of([numbers for _, numbers in found]))
        for (name, _), found in members.items()
        if len(found) > 1
    }
    groups = _largest({name: (numbers.lag, numbers) for name, numbers in single.items()}, max_groups)
    families = _largest({name: (numbers.lag, (size, numbers)) for name, (size, numbers) in whole.items()}, max_groups)
    return GroupMetrics(
        groups=groups,
        families=families,
        omitted=len(single) + len(whole) - len(groups) - len(families),
        verdicts=dict(sorted(counts.items())),
        observed_at=newest,
    )


def shown_name(name: str) -> str:
    """Return a name of bearable length that no other name has: the end of a long one is replaced by its digest."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}…{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _rows(table: Any) -> Iterable[tuple[str, datetime, Gauges]]:
    times = (utc_times(table[name]) for name in ("observed_at", "last_moved_at", "first_seen_at", "offsets_expire_by"))
    rows = zip(table["group_id"].to_pylist(), table["lag"].to_pylist(), *times, strict=True)
    for group_id, lag, observed_at, moved_at, seen_at, expires_at in rows:
        since = moved_at or seen_at
        idle = None if since is None else (observed_at - since).total_seconds()
        expiry = None if expires_at is None else (expires_at - observed_at).total_seconds() / _DAY_SECONDS
        yield group_id, observed_at, Gauges(lag, idle, expiry)


def _sum_of(groups: list[Gauges]) -> Gauges:
    lags, idle, expiry = ([value for value in values if value is not None] for values in zip(*groups, strict=True))
    return Gauges(sum(lags) if lags else None, min(idle, default=None), min(expiry, default=None))


def _largest(found: Mapping[str, tuple[int | None, Any]], most: int) -> dict[str, Any]:
    """Return those with the largest lag, sorted by name."""
    by_lag = sorted(found, key=lambda name: (-(found[name][0] or 0), name))
    return {name: found[name][1] for name in sorted(by_lag[:most])}


PREFIX = "kafka_groups"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_UNITS = ("records", "seconds", "days")
_Samples = Callable[[GroupMetrics], Iterable[tuple[str, float | None]]]


class MetricFamily(NamedTuple):
    """A metric of the file.

    :param name: its name without the prefix. It ends with its unit, if it has one.
    :param labels: the labels that it has beside ``cluster``.
    :param samples: returns its values, each with that of its own label.
    :param help: one sentence.
    """

    name: str
    labels: tuple[str, ...]
    samples: _Samples
    help: str

    @property
    def unit(self) -> str:
        """Its unit; empty for none."""
        last = self.name.rpartition("_")[2]
        return last if last in _UNITS else ""


def _of_groups(field: str) -> _Samples:
    return lambda metrics: ((name, getattr(numbers, field)) for name, numbers in metrics.groups.items())


def _of_families(field: str) -> _Samples:
    return lambda metrics: ((name, getattr(numbers, field)) for name, (_, numbers) in metrics.families.items())


_MEASURED = (
    ("lag_records", "lag", "Sum of", "Records that the group has not read. A lower bound where a log end is unknown."),
    (
        "since_movement_seconds",
        "idle",
        "Smallest",
        "Time from the last change of a committed offset to the snapshot. A lower bound where no snapshot shows one.",
    ),
    (
        "expiry_days",
        "expiry_days",
        "Smallest",
        "Days from the snapshot until the brokers forget the offsets of the group if it stays idle.",
    ),
)
"""What ``Gauges`` has: its name, its field, and what a family and a group have of it."""

METRIC_FAMILIES = (
    *(MetricFamily(name, ("group",), _of_groups(field), text) for name, field, _, text in _MEASURED),
    MetricFamily(
        "family_groups",
        ("family",),
        lambda metrics: ((name, count) for name, (count, _) in metrics.families.items()),
        "Number of groups of a family.",
    ),
    *(
        MetricFamily(f"family_{name}", ("family",), _of_families(field), f"{how} {name} of the groups of a family.")
        for name, field, how, _ in _MEASURED
    ),
    MetricFamily(
        "groups_by_verdict",
        ("verdict",),
        lambda metrics: metrics.verdicts.items(),
        "Number of groups of the snapshot, by verdict.",
    ),
    MetricFamily(
        "omitted_groups",
        (),
        lambda metrics: [("", metrics.omitted)],
        "Number of groups and families without series of their own: max_groups.",
    ),
    MetricFamily(
        "snapshot_timestamp_seconds",
        (),
        lambda metrics: [("", metrics.observed_at.timestamp() if metrics.observed_at else None)],
        "Time of the judged snapshot, in seconds since 1970.",
    ),
)
"""All metrics of the file, in its order."""


def openmetrics(cluster: str, metrics: GroupMetrics) -> str:
    """Return the file's text.

    :param cluster: the value of the label ``cluster``.
    """
    return "".join(_lines(cluster, family, metrics) for family in METRIC_FAMILIES) + "# EOF\n"


def _lines(cluster: str, family: MetricFamily, metrics: GroupMetrics) -> str:
    name = f"{PREFIX}_{family.name}"
    unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
    lines = [f"# TYPE {name} gauge\n{unit}# HELP {name} {family.help}\n"]
    for own, value in family.samples(metrics):
        if value is not None:
            labels = {"cluster": cluster, **dict.fromkeys(family.labels, own)}
            shown = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
            lines.append(f"{name}{{{shown}}} {value!r}\n")
    return "".join(lines)


def write_openmetrics(path: StoragePath, cluster: str, metrics: GroupMetrics) -> StoragePath:
    """Replace the file. On a disk, a scraper sees the old or the new one, never a part.

    Raises ``StorageError``.
    """
    FILES.replace(path, openmetrics(cluster, metrics).encode())
    return path
