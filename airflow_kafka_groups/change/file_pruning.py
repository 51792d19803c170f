"""Pruning of a cluster's old files, in sets that are found by names alone; what is in one is looked at before it goes.

A set is removed if it is older than the limit of its kind (by the time in its id, or the end of its plan), and not
among the newest of its kind. A file with another name in one of its folders keeps it, and so does a damaged manifest or
plan. A snapshot stays for as long as a plan in any folder may go by it: it may show a planned group in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import MaintenanceError, SnapshotError
from airflow_kafka_groups.judge.policy.plan_policy import PLANNED_WITHIN
from airflow_kafka_groups.ledger.ledger import fold_for_removal
from airflow_kafka_groups.observe.snapshot.reader import SLOWEST, load_manifest
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.access import storage_errors
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, ID, TableName, is_id, parse_time, time_of


class FileKind(StrEnum):
    """The kind of a file set."""

    SNAPSHOT = "snapshot"
    CLEANUP = "cleanup"
    CHANGE = "change"
    LISTING = "listing"
    BACKLOG = "backlog"


LEAST_AGE = PLANNED_WITHIN + timedelta(days=1)
"""The least age of a snapshot that is removed: no plan lasts as long, even if the clock is a day ahead."""
_LONGEST_PAUSE = timedelta(days=32)
"""A month, and a late task: with nothing newer, a clock that is ahead is likelier than a pause of the DAGs."""

_TABLES = [name for name in TableName if name is not TableName.ARCHIVES]
"""The tables with a partition for each snapshot. Archives have what was deleted, and stay."""

# For each kind: the folder, the pattern of its entries with "@" for an id, and whether they are folders of Parquet
# files, in the order of removal. The manifest of a snapshot comes first: without its rows, it would stop every job.
_PLACES: Mapping[FileKind, tuple[tuple[str, str, bool], ...]] = {
    FileKind.SNAPSHOT: (
        (paths.MANIFESTS, r"@\.json", False),
        (paths.MEMBERS, r"@\.parquet", False),
        (paths.SUBSCRIPTIONS, r"@\.parquet", False),
        *(
            place
            for table in _TABLES
            for place in ((paths.summaries(table), r"@\.json", False), (paths.table(table), "snapshot_id=@", True))
        ),
        (paths.DATA, "@", True),
    ),
    FileKind.CLEANUP: (
        (paths.PLANS, r"@\.(?:json|parquet)", False),
        (paths.PRUNE_PLANS, r"@\.(?:json|parquet)", False),
        (paths.BACKUPS, r"@(?:\.json|-[0-9a-f]{8}\.parquet)", False),
        (paths.REPORTS, r"@\.html", False),
    ),
    FileKind.CHANGE: (
        (paths.CHANGES, r"@-(?:before|result|plan)\.json", False),
        # What a migration that was killed has left of its Spark job.
        (paths.CHANGES, r"@-places\.parquet", False),
        (paths.CHANGES, "@-translations", True),
    ),
    FileKind.LISTING: ((paths.LISTINGS, r"@\.json", False),),
    # Not its folder: what the job made of the records is the user's.
    FileKind.BACKLOG: ((paths.BACKLOGS, r"@(?:-result)?\.json", False),),
}
_IN_FOLDER = re.compile(r"part-[\w.-]+\.parquet|_SUCCESS")
_LEFT_BEHIND = re.compile(r"\.(.+)\.(?:[0-9a-f]{8}\.tmp|crc)")
"""What nobody reads: what a killed process was about to create on a disk, and Hadoop's checksum of a file there."""
_READ = (paths.MANIFESTS, paths.PLANS, paths.PRUNE_PLANS)
"""The folders whose JSON files say what decides about a set."""
_UNCOMMITTED = "_temporary"
"""What Spark calls the folder of what its tasks have not committed yet: a killed job leaves it."""


class _Found(NamedTuple):
    path: StoragePath
    place: str
    is_folder: bool


