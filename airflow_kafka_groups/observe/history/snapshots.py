"""The snapshots of a cluster that a judgement uses; their rows are read only if they are complete.

A snapshot is its manifest, written last. Data without a manifest is ignored and reported; a manifest that does not
match its data stops the job, because a history with gaps could make a group look idle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.observe.history.manifests import (
    FEWER,
    Manifests,
    half_written,
    newest_complete,
    newest_to_judge,
)
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.ids import is_cluster_name, is_id, time_of
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.storage import Storage

_TAKE_ONE = "Run the DAG that takes snapshots (snapshot_group_offsets) first"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The snapshots of a judgement, oldest first; the last one is judged.

    ``incomplete``: the incomplete snapshots between them, which may only show that a group is alive. ``skipped`` names
    snapshots that were found but not used, with the reason, newest first. ``sizes``: the bytes of each data file, by
    snapshot and name.
    """

    folder: str
    manifests: tuple[SnapshotManifest, ...]
    incomplete: tuple[SnapshotManifest, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def judged(self) -> SnapshotManifest:
        """The snapshot whose groups are judged."""
        return self.manifests[-1]

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """The ids of the complete snapshots, oldest first."""
        return tuple(manifest.snapshot_id for manifest in self.manifests)

    @property
    def incomplete_ids(self) -> tuple[str, ...]:
        """The ids of the incomplete snapshots, oldest first."""
        return tuple(manifest.snapshot_id for manifest in self.incomplete)

    @property
    def read(self) -> tuple[SnapshotManifest, ...]:
        """All snapshots whose rows are read, oldest first."""
        return tuple(sorted((*self.manifests, *self.incomplete), key=lambda manifest: manifest.snapshot_id))


def find_history(
    storage: Storage,
    base: str,
    cluster: str,
    *,
    snapshot_id: str | None = None,
    max_snapshots: int = 1000,
    max_days: float = 0.0,
    of_named: bool = False,
) -> History:
    """Select the snapshots of a judgement, and check that all their files exist.

    :param storage: that of the cluster's folder.
    :param snapshot_id: the snapshot to judge. Default: the newest, see ``of_named``. Later ones are ignored.
    :param max_snapshots: maximum number of complete snapshots, including the judged one.
    :param max_days: maximum age of snapshots relative to the judged one, in days; 0 for no limit.
    :param of_named: whether the newest may be one of named groups only. Default false: one of more groups, if any.
    """
    folder = f"{base}/{cluster}"
    names = storage.files(f"{folder}/{paths.MANIFESTS}")
    ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    skipped = [(name, "its name is not a snapshot id") for name in ids if not is_id(name)]
    ids = [name for name in ids if is_id(name)]
    stored = storage.files_below(f"{folder}/{paths.DATA}")
    if not ids:
        raise SnapshotError(_nothing_there(storage, base, cluster, half=bool(stored)))
    if snapshot_id is not None and snapshot_id not in ids:
        raise SnapshotError(
            f"snapshot {snapshot_id} has no manifest in {folder}/manifests: it is incomplete or was never taken. "
            f"The newest one there is {ids[-1]}"
        )
    read = Manifests(storage, folder, cluster)
    judged = snapshot_id or (ids[-1] if of_named else newest_to_judge(read, ids))
    if snapshot_id is None:
        skipped += [(newer, FEWER) for newer in ids if newer > judged]
    ids = [candidate for candidate in ids if candidate <= judged]
    if max_days:
        oldest = time_of(judged) - timedelta(days=max_days)
        ids = [candidate for candidate in ids if time_of(candidate) >= oldest]
    manifests, incomplete, passed_over = newest_complete(read, ids, max_snapshots)
    incomplete = tuple(each for each in incomplete if each.observed_at >= manifests[0].started_at)
    without_manifest = {name for name, _ in stored if name <= judged} - {name.removesuffix(".json") for name in names}
    skipped += [(name, "data without a manifest: incomplete, ignored") for name in without_manifest]
    for manifest in (*manifests, *incomplete):
        lost = [name for name, _ in manifest.files if (manifest.snapshot_id, name) not in stored]
        if lost:
            raise SnapshotError(half_written(manifest.snapshot_id, f"data file(s) missing: {', '.join(lost[:3])}"))
    passed_over += skipped
    return History(
        folder=folder,
        manifests=manifests,
        incomplete=incomplete,
        skipped=tuple(sorted(passed_over, reverse=True)),
        sizes=stored,
    )


def require_left(storage: Storage, history: History, withdraw: Callable[[], None]) -> None:
    """Raise ``SnapshotError`` if a pruning has removed a snapshot since it was found.

    The record of a restore or a keep-alive run goes when neither a snapshot from before it is left nor a judgement that
    rests on one. So a judgement has to be there for prunings before this is asked, and for plans after it.

    :param withdraw: takes back what is there for prunings.
    """
    names = {*storage.files(f"{history.folder}/{paths.MANIFESTS}")}
    if gone := [snapshot_id for snapshot_id in history.snapshot_ids if f"{snapshot_id}.json" not in names]:
        withdraw()
        raise SnapshotError(
            f"{len(gone)} snapshot(s) of cluster {history.judged.cluster} were removed meanwhile, first {gone[0]}, and "
            "with them perhaps records by which groups are spared: judge again"
        )


def rows_of(history: History, manifest: SnapshotManifest) -> list[str]:
    """Return the paths of exactly the files that a manifest names."""
    folder = f"{history.folder}/{paths.snapshot_data(manifest.snapshot_id)}"
    return [f"{folder}/{name}" for name, _ in sorted(manifest.files)]


def _nothing_there(storage: Storage, base: str, cluster: str, *, half: bool) -> str:
    if half:
        return (
            f"cluster {cluster} has data but no manifest in {base}/{cluster}/manifests: its snapshots are "
            f"incomplete. {_TAKE_ONE}"
        )
    others = list(filter(is_cluster_name, storage.folders(base)))  # not the journal
    known = f" Clusters there: {', '.join(others[:10])}." if others else ""
    where = f"no snapshot of cluster {cluster} in {base}/{cluster}/manifests"
    return f"{where}. {_TAKE_ONE}, or check the storage path (a job's --base) and the cluster.{known}"
