"""The OpenMetrics file of a cluster: text that Prometheus, its node exporter and other scrapers read.

All metrics are gauges without timestamps, because node_exporter's textfile collector, which reads the older text
format, accepts the file then, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from airflow_kafka_groups.exceptions import ConfigurationError, StorageError
from airflow_kafka_groups.report.group_metrics import GroupMetrics, Numbers
from airflow_kafka_groups.storage.layout import StoragePath, write_file
from airflow_kafka_groups.storage.storage_access import raised_by

PREFIX = "kafka_groups"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_ZERO = re.compile(r"(?<!\\)(\\*)(\0|x00)")
"""A zero byte, and what it is shown as: to Prometheus's lexer, that byte is the end of the file, and it refuses all."""


class MetricFamily(NamedTuple):
    """A metric of the file.

    :param name: its name without the prefix.
    :param labels: the labels that it has beside ``cluster``.
    :param unit: its unit, which the name ends with; empty for none.
    :param help: one sentence.
    """

    name: str
    labels: tuple[str, ...]
    unit: str
    help: str


METRIC_FAMILIES = (
    MetricFamily(
        "lag_records",
        ("group",),
        "records",
        "Records that the group has not read. A lower bound where a log end is unknown.",
    ),
    MetricFamily(
        "since_movement_seconds",
        ("group",),
        "seconds",
        "Time from the last change of a committed offset to the snapshot. A lower bound where no snapshot shows one.",
    ),
    MetricFamily(
        "expiry_days",
        ("group",),
        "days",
        "Days from the snapshot until the brokers forget the offsets of the group if it stays idle.",
    ),
    MetricFamily("family_groups", ("family",), "", "Number of groups of a family."),
    MetricFamily("family_lag_records", ("family",), "records", "Sum of lag_records over the groups of a family."),
    MetricFamily(
        "family_since_movement_seconds",
        ("family",),
        "seconds",
        "Smallest since_movement_seconds of the groups of a family.",
    ),
    MetricFamily("family_expiry_days", ("family",), "days", "Smallest expiry_days of the groups of a family."),
    MetricFamily("groups_by_verdict", ("verdict",), "", "Number of groups of the snapshot, by verdict."),
    MetricFamily("omitted_groups", (), "", "Number of groups and families without series of their own: max_groups."),
    MetricFamily("snapshot_timestamp_seconds", (), "seconds", "Time of the judged snapshot, in seconds since 1970."),
)
"""All metrics of the file, in its order."""


def openmetrics(cluster: str, metrics: GroupMetrics) -> str:
    """Return the file's text.

    :param cluster: the value of the label ``cluster``.
    """
    samples = _samples(metrics)
    return "".join(_lines(cluster, family, samples[family.name]) for family in METRIC_FAMILIES) + "# EOF\n"


def write_openmetrics(path: StoragePath, cluster: str, metrics: GroupMetrics) -> StoragePath:
    """Replace the file. On a disk, a scraper sees the old or the new one, never a part.

    Raises ``MaintenanceError``, ``StorageError``, and ``ConfigurationError`` for a folder.
    """
    try:
        return write_file(path.parent, path.name, openmetrics(cluster, metrics).encode())
    except StorageError as error:
        if isinstance(raised_by(error), IsADirectoryError):
            raise ConfigurationError("openmetrics_path", str(path), "is a folder: name the file in it") from None
        raise


def _samples(metrics: GroupMetrics) -> Mapping[str, Iterable[tuple[str, float | None]]]:
    """Return the values of each metric with the value of its own label."""
    families = {name: numbers for name, (_, numbers) in metrics.families.items()}
    at = None if metrics.observed_at is None else metrics.observed_at.timestamp()
    return {
        **_three("", metrics.groups),
        **_three("family_", families),
        "family_groups": [(name, count) for name, (count, _) in metrics.families.items()],
        "groups_by_verdict": list(metrics.verdicts.items()),
        "omitted_groups": [("", metrics.omitted)],
        "snapshot_timestamp_seconds": [("", at)],
    }


def _three(prefix: str, numbers: Mapping[str, Numbers]) -> dict[str, list[tuple[str, float | None]]]:
    return {
        f"{prefix}lag_records": [(name, each.lag) for name, each in numbers.items()],
        f"{prefix}since_movement_seconds": [(name, each.idle) for name, each in numbers.items()],
        f"{prefix}expiry_days": [(name, each.expiry_days) for name, each in numbers.items()],
    }


def _lines(cluster: str, family: MetricFamily, samples: Iterable[tuple[str, float | None]]) -> str:
    name = f"{PREFIX}_{family.name}"
    unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
    head = f"# TYPE {name} gauge\n{unit}# HELP {name} {family.help}\n"
    return head + "".join(_sample(name, cluster, family.labels, samples))


def _sample(
    name: str, cluster: str, labels: tuple[str, ...], samples: Iterable[tuple[str, float | None]]
) -> Iterator[str]:
    for own, value in samples:
        if value is not None:
            pairs = {"cluster": cluster, **dict.fromkeys(labels, own)}
            shown = ",".join(f'{label}="{_without_zeros(text).translate(_ESCAPES)}"' for label, text in pairs.items())
            yield f"{name}{{{shown}}} {value!r}\n"


def _without_zeros(text: str) -> str:
    r"""Write zero bytes as ``\x00``, and one more backslash for each before that, so that no two ids look the same."""
    return _ZERO.sub(lambda found: found[1] * 2 + (r"\x00" if found[2] == "\0" else found[2]), text)
