"""The records of keep-alive runs in ``changes/``: which groups were kept alive, and when.

They have names of their own, so that they are found without reading the records of other changes. A run writes the
first file before it commits anything and the second one afterwards, so a run without a second file was interrupted: its
groups may have been kept alive. Each reader takes the file that is safe for it. The time of a run is when it began.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.contracts.ids import ID, is_cluster_name, parse_time, time_of
from airflow_kafka_groups.contracts.paths import CHANGES
from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.maintenance.durable_files import list_names
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, read_json

log = logging.getLogger(__name__)

WHAT = "keep-alive"
TAG = f"{WHAT}-"
KEPT_UNTIL = "kept_until"
KAFKA_CLUSTER_ID = "kafka_cluster_id"
_NAME = re.compile(rf"({ID})-{TAG}(before|result)\.json")
_DONE = "changed"
_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class KeptAlive:
    """A group that a keep-alive run meant to keep.

    :param at: when the run began.
    :param until: when its effect ends: no later than the brokers may forget the group.
    """

    at: datetime
    until: datetime


def last_kept(layout: Layout, since: datetime, kafka_cluster_id: str | None = None) -> dict[str, datetime]:
    """Return when the last verified keep-alive of each group began.

    A damaged record counts for nothing: its groups are kept alive once more, which does no harm.

    :param since: only runs that began at this time or later.
    :param kafka_cluster_id: the id that the brokers report: runs on another cluster prove nothing. Default: not known.

    Raises ``StorageError``.
    """
    found: dict[str, datetime] = {}
    for run_id, path in _runs(layout, "result", since):
        try:
            record = _read(path)
        except StorageError:
            raise
        except MaintenanceError as exc:
            log.warning("%s", exc)
            continue
        if record.get(KAFKA_CLUSTER_ID, kafka_cluster_id) != kafka_cluster_id:
            continue
        for group in record["groups"]:
            if group.get("outcome") == _DONE:
                found[str(group["group_id"])] = time_of(run_id)
    return found


def meant_to_stay(layout: Layout, kafka_cluster_id: str | None = None) -> dict[str, KeptAlive]:
    """Return the groups of every recorded keep-alive run, also of interrupted ones: somebody wants them to stay.

    :param layout: the paths of the cluster's files.
    :param kafka_cluster_id: the id that the brokers report: runs on it that were recorded in other folders of the
        storage count, too. Default: only this folder's runs.

    Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
    """
    found: dict[str, KeptAlive] = {}
    for each in (layout, *(_others(layout) if kafka_cluster_id else ())):
        for run_id, path in _runs(each, "before"):
            record = _read(path)
            if each is not layout and record.get(KAFKA_CLUSTER_ID) != kafka_cluster_id:
                continue
            at, until = time_of(run_id), parse_time(record[KEPT_UNTIL])
            for group in record["groups"]:
                before = found.get(str(group["group_id"]), KeptAlive(at, until))
                found[str(group["group_id"])] = KeptAlive(max(at, before.at), max(until, before.until))
    return found


def _others(layout: Layout) -> Iterator[Layout]:
    """Yield the other folders of the storage: other connections may lead to the same cluster."""
    for name in list_names(layout.base):
        if name == layout.cluster or not is_cluster_name(name):
            continue
        try:
            inside = list_names(layout.base / name)  # ``exists`` of a store may say no where it cannot tell
        except StorageError as exc:
            if isinstance(exc.__cause__, NotADirectoryError):
                continue
            raise
        if CHANGES in inside:
            yield Layout(layout.base, name)


def _runs(layout: Layout, part: str, since: datetime = _EVER) -> Iterator[tuple[str, StoragePath]]:
    """Yield each run's id and file, oldest first."""
    folder = layout.root / CHANGES
    for name in list_names(folder):
        match = _NAME.fullmatch(name)
        if match is not None and match[2] == part and time_of(match[1]) >= since.replace(microsecond=0):
            yield match[1], folder / name


def _read(path: StoragePath) -> dict[str, Any]:
    record = read_json(path, "the record of a keep-alive run", MaintenanceError)
    try:
        parse_time(record[KEPT_UNTIL])
        complete = all(isinstance(group["group_id"], str) for group in record["groups"])
    except (KeyError, TypeError, ValueError):
        complete = False
    if not complete:
        raise MaintenanceError(f"{path} is not the record of a keep-alive run: restore it from a copy, or remove it")
    return record