@dataclass(slots=True)
class FileSet:
    """Files that belong together.

    :param found: its files and folders, by name. The rest is known after ``look_into``:
    :param foreign: why they must not be removed.
    :param files: all its files.
    :param uncommitted: the folders of jobs that were killed.
    :param clusters: the Kafka clusters that its manifest names; it may name none.
    :param expires_at: when its plan became unusable; ``None`` if it has none.
    """

    kind: FileKind
    id: str
    found: list[_Found] = field(default_factory=list)
    foreign: str | None = None
    files: list[StoragePath] = field(default_factory=list)
    uncommitted: list[StoragePath] = field(default_factory=list)
    clusters: set[str | None] = field(default_factory=set)
    expires_at: datetime | None = None

    @property
    def made_at(self) -> datetime:
        """The time in the id."""
        return time_of(self.id)

    @property
    def ages_from(self) -> datetime:
        """The time in the id, or the end of its plan, if that is later: until then it may be needed."""
        return max(self.made_at, self.expires_at or self.made_at)

    @property
    def is_whole(self) -> bool:
        """Whether it may be one of the newest: not what a killed process has left, nor rows without a manifest."""
        needed = (paths.MANIFESTS,) if self.kind is FileKind.SNAPSHOT else [place for place, *_ in _PLACES[self.kind]]
        return any(found.place in needed and not found.path.name.startswith(".") for found in self.found)

    def look_into(self) -> None:
        """Find all its files, and read what a decision about it needs."""
        for path, place, is_folder in self.found:
            if is_folder:
                self.foreign = self._look_into_folder(path) or self.foreign
                continue
            self.files.append(path)
            if place not in _READ or not path.name.endswith(".json"):
                continue
            try:
                content = read_json(path, "it", MaintenanceError)
                if place == paths.MANIFESTS:
                    self.clusters.add(content.get("kafka_cluster_id") or None)
                else:
                    self.expires_at = parse_time(content["expires_at"])
            except (MaintenanceError, AttributeError, KeyError, TypeError, ValueError) as error:
                self.foreign = f"{path} cannot be read: {type(error).__name__}: {error}"

    def _look_into_folder(self, folder: StoragePath) -> str | None:
        local = FILES.local(folder)
        if local is not None and local.is_symlink():
            return f"{folder} is a link: what is behind it may be somebody else's"
        for name in FILES.names(folder):
            if name == _UNCOMMITTED:
                self.uncommitted.append(folder / name)
                continue
            left_behind = _LEFT_BEHIND.fullmatch(name)
            if not _IN_FOLDER.fullmatch(left_behind[1] if left_behind else name):
                return f"{folder / name} is not a file of this package"
            self.files.append(folder / name)
        return None

    def remove(self) -> None:
        """Remove the files that ``look_into`` has found. What an error leaves, another run removes."""
        for path in self.files:
            FILES.remove(path)
        for folder in self.uncommitted:
            FILES.remove_folder(folder, everything=True)
        for found in self.found:
            if found.is_folder:
                FILES.remove_folder(found.path)


