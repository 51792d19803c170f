"""Which groups keep-alive runs and restores want to stay, by their records in the folders of all connections."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from typing import Any

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.ledger.keep_alive_records import (
    KAFKA_CLUSTER_ID,
    KEPT_AT,
    KEPT_UNTIL,
    KINDS,
    RESTORE,
    SHOWN,
    WHAT,
    KeptAlive,
)
from airflow_kafka_groups.observe.snapshot.cluster_folders import may_be_of, noted_folders, other_folders
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import CHANGES, ID, is_id, parse_time, time_of

log = logging.getLogger(__name__)

_NAME = re.compile(rf"({ID})-({'|'.join(KINDS)})-(before|result)\.json")
_DONE = "changed"


def last_kept(layout: Layout, since: datetime, kafka_cluster_id: str | None = None) -> dict[str, datetime]:
    """Return when the last verified keep-alive of each group began.

    A damaged record counts for nothing, nor does one that does not say of which cluster it is: its groups are kept
    alive once more, which does no harm.

    :param since: only runs that began at this time or later.
    :param kafka_cluster_id: the id that the brokers report: runs on another cluster prove nothing. Default: not known.

    Raises ``StorageError``.
    """
    found: dict[str, datetime] = {}
    runs = list(_runs(layout, "result", (WHAT,), since))
    records = read_few(_read_if_whole, [path for _, _, path in runs])
    for (run_id, _, _), record in zip(runs, records, strict=True):
        if record is None or record.get(KAFKA_CLUSTER_ID) != kafka_cluster_id:
            continue
        at = time_of(run_id)
        found |= {group_id: at for group_id, outcome in record["groups"].items() if outcome == _DONE}
    return found


class KeepAliveRecords:
    """The groups of every recorded keep-alive run and restore, also of interrupted ones: somebody wants them to stay.

    Another program or the brokers may have removed a group that is restored before a snapshot showed that it was gone:
    then it looks as if it had been idle all the time, to a plan that was made before as to the next one.

    :param kafka_cluster_id: the id that the brokers report: runs on it that were recorded in other folders of the
        storage count, too. Default: only this folder's runs.
    :param kinds: the kinds of runs. Default: both.
    """

    def __init__(self, layout: Layout, kafka_cluster_id: str | None = None, kinds: Collection[str] = KINDS) -> None:
        self._layout = layout
        self._kafka_cluster_id = kafka_cluster_id
        self._kinds = kinds
        self._folders = [layout]
        self._looked_at: set[str] = set()
        self._seen: set[str] = set()

    def read(self) -> dict[str, KeptAlive]:
        """Return the groups of all runs.

        Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
        """
        self._seen.clear()
        self._looked_at.clear()
        self._folders = [self._layout]
        return self.read_new()

    def read_new(self) -> dict[str, KeptAlive]:
        """Return the groups of the runs that were recorded since, in new folders and those that may be of this cluster.

        Raises ``MaintenanceError`` for a record that is damaged, and ``StorageError``.
        """
        found: dict[str, KeptAlive] = {}
        noted: set[str] = set()
        if self._kafka_cluster_id:  # of another cluster until now: what is recorded there from now on counts
            noted = noted_folders(self._layout, self._kafka_cluster_id, self._folders)
        for folder in self._folders:
            _merge(found, self._read_new(folder))
        new = list(other_folders(self._layout, self._looked_at - noted)) if self._kafka_cluster_id else []
        may_be_here = read_few(lambda other: may_be_of(other, self._kafka_cluster_id), [other for other, _ in new])
        for (other, inside), is_here in zip(new, may_be_here, strict=True):
            of_this_cluster = self._read_new(other) if CHANGES in inside else {}
            if of_this_cluster or is_here or other.cluster in noted:
                self._folders.append(other)
            self._looked_at.add(other.cluster)
            _merge(found, of_this_cluster)
        return found

    def _read_new(self, folder: Layout) -> dict[str, KeptAlive]:
        found: dict[str, KeptAlive] = {}
        runs = [run for run in _runs(folder, "before", self._kinds) if str(run[2]) not in self._seen]
        records = read_few(_read, [path for _, _, path in runs], [kind for _, kind, _ in runs])
        may_be_here = cache(partial(may_be_of, folder, self._kafka_cluster_id))  # once for all records
        for (run_id, kind, path), record in zip(runs, records, strict=True):
            self._seen.add(str(path))
            if not record["groups"]:
                continue
            if folder is not self._layout:
                # Brokers that start may not know their cluster's id yet.
                named = record.get(KAFKA_CLUSTER_ID)
                if not may_be_here() if named is None else named != self._kafka_cluster_id:
                    continue
            if not is_id(run_id):  # a copy that somebody named may be of no such day
                raise _no_record(path, SHOWN[kind])
            at = time_of(run_id)
            if KEPT_AT in record:
                at = max(at, parse_time(record[KEPT_AT]))
            what = SHOWN[kind] if record.get("what", kind) == kind else f"a change ({record['what']})"
            kept = KeptAlive(at, at if kind == RESTORE else parse_time(record[KEPT_UNTIL]), what)
            _merge(found, dict.fromkeys(record["groups"], kept))
        return found


def _merge(found: dict[str, KeptAlive], more: Mapping[str, KeptAlive]) -> None:
    for group_id, kept in more.items():
        before = found.get(group_id, kept)
        later, until = max(kept, before, key=lambda each: each.at), max(kept.until, before.until)
        own_end = None if until == later.until else later.until
        found[group_id] = replace(later, until=until, own_end=later.own_end or own_end)


def _runs(
    layout: Layout, part: str, kinds: Collection[str], since: datetime | None = None
) -> Iterator[tuple[str, str, StoragePath]]:
    """Yield the id, kind and file of each run of these kinds, oldest first."""
    folder = layout.root / CHANGES
    for name in FILES.names(folder):
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in kinds or match[3] != part:
            continue
        # Without a limit no time is parsed: this is asked before and after each intent, of thousands of records.
        if since is None or (is_id(match[1]) and time_of(match[1]) >= since.replace(microsecond=0)):
            yield match[1], match[2], folder / name


def _read_if_whole(path: StoragePath) -> dict[str, Any] | None:
    """Read the result of a keep-alive run; ``None``, and a warning, for one that is damaged."""
    try:
        return _read(path, WHAT)
    except StorageError:
        raise
    except MaintenanceError as exc:
        log.warning("%s", exc)
        return None


def _read(path: StoragePath, kind: str) -> dict[str, Any]:
    what, needed = SHOWN[kind], KEPT_AT if kind == RESTORE else KEPT_UNTIL
    record = read_json(path, f"the record of {what}", MaintenanceError)
    try:
        parse_time(record[needed])
        parse_time(record.get(KEPT_AT, record[needed]))
        complete = all(isinstance(group["group_id"], str) for group in record["groups"])
    except (KeyError, TypeError, ValueError):
        complete = False
    if not complete:
        raise _no_record(path, what)
    # Without the offsets: those of several large records at once would take gigabytes.
    record["groups"] = {group["group_id"]: group.get("outcome") for group in record["groups"]}
    return record


def _no_record(path: StoragePath, what: str) -> MaintenanceError:
    return MaintenanceError(f"{path} is not the record of {what}: restore it from a copy, or remove it")
