"""Pruning of a cluster's old files. Other files in the same folders are not touched.

Files form sets: a snapshot is its manifest, rows, verdicts and observations; a clean-up is its plan, backup, audit
records and report; a change is its state before and its result. A set is removed completely or not at all. It is
removed if it is older than the limit of its kind (by the time in its id), is not among the newest of its kind, and
consists only of files that this package writes. A file with another name, or whose content contradicts its name, keeps
its set.

Later clean-ups spare groups by some sets: the record of a keep-alive run, which ages from the end of its effect, that
of a restore, and the audit records of versions without a journal. They outlive the snapshots from before that time,
which may show their groups idle.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from airflow_kafka_groups.contracts import paths
from airflow_kafka_groups.contracts.formats import FORMAT, OBSERVATIONS_FORMAT, PLAN_FORMATS
from airflow_kafka_groups.contracts.ids import ID, is_id, parse_time, time_of
from airflow_kafka_groups.contracts.paths import TableName
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.maintenance.keep_alive.records import (
    KEPT_AT,
    KEPT_UNTIL,
    RESTORE,
    WHAT,
    other_folders,
)
from airflow_kafka_groups.maintenance.report.page import HEAD
from airflow_kafka_groups.maintenance.snapshot.reader import snapshot_ids
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, read_json, storage_errors


class FileKind(StrEnum):
    """The kind of a file set."""

    SNAPSHOT = "snapshot"
    CLEANUP = "cleanup"
    CHANGE = "change"
    LISTING = "listing"


# For each kind: the folder, the pattern of its entries, and whether they are folders of Parquet files. The file that
# completes a set comes first, so that a partly removed set is not mistaken for a complete one.
_PLACES: Mapping[FileKind, tuple[tuple[str, re.Pattern[str], bool], ...]] = {
    FileKind.SNAPSHOT: (
        (paths.MANIFESTS, re.compile(rf"({ID})\.json"), False),
        (paths.MEMBERS, re.compile(rf"({ID})\.parquet"), False),
        (paths.SUBSCRIPTIONS, re.compile(rf"({ID})\.parquet"), False),
        (paths.VERDICTS, re.compile(rf"({ID})\.json"), False),
        (paths.VERDICTS, re.compile(rf"({ID})"), True),
        *(
            place
            for table in (TableName.VERDICTS, TableName.OBSERVATIONS)
            for place in (
                (paths.summaries(table), re.compile(rf"({ID})\.json"), False),
                (paths.table(table), re.compile(rf"snapshot_id=({ID})"), True),
            )
        ),
        (paths.DATA, re.compile(rf"({ID})"), True),
    ),
    FileKind.CLEANUP: (
        (paths.PLANS, re.compile(rf"({ID})\.json"), False),
        (paths.PLANS, re.compile(rf"({ID})\.parquet"), False),
        (paths.PRUNE_PLANS, re.compile(rf"({ID})\.json"), False),
        (paths.BACKUPS, re.compile(rf"({ID})\.json"), False),
        (paths.BACKUPS, re.compile(rf"({ID})(?:-[0-9a-f]{{8}})?\.parquet"), False),
        (paths.APPROVALS, re.compile(rf"({ID})"), True),
        (paths.AUDIT, re.compile(rf"({ID})-{ID}\.json"), False),
        (paths.REPORTS, re.compile(rf"({ID})\.html"), False),
    ),
    FileKind.CHANGE: (
        (paths.CHANGES, re.compile(rf"({ID})-(?:(?:{WHAT}|{RESTORE})-)?(?:before|result)\.json"), False),
    ),
    FileKind.LISTING: ((paths.LISTINGS, re.compile(rf"({ID})\.json"), False),),
}
_IN_FOLDER = re.compile(r"\d{6}\.json|(part-[\w.-]+\.parquet|_SUCCESS)|\.(part-[\w.-]+\.parquet|_SUCCESS)\.crc")
_OBSERVED = paths.summaries(TableName.OBSERVATIONS)
# The field of a JSON file that must be the id in its name; "" for none.
_OWN_NAME = {
    paths.MANIFESTS: "snapshot_id",
    _OBSERVED: "snapshot_id",
    paths.PLANS: "plan_id",
    paths.PRUNE_PLANS: "plan_id",
    paths.BACKUPS: "plan_id",
    paths.CHANGES: "run_id",
    paths.LISTINGS: "",
}
_FORMATS = {paths.PLANS: PLAN_FORMATS, _OBSERVED: (OBSERVATIONS_FORMAT,)}
_REPORT_BEGINS = HEAD.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningLimits:
    """How long files are kept. The ``keep_newest`` newest of each kind, at least one, are kept regardless of age."""

    days: Mapping[FileKind, float]
    keep_newest: int = 10


@dataclass(slots=True)
class FileSet:
    """Files that belong together. ``foreign``: why they must not be removed.

    ``until``: since when idle times count by what the files say, or later; ``None`` if no clean-up goes by them.
    """

    kind: FileKind
    id: str
    files: list[StoragePath] = field(default_factory=list)
    folders: list[StoragePath] = field(default_factory=list)
    foreign: str | None = None
    until: datetime | None = None

    @property
    def ages_from(self) -> datetime:
        """The time in the id, or the end of what the files say, if it is later."""
        return max(time_of(self.id), self.until or time_of(self.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """The files that were, or would be, removed.

    :param removed: ids by kind.
    :param files: the number of these files.
    :param kept: the number of remaining sets of each kind.
    :param foreign: sets that are old enough but were kept, with the reason.
    """

    dry_run: bool
    removed: Mapping[str, tuple[str, ...]]
    files: int
    kept: Mapping[str, int]
    foreign: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "dry_run": self.dry_run,
            "removed": {kind: len(ids) for kind, ids in self.removed.items()},
            "files": self.files,
            "kept": dict(self.kept),
            "foreign": dict(self.foreign),
        }


def prune(layout: Layout, limits: PruningLimits, *, now: datetime, dry_run: bool) -> PruneReport:
    """Remove old files of one cluster, the snapshots first.

    :param limits: maximum age in days by kind; kinds without an entry are kept.
    :param dry_run: only report what would be removed.

    Raises ``StorageError``. Files removed before the error are gone, and another run continues.
    """
    with storage_errors("pruned", layout.root):
        return _prune(layout, limits, now, dry_run)


def _prune(layout: Layout, limits: PruningLimits, now: datetime, dry_run: bool) -> PruneReport:
    removed: dict[str, tuple[str, ...]] = {}
    kept: dict[str, int] = {}
    foreign: dict[str, str] = {}
    files = 0
    snapshots_from = _oldest_snapshot(layout, ())
    for kind in (kind for kind in FileKind if kind in limits.days):  # snapshots first: records must outlive them
        sets = find_sets(layout, kind)
        newest = {file_set.id for file_set in sets[-max(limits.keep_newest, 1) :]}
        old = [one for one in sets if one.id not in newest and _is_old(one, limits, now, snapshots_from)]
        gone = [file_set for file_set in old if file_set.foreign is None]
        foreign |= {f"{kind.value} {file_set.id}": file_set.foreign for file_set in old if file_set.foreign is not None}
        for file_set in gone:
            files += len(file_set.files)
            if not dry_run:
                _remove(file_set)
        if kind is FileKind.SNAPSHOT:
            snapshots_from = _oldest_snapshot(layout, {file_set.id for file_set in gone})
        removed[kind.value] = tuple(file_set.id for file_set in gone)
        kept[kind.value] = len(sets) - len(gone)
    return PruneReport(dry_run=dry_run, removed=removed, files=files, kept=kept, foreign=foreign)


def _is_old(one: FileSet, limits: PruningLimits, now: datetime, snapshots_from: datetime | None) -> bool:
    """Return whether a set may be removed by its age.

    :param snapshots_from: the time of the oldest snapshot that is left: groups may seem to be idle since then.
    """
    days = limits.days[one.kind]
    if one.until is not None:
        if snapshots_from is not None and one.ages_from >= snapshots_from:
            return False
        days = max(days, limits.days.get(FileKind.SNAPSHOT, 0.0))
    return now - one.ages_from > timedelta(days=days)


def _oldest_snapshot(layout: Layout, removed: Collection[str]) -> datetime | None:
    """Return the time of the oldest snapshot in the storage, ``None`` if there is none.

    Other folders count, too: connections to the same cluster heed each other's records.

    :param removed: the ids of snapshots of this cluster that are removed, or would be.
    """
    folders = [layout, *(other for other, _ in other_folders(layout))]
    found = [id_ for folder in folders for id_ in snapshot_ids(folder) if folder != layout or id_ not in removed]
    return min(map(time_of, filter(is_id, found)), default=None)


def find_sets(layout: Layout, kind: FileKind) -> list[FileSet]:
    """Return the file sets of one kind, oldest first, including incomplete ones."""
    found: dict[str, FileSet] = {}
    for folder, pattern, is_folder in _PLACES[kind]:
        place = layout.root / folder
        for path in sorted(place.iterdir(), key=lambda path: path.name) if place.exists() else ():
            if match := pattern.fullmatch(path.name):
                file_set = found.setdefault(match[1], FileSet(kind, match[1]))
                _add(file_set, path, folder, is_folder, layout.cluster)
    for one in found.values():
        one.foreign = one.foreign or _why_unproven(one)
    return [found[id_] for id_ in sorted(found)]


def _add(file_set: FileSet, path: StoragePath, folder: str, is_folder: bool, cluster: str) -> None:
    if is_folder:
        file_set.folders.append(path)
        if isinstance(path, Path) and path.is_symlink():
            file_set.foreign = f"{path} is a link: what is behind it may be somebody else's"
            return
        for inside in _files_in(path):
            if not _IN_FOLDER.fullmatch(inside.name):
                file_set.foreign = f"{inside} is not a file of this package"
            file_set.files.append(inside)
        return
    file_set.files.append(path)
    if (why := _why_foreign(path, folder, file_set, cluster)) is not None:
        file_set.foreign = why


def _why_foreign(path: StoragePath, folder: str, file_set: FileSet, cluster: str) -> str | None:
    """Return why a file is not what its name says, ``None`` if it is. Row files are vouched for by their JSON file."""
    if folder == paths.REPORTS:
        with path.open("rb") as page:
            begin = page.read(len(_REPORT_BEGINS))
        return None if begin == _REPORT_BEGINS else f"{path} is not a report of this package"
    if folder not in (*_OWN_NAME, paths.AUDIT) or not path.name.endswith(".json"):
        return None
    try:
        content = read_json(path, "it", MaintenanceError, formats=_FORMATS.get(folder, (FORMAT,)))
    except MaintenanceError as error:
        return str(error)
    id_ = file_set.id
    if folder == paths.AUDIT:
        same = id_ in (content.get("plan_id"), content.get("run_id"))
    else:
        name = _OWN_NAME[folder]
        same = not name or (content.get(name), content.get("cluster")) == (id_, cluster)
    try:
        times = [parse_time(content[name]) for name in _counts_from(folder) if name in content]
    except (TypeError, ValueError):
        return f"{path} is not what its name says"
    file_set.until = max([*times, *([file_set.until] if file_set.until is not None else [])], default=None)
    return None if same else f"{path} is not what its name says"


def _counts_from(folder: str) -> tuple[str, ...]:
    """Return the fields with times from which idle times count, for clean-ups."""
    return {paths.CHANGES: (KEPT_AT, KEPT_UNTIL), paths.AUDIT: ("finished_at",)}.get(folder, ())


def _why_unproven(one: FileSet) -> str | None:
    """Return why rows may be somebody else's, ``None`` when each folder's JSON file says that they are ours."""
    places = [str(path) for path in one.files]
    for folder, what in ((paths.PLANS, "header"), (paths.BACKUPS, "manifest")):
        rows = [place for place in places if f"/{folder}/" in place and place.endswith(".parquet")]
        if one.kind is FileKind.CLEANUP and rows and not any(f"/{folder}/{one.id}.json" in place for place in places):
            return f"{rows[0]} has no {what}: nothing says that this package wrote it"
    return None


def _files_in(folder: StoragePath) -> Iterator[StoragePath]:
    yield from sorted(folder.iterdir(), key=lambda path: path.name)


def _remove(file_set: FileSet) -> None:
    for path in file_set.files:
        path.unlink()
    for folder in file_set.folders:
        if folder.exists():  # object stores have no empty folders
            folder.rmdir()
