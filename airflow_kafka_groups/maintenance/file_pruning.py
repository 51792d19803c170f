"""Which of a cluster's old files may go, and removing them. Nothing else is touched, whatever lies beside them.

Files belong together: a snapshot is its manifest, its rows and its verdicts; a clean-up is its plan, backup, audit
records and report; a change is what was before and what became of it. All or nothing of them goes. What may go is older
than its kind's retention by the time in its id, is not among the newest of its kind, and consists only of files that
this package writes: whatever has another name, or does not say of itself what its name says, keeps its whole set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.maintenance.report.html import HEAD
from airflow_kafka_groups.maintenance.storage import Layout, StoragePath, read_json


class FileKind(StrEnum):
    """Say what files are of."""

    SNAPSHOT = "snapshot"
    CLEANUP = "cleanup"
    CHANGE = "change"
    LISTING = "listing"


_ID = r"\d{8}T\d{6}Z-[0-9a-f]{8}"
# Folder, what its entries are called, whether they are folders of Parquet files. The file that vouches for a set comes
# first: once it is gone, a set that is removed half is not taken for a whole one.
_PLACES: Mapping[FileKind, tuple[tuple[str, re.Pattern[str], bool], ...]] = {
    FileKind.SNAPSHOT: (
        ("manifests", re.compile(rf"({_ID})\.json"), False),
        ("verdicts", re.compile(rf"({_ID})\.json"), False),
        ("verdicts", re.compile(rf"({_ID})"), True),
        ("data", re.compile(rf"({_ID})"), True),
    ),
    FileKind.CLEANUP: (
        ("plans", re.compile(rf"({_ID})\.json"), False),
        ("backups", re.compile(rf"({_ID})\.json"), False),
        ("backups", re.compile(rf"({_ID})\.parquet"), False),
        ("audit", re.compile(rf"({_ID})-{_ID}\.json"), False),
        ("reports", re.compile(rf"({_ID})\.html"), False),
    ),
    FileKind.CHANGE: (("changes", re.compile(rf"({_ID})-(?:before|result)\.json"), False),),
    FileKind.LISTING: (("listings", re.compile(rf"({_ID})\.json"), False),),
}
_IN_FOLDER = re.compile(r"(part-[\w.-]+\.parquet|_SUCCESS)|\.(part-[\w.-]+\.parquet|_SUCCESS)\.crc")
# The field of a JSON file that has to be the id in its name; "" for one that has none.
_OWN_NAME = {"manifests": "snapshot_id", "plans": "plan_id", "backups": "plan_id", "changes": "run_id", "listings": ""}
_REPORT_BEGINS = HEAD.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Say how long files are kept. ``keep_newest`` of each kind are kept whatever their age; at least one."""

    days: Mapping[FileKind, float]
    keep_newest: int = 10


@dataclass(slots=True)
class FileSet:
    """Be files that belong together; ``foreign`` says why they are not to be touched."""

    kind: FileKind
    id: str
    files: list[StoragePath] = field(default_factory=list)
    folders: list[StoragePath] = field(default_factory=list)
    foreign: str | None = None

    @property
    def made_at(self) -> datetime:
        """Read the time in the id."""
        return datetime.strptime(self.id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """Be what was, or would be, removed.

    :param removed: ids by kind.
    :param files: how many files those are.
    :param kept: how many sets of each kind are left.
    :param foreign: sets that are old enough and were left alone, with the reason.
    """

    dry_run: bool
    removed: Mapping[str, tuple[str, ...]]
    files: int
    kept: Mapping[str, int]
    foreign: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON."""
        return {
            "dry_run": self.dry_run,
            "removed": {kind: len(ids) for kind, ids in self.removed.items()},
            "files": self.files,
            "kept": dict(self.kept),
            "foreign": dict(self.foreign),
        }


def prune(layout: Layout, retention: Retention, *, now: datetime, dry_run: bool) -> PruneReport:
    """Remove old files of one cluster, or say which would be.

    :param retention: days by kind; a kind that is not named is kept.
    :param now: the time.
    :param dry_run: remove nothing.

    Raises ``OSError`` as the storage does; what was removed until then is gone, and a second run goes on.
    """
    removed: dict[str, tuple[str, ...]] = {}
    kept: dict[str, int] = {}
    foreign: dict[str, str] = {}
    files = 0
    for kind, days in retention.days.items():
        sets = find_sets(layout, kind)
        newest = {one.id for one in sets[-max(retention.keep_newest, 1) :]}
        old = [one for one in sets if one.id not in newest and now - one.made_at > timedelta(days=days)]
        gone = [one for one in old if one.foreign is None]
        foreign |= {f"{kind.value} {one.id}": one.foreign for one in old if one.foreign is not None}
        for one in gone:
            files += len(one.files)
            if not dry_run:
                _remove(one)
        removed[kind.value] = tuple(one.id for one in gone)
        kept[kind.value] = len(sets) - len(gone)
    return PruneReport(dry_run=dry_run, removed=removed, files=files, kept=kept, foreign=foreign)


def find_sets(layout: Layout, kind: FileKind) -> list[FileSet]:
    """Give the sets of files of one kind, oldest first, whole ones and what is left of half written ones."""
    found: dict[str, FileSet] = {}
    for folder, pattern, is_folder in _PLACES[kind]:
        place = layout.root / folder
        for path in sorted(place.iterdir(), key=lambda path: path.name) if place.exists() else ():
            if match := pattern.fullmatch(path.name):
                one = found.setdefault(match[1], FileSet(kind, match[1]))
                _add(one, path, folder, is_folder, layout.cluster)
    return [found[id_] for id_ in sorted(found)]


def _add(one: FileSet, path: StoragePath, folder: str, is_folder: bool, cluster: str) -> None:
    if is_folder:
        one.folders.append(path)
        for inside in _files_in(path):
            if not _IN_FOLDER.fullmatch(inside.name):
                one.foreign = f"{inside} is not a file of this package"
            one.files.append(inside)
        return
    one.files.append(path)
    if (why := _why_foreign(path, folder, one.id, cluster)) is not None:
        one.foreign = why


def _why_foreign(path: StoragePath, folder: str, id_: str, cluster: str) -> str | None:
    """Say why a file is not what its name says, ``None`` when it is. Rows are vouched for by their JSON file."""
    if folder == "reports":
        with path.open("rb") as page:
            begin = page.read(len(_REPORT_BEGINS))
        return None if begin == _REPORT_BEGINS else f"{path} is not a report of this package"
    if folder not in (*_OWN_NAME, "audit") or not path.name.endswith(".json"):
        return None
    try:
        said = read_json(path, "it", MaintenanceError)
    except MaintenanceError as error:
        return str(error)
    if folder == "audit":
        same = id_ in (said.get("plan_id"), said.get("run_id"))
    else:
        name = _OWN_NAME[folder]
        same = not name or (said.get(name), said.get("cluster")) == (id_, cluster)
    return None if same else f"{path} is not what its name says"


def _files_in(folder: StoragePath) -> Iterator[StoragePath]:
    yield from sorted(folder.iterdir(), key=lambda path: path.name)


def _remove(one: FileSet) -> None:
    for path in one.files:
        path.unlink()
    for folder in one.folders:
        if folder.exists():  # an object store has no folders once they are empty
            folder.rmdir()