def find_sets(layout: Layout, kind: FileKind) -> list[FileSet]:
    """Return the file sets of one kind, oldest first, including incomplete ones. Raises ``StorageError``."""
    sets: dict[str, FileSet] = {}
    # A folder that only seems to be absent would leave half of a set behind.
    listed = {name: FILES.list(layout.root / name) for name in dict.fromkeys(place[0] for place in _PLACES[kind])}
    for folder, pattern, is_folder in _PLACES[kind]:
        entry = re.compile(pattern.replace("@", f"({ID})"))
        for name, kinds in listed[folder].items():
            torn = None if is_folder else _LEFT_BEHIND.fullmatch(name)
            match = entry.fullmatch(torn[1] if torn else name)
            if match and is_id(match[1]) and is_folder in kinds:
                file_set = sets.setdefault(match[1], FileSet(kind, match[1]))
                file_set.found.append(_Found(layout.root / folder / name, folder, is_folder))
    return [sets[id_] for id_ in sorted(sets)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningLimits:
    """How long files are kept. The ``keep_newest`` newest of each kind, at least one, are kept regardless of age."""

    days: Mapping[FileKind, float]
    keep_newest: int = 10


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
        return {**asdict(self), "removed": {kind: len(ids) for kind, ids in self.removed.items()}}


def prune(layout: Layout, limits: PruningLimits, *, now: datetime, dry_run: bool) -> PruneReport:
    """Remove old files of one cluster.

    :param limits: maximum age in days by kind; kinds without an entry are kept.
    :param dry_run: only report what would be removed.

    Raises ``StorageError``. Files removed before the error are gone, and another run continues. Raises
    ``MaintenanceError``, and removes nothing, if nothing new is there: to a clock that is ahead, everything looks old.
    """
    with storage_errors("pruned", layout.root):
        return _prune(layout, limits, now, dry_run)


def _prune(layout: Layout, limits: PruningLimits, now: datetime, dry_run: bool) -> PruneReport:
    removed: dict[str, tuple[str, ...]] = {}
    kept: dict[str, int] = {}
    foreign: dict[str, str] = {}
    files = 0
    found = cache(partial(find_sets, layout))  # each folder is listed once
    unread = cache(partial(_unread, layout))  # asked for once, before the first is removed
    for kind in (kind for kind in FileKind if kind in limits.days):
        sets = found(kind)
        # Those of a time to come, by a clock that was ahead, are no newest ones, and are not old.
        whole = [file_set for file_set in sets if file_set.is_whole and file_set.made_at <= now + CLOCK_SLACK]
        newest = {file_set.id for file_set in whole[-max(limits.keep_newest, 1) :]}
        others = [file_set for file_set in sets if file_set.id not in newest]
        gone: list[str] = []
        for file_set in _old(others, timedelta(days=limits.days[kind]), now):
            name = f"{kind.value} {file_set.id}"
            if file_set.foreign is not None:
                foreign[name] = file_set.foreign
                if kind is FileKind.SNAPSHOT and file_set.is_whole:
                    break  # behind one that stays, a hole in the history would hide what was seen in it
                continue
            if not gone and not any(removed.values()):
                _require_a_new_one(layout, chain.from_iterable(map(found, FileKind)), now, limits)
            if not dry_run and kind is FileKind.SNAPSHOT:
                whys = (unread(cluster_id, whole[-1].id).get(file_set.id) for cluster_id in file_set.clusters)
                if why := next(filter(None, whys), None):
                    foreign[name] = f"what it shows is not known: {why}"
                    break
            files += len(file_set.files)
            if not dry_run:  # one by one: a run that is killed has done its part, and the next one goes on
                file_set.remove()
            gone.append(file_set.id)
        removed[kind.value] = tuple(gone)
        kept[kind.value] = len(sets) - len(gone)
    return PruneReport(dry_run=dry_run, removed=removed, files=files, kept=kept, foreign=foreign)


def _unread(layout: Layout, cluster_id: str | None, newest: str) -> dict[str, str]:
    """Let the ledger know, durably, what the snapshots of a cluster show; return those that cannot be read.

    Decisions may ask for them when they are removed. Raises what the ledger raises.

    :param newest: the newest snapshot: those that name no cluster are taken to be of its cluster.
    """
    if cluster_id is None:
        with suppress(SnapshotError):
            cluster_id = load_manifest(layout, newest).kafka_cluster_id
    return {} if cluster_id is None else fold_for_removal(layout, cluster_id)  # without an id nothing is decided


def _old(sets: Sequence[FileSet], most: timedelta, now: datetime) -> Iterator[FileSet]:
    """Yield the sets that are old enough to be removed; hardly any others are looked into."""
    for one in sets:
        # One that began a little earlier than that of a plan may have ended later: the plan is too old first.
        least = max(most, LEAST_AGE) + SLOWEST if one.kind is FileKind.SNAPSHOT else most
        if now - one.made_at <= least:
            continue
        one.look_into()
        if now - one.ages_from > least:
            yield one


def _require_a_new_one(layout: Layout, every: Iterable[FileSet], now: datetime, limits: PruningLimits) -> None:
    """Raise ``MaintenanceError`` if the newest set of all kinds is old: the clock that says so may be ahead.

    A set with a time to come proves nothing: another worker's clock was ahead when it was made.
    """
    shortest = timedelta(days=min(limits.days.values(), default=0.0))
    longest = min(max(shortest, timedelta(days=1)), _LONGEST_PAUSE)
    newest = max((one for one in every if one.made_at <= now + CLOCK_SLACK), key=lambda one: one.made_at)
    if (ago := now - newest.made_at) > longest:
        age, most = show_duration(round(ago.total_seconds())), show_duration(longest.total_seconds())
        raise MaintenanceError(
            f"nothing is removed: the newest file set of cluster {layout.cluster!r}, {newest.kind.value} {newest.id}, "
            f"is {age} old by this machine's clock ({now.isoformat()}), and more than {most} may mean "
            "that this clock is ahead. If it is not, such as after a pause of the DAGs, take a snapshot first"
        )
