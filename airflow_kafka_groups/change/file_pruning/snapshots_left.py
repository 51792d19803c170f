"""Which plans still go by the snapshots of a storage, in all of its folders.

Connections to the same cluster heed each other's snapshots. So a snapshot outlives the plans in all of these folders
that it may show in use: in its own folder, it may seem to be older than that of the plan. A folder of another cluster,
which may have had its last snapshot years ago, keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice

from airflow_kafka_groups.change.file_pruning.file_sets import FileKind, FileSet
from airflow_kafka_groups.exceptions import MaintenanceError, PlanError, StorageError
from airflow_kafka_groups.observe.snapshot.cluster_folders import may_be_of, other_folders
from airflow_kafka_groups.observe.snapshot.reader import PLANNED_WITHIN, SLOWEST, snapshot_ids
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import (
    CLOCK_SLACK,
    PLANS,
    PRUNE_PLANS,
    is_id,
    parse_time,
    time_of,
    time_prefix,
)

_PLANS = (PLANS, PRUNE_PLANS)

_LONGEST_WAIT = PLANNED_WITHIN + timedelta(days=1)
"""For so long, a plan may be made by a snapshot in another folder, or wait where a connection leads elsewhere."""

_APART = timedelta(days=1)
"""By how much the clocks may differ by which a plan has expired here, and has not where it is carried out."""


class SnapshotsLeft:
    """The snapshots of a storage. Each folder is listed once, when it is asked for.

    :param found: returns the sets of a kind in this folder.
    """

    def __init__(self, layout: Layout, found: Callable[[FileKind], list[FileSet]]) -> None:
        self._layout = layout
        self._found = found
        self._needed_from: dict[frozenset[str | None], datetime | None] = {}

    @cached_property
    def _own(self) -> list[str]:
        """Those of this folder, as they were found."""
        return [one.id for one in self._found(FileKind.SNAPSHOT) if one.is_whole]

    @cached_property
    def _others(self) -> tuple[list[Layout], list[list[str]]]:
        """The other folders, and the snapshots in each."""
        others = [other for other, _ in other_folders(self._layout)]
        return others, list(read_few(snapshot_ids, others))

    def are_needed(self, since: datetime, clusters: Collection[str | None], now: datetime) -> bool:
        """Return whether plans that may be carried out, or made in other folders yet, go by snapshots since then.

        :param clusters: the ids of the clusters of these snapshots; one that is not known may be any. What has no
            manifest names none: no plan goes by it.

        Raises ``StorageError``.
        """
        if not (key := frozenset(clusters)):
            return False
        if key not in self._needed_from:
            self._needed_from[key] = self._find_needed_from(key, now)
        needed_from = self._needed_from[key]
        return needed_from is not None and since >= needed_from

    def _find_needed_from(self, clusters: Collection[str | None], now: datetime) -> datetime | None:
        plans = [each.path for one in self._found(FileKind.CLEANUP) for each in one.found if each.place in _PLANS]
        found = _waiting(self._own, plans, now)
        for some in read_few(partial(_planned_at, clusters, now), *self._others):
            found += some
        return min(found) - SLOWEST if found else None


def _planned_at(clusters: Collection[str | None], now: datetime, folder: Layout, ids: list[str]) -> list[datetime]:
    """Return when the snapshots were taken by which plans in another folder may be carried out or made yet.

    :param ids: its snapshots. A run that is cleared plans by its own one, however many were judged since.
    """
    plans = [folder.root / place / f"{id_}.json" for place in _PLANS for id_ in FILES.ids(folder.root / place)]
    if None in clusters or any(may_be_of(folder, cluster, ids) for cluster in clusters):
        recent = (at for at in map(time_of, ids) if now - at <= _LONGEST_WAIT)
        return [*_waiting(ids, plans, now), *islice(recent, 1)]
    # It was before its connection was switched, and may be again.
    lately = [path for path in plans if now - time_of(path.name) <= _LONGEST_WAIT]
    return _waiting(ids, lately, now, clusters)


def _waiting(
    ids: list[str], plans: Iterable[StoragePath], now: datetime, clusters: Collection[str | None] | None = None
) -> list[datetime]:
    """Return when the snapshots of the plans in a folder were taken that may be carried out yet.

    :param ids: its snapshots. A plan was made after one of them, or deletes nothing.
    :param clusters: the clusters that a plan must name one of. Default: any.
    """
    first = time_prefix(time_of(ids[0]) - CLOCK_SLACK) if ids else "~"
    headers = [path for path in plans if path.name.endswith(".json") and path.name >= first]
    return [*filter(None, read_few(partial(_judged_at, now, clusters), headers))]


def _judged_at(now: datetime, clusters: Collection[str | None] | None, path: StoragePath) -> datetime | None:
    """Return when the snapshot of a plan was taken; ``None`` for one that is not carried out any more.

    :param clusters: the clusters that it must name one of; ``None``: any.
    """
    try:
        # A newer version's may be carried out by that.
        header = read_json(path, "the plan", PlanError, has_format=False)
        expires_at, snapshot_id = parse_time(header["expires_at"]), header["snapshot_id"]
        is_of = clusters is None or header["kafka_cluster_id"] in clusters
    except StorageError:
        raise
    except (MaintenanceError, KeyError, TypeError, ValueError):
        return None
    return time_of(snapshot_id) if is_of and is_id(snapshot_id) and expires_at > now - _APART else None
