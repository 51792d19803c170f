"""The snapshots that a pruning leaves, in all folders of the storage, and what they are needed for.

Connections to the same cluster heed each other's records and snapshots. So records of groups outlive the snapshots from
before them in any of these folders, and a snapshot outlives the plans in all of them that it may show in use: in its
own folder, it may seem to be older than that of the plan. A folder of another cluster, which may have had its last
snapshot years ago, keeps nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import islice

from airflow_kafka_groups.change.file_pruning.file_sets import FileKind, FileSet
from airflow_kafka_groups.exceptions import MaintenanceError, PlanError, SnapshotError, StorageError
from airflow_kafka_groups.observe.snapshot.cluster_folders import may_be_of, other_folders
from airflow_kafka_groups.observe.snapshot.reader import PLANNED_WITHIN, SLOWEST, load_manifest, snapshot_ids
from airflow_kafka_groups.storage.file_storage import FILES, read_few
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath
from airflow_kafka_groups.storage.paths import (
    CLOCK_SLACK,
    PLANS,
    PRUNE_PLANS,
    TableName,
    is_id,
    parse_time,
    summaries,
    time_of,
    time_prefix,
)

_MOST_READ = 1_000
"""The most manifests of a folder that are read to know that none is of a cluster: with more, one may be."""

_PLANS = (PLANS, PRUNE_PLANS)

_MOST_JUDGED = 32
"""So many of the newest judgements are looked at in the folder of a connection that leads to another cluster."""

_LONGEST_WAIT = PLANNED_WITHIN + timedelta(days=1)
"""For so long, a plan may be made by a snapshot in another folder, or wait where a connection leads elsewhere."""

_APART = timedelta(days=1)
"""By how much the clocks may differ by which a plan has expired here, and has not where it is carried out."""

_SINCE_EVER, _NEVER = (each.replace(tzinfo=UTC) for each in (datetime.min, datetime.max))


class SnapshotsLeft:
    """The snapshots of a storage, without those that are removed. Each folder is listed once, when it is asked for.

    :param found: returns the sets of a kind in this folder.
    """

    def __init__(self, layout: Layout, found: Callable[[FileKind], list[FileSet]]) -> None:
        self._layout = layout
        self._found = found
        self._gone: set[str] = set()
        self._clusters: dict[tuple[str, str], str | None] = {}
        self._needed_from: dict[frozenset[str | None], datetime | None] = {}
        self._judged_from: dict[tuple[str, int], dict[str, datetime]] = {}

    def remove(self, ids: Iterable[str]) -> None:
        """Leave out snapshots of this folder that are removed, or would be."""
        self._gone.update(ids)

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

    def are_here_from(self, at: datetime) -> bool:
        """Return whether this folder has a snapshot of this time or from before."""
        return not self._gone.issuperset(_until(self._own, at))

    def are_from(self, at: datetime, clusters: Collection[str | None]) -> bool:
        """Return whether this folder, or one that may be of the same cluster, has one of this time or from before.

        A judgement that is left may rest on such a one that is gone: a plan by it needs the record as much.

        :param clusters: the ids of the clusters; where one is not known, or there is none, every folder may be of it.

        Raises ``StorageError``.
        """
        own = [id_ for id_ in self._own if id_ not in self._gone]
        if _until(own, at) or self._judged_since(self._layout, own, at):
            return True
        known = clusters if clusters and None not in clusters else ()

        def may_have_one(other: Layout, ids: list[str]) -> bool:
            is_here = not known or any(may_be_of(other, cluster, ids) for cluster in known)
            # Before its connection was switched, it was where it may be again.
            judged = self._judged_since(other, ids, at, 0 if is_here else _MOST_JUDGED)
            found = {*_until(ids, at), *judged}
            return bool(found) and ((is_here and bool(judged)) or self._may_be_of(other, sorted(found), known))

        return any(read_few(may_have_one, *self._others))

    def _judged_since(self, folder: Layout, ids: list[str], at: datetime, most: int = 0) -> list[str]:
        """Return those of these snapshots whose judgement may rest on one from before this time, which may be removed.

        :param most: of how many of the newest judgements to look at. Default: of all.
        """
        key = folder.cluster, most
        if key not in self._judged_from:
            judged = sorted(FILES.ids(folder.root / summaries(TableName.VERDICTS)))[-most:]
            found = read_few(_rests_on, list(map(folder.verdict_summary, judged)))
            self._judged_from[key] = dict(zip(judged, found, strict=True))
        judged_from = self._judged_from[key]
        return [id_ for id_ in ids if id_ in judged_from and judged_from[id_] <= at]

    def _may_be_of(self, folder: Layout, ids: list[str], clusters: Collection[str | None]) -> bool:
        """Whether one of these snapshots may be of one of these clusters: a connection may have been switched."""
        if not clusters or len(ids) > _MOST_READ:
            return True
        return any(
            cluster is None or cluster in clusters for cluster in read_few(lambda id_: self._of(folder, id_), ids)
        )

    def _of(self, folder: Layout, snapshot_id: str) -> str | None:
        key = folder.cluster, snapshot_id
        if key not in self._clusters:
            try:
                self._clusters[key] = load_manifest(folder, snapshot_id, may_be_copied=True).kafka_cluster_id
            except SnapshotError:
                self._clusters[key] = None
        return self._clusters[key]


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


def _rests_on(path: StoragePath) -> datetime:
    """Return since when a judgement has observed its groups; where nobody knows, since ever."""
    try:
        oldest = read_json(path, "the summary of a judgement", MaintenanceError, has_format=False)["oldest_observation"]
        return _NEVER if oldest is None else parse_time(oldest)  # it has no groups
    except StorageError:
        raise
    except (MaintenanceError, KeyError, TypeError, ValueError):
        return _SINCE_EVER


def _until(ids: list[str], at: datetime) -> list[str]:
    return ids[: bisect_right(ids, f"{time_prefix(at)}~")]
