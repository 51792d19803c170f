"""The records of keep-alive runs in ``changes/``: which groups were kept alive, and when.

They have names of their own, so that they are found without reading the records of other changes. A run writes the
first file before it commits anything and the second one afterwards, so a run without a second file was interrupted: its
groups may have been kept alive. Each reader takes the file that is safe for it. The time of a run is when it began:
for what is due by the worker's own clock; for what a clean-up spares, no earlier than what others recorded before.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_groups.contracts.ids import ID, is_cluster_name, is_id, parse_time, time_of
from airflow_kafka_groups.contracts.paths import CHANGES
from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.maintenance.durable_files import list_names
from airflow_kafka_groups.maintenance.snapshot.reader import snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, read_json

log = logging.getLogger(__name__)

WHAT = "keep-alive"
TAG = f"{WHAT}-"
KEPT_AT = "kept_at"
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


def latest_known_time(layout: Layout, now: datetime) -> datetime:
    """Return the time of day, or that of the newest snapshot where this clock is behind it.

    A clean-up compares the times of snapshots with those of keep-alive runs: a clock that is behind must not make a run
    look older than it is.

    :param now: the time of day by this worker's clock.

    Raises ``StorageError``.
    """
    known = [time_of(snapshot_id) for snapshot_id in snapshot_ids(layout) if is_id(snapshot_id)]
    latest = max(known, default=now)
    if latest > now:
        log.warning("The clock says %s, and there is a snapshot of %s: mend the clock", now, latest)
    return max(now, latest)


class KeepAliveRecords:
    """The groups of every recorded keep-alive run, also of interrupted ones: somebody wants them to stay.

    :param kafka_cluster_id: the id that the brokers report: runs on it that were recorded in other folders of the
        storage count, too. Default: only this folder's runs.
    """

    def __init__(self, layout: Layout, kafka_cluster_id: str | None = None) -> None:
        self._layout = layout
        self._kafka_cluster_id = kafka_cluster_id
        self._folders = [layout]
        self._seen: set[str] = set()

    def read(self) -> dict[str, KeptAlive]:
        """Return the groups of all runs.

        Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
        """
        self._seen.clear()
        self._folders = [self._layout]
        found = self._read_new(self._layout)
        for other in _others(self._layout) if self._kafka_cluster_id else ():
            if of_this_cluster := self._read_new(other):
                self._folders.append(other)
                _merge(found, of_this_cluster)
        return found

    def read_new(self) -> dict[str, KeptAlive]:
        """Return the groups of the runs that were recorded since, in the folders that had runs of this cluster.

        Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
        """
        found: dict[str, KeptAlive] = {}
        for folder in self._folders:
            _merge(found, self._read_new(folder))
        return found

    def _read_new(self, folder: Layout) -> dict[str, KeptAlive]:
        found: dict[str, KeptAlive] = {}
        for run_id, path in _runs(folder, "before"):
            if str(path) in self._seen:
                continue
            record = _read(path)
            self._seen.add(str(path))
            if folder is not self._layout and record.get(KAFKA_CLUSTER_ID) != self._kafka_cluster_id:
                continue
            at, until = time_of(run_id), parse_time(record[KEPT_UNTIL])
            if KEPT_AT in record:
                at = max(at, parse_time(record[KEPT_AT]))
            _merge(found, {str(group["group_id"]): KeptAlive(at, until) for group in record["groups"]})
        return found


def meant_to_stay(layout: Layout, kafka_cluster_id: str | None = None) -> dict[str, KeptAlive]:
    """Return the groups of every recorded keep-alive run, see ``KeepAliveRecords``.

    :param kafka_cluster_id: the id that the brokers report. Default: only this folder's runs.

    Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
    """
    return KeepAliveRecords(layout, kafka_cluster_id).read()


def _merge(found: dict[str, KeptAlive], more: Mapping[str, KeptAlive]) -> None:
    for group_id, kept in more.items():
        before = found.get(group_id, kept)
        found[group_id] = KeptAlive(max(kept.at, before.at), max(kept.until, before.until))


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
        parse_time(record.get(KEPT_AT, record[KEPT_UNTIL]))
        complete = all(isinstance(group["group_id"], str) for group in record["groups"])
    except (KeyError, TypeError, ValueError):
        complete = False
    if not complete:
        raise MaintenanceError(f"{path} is not the record of a keep-alive run: restore it from a copy, or remove it")
    return record
