"""Pruning of a cluster's old files. Other files in the same folders are not touched.

Files form sets: a snapshot is its manifest, rows, verdicts, observations and lag; a clean-up is its plan, backup and
report; a change is its state before and its result; a backlog is what a job was given, and its result. A
set is removed completely or not at all, unless the process is killed: then the next one removes the rest. It is
removed if it is older than the limit of its kind (by the time in its id), is not among the newest of its kind, and
consists only of files that this package writes. A file with another name, or whose content contradicts its name, keeps
its set. A clean-up ages from the end of its plan: until then groups may be deleted by it, which its backup restores.

What was changed, kept alive or restored is in the cluster's log, which stays: a task that is cleared after the record
of its change was removed sets nothing twice, but fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import chain
from typing import Any

from airflow_kafka_groups.change.file_pruning.file_sets import FileKind, FileSet, find_sets
from airflow_kafka_groups.change.file_pruning.snapshots_left import SnapshotsLeft
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import MaintenanceError, SnapshotError
from airflow_kafka_groups.ledger.ledger import fold_for_removal
from airflow_kafka_groups.observe.snapshot.reader import SLOWEST, load_manifest
from airflow_kafka_groups.storage.access import storage_errors
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.paths import CLOCK_SLACK

_LONGEST_PAUSE = timedelta(days=32)
"""A month, and a late task: with nothing newer, a clock that is ahead is likelier than a pause of the DAGs."""


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


def _unread(layout: Layout, cluster_id: str | None, newest: str) -> dict[str, str]:
    """Let the ledger know, durably, what the snapshots of a cluster show; return those that cannot be read.

    Decisions may ask for them when they are removed. Raises what the ledger raises.

    :param newest: the newest snapshot: those that name no cluster are taken to be of its cluster.
    """
    if cluster_id is None:
        with suppress(SnapshotError):
            cluster_id = load_manifest(layout, newest).kafka_cluster_id
    return {} if cluster_id is None else fold_for_removal(layout, cluster_id)  # without an id nothing is decided


def _prune(layout: Layout, limits: PruningLimits, now: datetime, dry_run: bool) -> PruneReport:
    removed: dict[str, tuple[str, ...]] = {}
    kept: dict[str, int] = {}
    foreign: dict[str, str] = {}
    files = 0
    found = cache(partial(find_sets, layout))  # each folder is listed once
    snapshots = SnapshotsLeft(layout, found)
    unread = cache(partial(_unread, layout))  # asked for once, before the first is removed
    for kind in (kind for kind in FileKind if kind in limits.days):
        sets = found(kind)
        # Those of a time to come, by a clock that was ahead, are no newest ones, and are not old.
        whole = [file_set for file_set in sets if file_set.is_whole and file_set.made_at <= now + CLOCK_SLACK]
        newest = {file_set.id for file_set in whole[-max(limits.keep_newest, 1) :]}
        others = [file_set for file_set in sets if file_set.id not in newest]
        gone: list[str] = []
        for file_set in _removable(kind, _old(layout, others, limits, now), snapshots, now, foreign):
            if not gone and not any(removed.values()):
                every = chain.from_iterable(map(found, FileKind))
                _require_a_new_one(layout, every, now, limits)
            if not dry_run and kind is FileKind.SNAPSHOT:
                whys = (unread(cluster_id, whole[-1].id).get(file_set.id) for cluster_id in file_set.named)
                if why := next(filter(None, whys), None):
                    foreign[f"{kind.value} {file_set.id}"] = f"what it shows is not known: {why}"
                    break  # behind it, a hole in the history would hide what was seen
            files += len(file_set.files)
            if not dry_run:  # one by one: a run that is killed has done its part, and the next one goes on
                file_set.remove()
            gone.append(file_set.id)
        removed[kind.value] = tuple(gone)
        kept[kind.value] = len(sets) - len(gone)
    return PruneReport(dry_run=dry_run, removed=removed, files=files, kept=kept, foreign=foreign)


def _removable(
    kind: FileKind, old: Iterable[FileSet], snapshots: SnapshotsLeft, now: datetime, foreign: dict[str, str]
) -> Iterator[FileSet]:
    """Yield the sets that may be removed of those that are old enough, and note why others stay.

    :param foreign: gets the reason of each that has something of somebody else.
    """
    is_behind = False
    for one in old:
        if one.foreign is not None:
            foreign[f"{kind.value} {one.id}"] = one.foreign
        if kind is FileKind.SNAPSHOT and not is_behind:
            # Behind one that stays, a hole in the history would hide what was seen in it.
            is_behind = (one.foreign is not None and one.is_whole) or snapshots.are_needed(one.made_at, one.named, now)
        if one.foreign is None and not is_behind:
            yield one


def _old(layout: Layout, sets: Sequence[FileSet], limits: PruningLimits, now: datetime) -> Iterator[FileSet]:
    """Yield the sets that are old enough to be removed; hardly any others are looked into."""
    for one in sets:
        days = limits.days[one.kind]
        # One that began a little earlier than that of a plan may have ended later: the plan is too old first.
        if now - one.made_at <= timedelta(days=days) + (SLOWEST if one.kind is FileKind.SNAPSHOT else timedelta(0)):
            continue
        one.look_into(layout.cluster)
        if now - one.ages_from > timedelta(days=days):
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
