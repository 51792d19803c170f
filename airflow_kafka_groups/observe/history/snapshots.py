"""The snapshots of a cluster that a judgement uses, by their manifests; rows are read only of complete ones.

A snapshot is its manifest, written last. Data without a manifest is ignored and reported; a manifest that does not
match its data stops the job, because a history with gaps could make a group look idle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError
from airflow_kafka_groups.storage.json_files import elsewhere
from airflow_kafka_groups.storage.manifest import SnapshotManifest, has_patterns
from airflow_kafka_groups.storage.paths import is_cluster_name, is_id, time_of

FEWER = "looked for some groups only"
"""Why a snapshot is passed over."""

_AT_FIRST = 8
"""The least number of manifests that are read at once. The one to judge, or to report on, is mostly the first."""


def parse_manifest(
    text: bytes | str, *, snapshot_id: str, cluster: str, may_be_copied: bool = False
) -> SnapshotManifest:
    """Parse the text of a manifest, and check that it is that of this snapshot.

    :param snapshot_id: the snapshot in the file's name.
    :param cluster: the cluster in whose folder it lies.
    :param may_be_copied: whether it may be that of another folder, which was copied or renamed. Default false.

    Raises ``SnapshotError``.
    """
    try:
        manifest = SnapshotManifest.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        if isinstance(exc, UnknownFormatError) and exc.found is not None:
            raise SnapshotError(
                f"snapshot {snapshot_id} has format {exc.found!r}, this version reads {FORMAT}: run the version that "
                "belongs to the one that takes the snapshots"
            ) from exc
        problem = f"its manifest in the folder {cluster!r} is damaged ({type(exc).__name__}: {exc})"
        raise SnapshotError(half_written(snapshot_id, problem)) from exc
    if manifest.snapshot_id != snapshot_id or not (may_be_copied or manifest.cluster == cluster):
        of = f"belongs to snapshot {manifest.snapshot_id!r} of cluster {manifest.cluster!r}"
        what = f"the manifest {snapshot_id}.json in the folder {cluster!r}"
        raise SnapshotError(f"{what} {of}: {elsewhere(manifest.cluster, cluster)}")
    return manifest


def half_written(snapshot_id: str, problem: str) -> str:
    """Return the message for a snapshot that cannot be used, with the remedy.

    :param problem: what was found, as a clause.
    """
    return (
        f"snapshot {snapshot_id} is incomplete or was changed: {problem}. No job uses it. Restore its files, or "
        f"delete {paths.manifest(snapshot_id)} (the snapshot then no longer counts) and take a new snapshot"
    )


class Manifests:
    """The manifests of a cluster's snapshots, each read once: an object store is waited for each time.

    :param storage: that of the cluster's folder.
    """

    def __init__(self, storage: Storage, folder: str, cluster: str) -> None:
        self._storage, self._folder, self._cluster = storage, folder, cluster
        self._read: dict[str, SnapshotManifest] = {}

    def backwards(self, ids: Sequence[str], at_once: int = _AT_FIRST) -> Iterator[SnapshotManifest]:
        """Return those of snapshots from the newest on, and read several at once.

        :param ids: the snapshots, oldest first.
        """
        for end in range(len(ids), 0, -at_once):
            batch = ids[max(0, end - at_once) : end]
            new = [name for name in batch if name not in self._read]
            texts = self._storage.read_many([f"{self._folder}/{paths.manifest(name)}" for name in new])
            for name, text in zip(new, texts, strict=True):
                self._read[name] = parse_manifest(text, snapshot_id=name, cluster=self._cluster)
            yield from (self._read[name] for name in reversed(batch))


def newest_to_judge(manifests: Manifests, ids: Sequence[str]) -> str:
    """Return the newest snapshot that did not look for named groups only; the newest of all if there is none.

    :param ids: the snapshots to choose from, oldest first.
    """
    return next((found.snapshot_id for found in manifests.backwards(ids) if not found.of_named_groups), ids[-1])


def newest_complete(
    manifests: Manifests, ids: Sequence[str], wanted: int
) -> tuple[tuple[SnapshotManifest, ...], tuple[SnapshotManifest, ...], list[tuple[str, str]]]:
    """Read manifests from the newest on, until enough of them are complete.

    Returns the complete ones and the incomplete ones of the same Kafka cluster, oldest first, and the others with the
    reason why they are not used.

    :param ids: the snapshots to choose from, oldest first; the last one must be complete.
    :param wanted: how many complete ones are enough.
    """
    used: list[SnapshotManifest] = []
    incomplete: list[SnapshotManifest] = []
    skipped: list[tuple[str, str]] = []
    for manifest in manifests.backwards(ids, max(wanted, _AT_FIRST)):
        why = _unfit(manifest, used[0] if used else None)
        if why and not used:
            raise SnapshotError(
                f"snapshot {manifest.snapshot_id} {why}, so it may lack groups and cannot be judged. Take a new "
                "one, or name an older one by --snapshot-id"
            )
        if not why:
            used.append(manifest)
            if len(used) == wanted:
                break
            continue
        # One that does not name its cluster may be of this one.
        ids_of_both = {manifest.kafka_cluster_id, used[0].kafka_cluster_id}
        if len(ids_of_both - {None}) < 2:
            incomplete.append(manifest)
            why += ": only signs of life in it count"
        skipped.append((manifest.snapshot_id, why))
    return _oldest_first(used), _oldest_first(incomplete), skipped


def _oldest_first(manifests: Sequence[SnapshotManifest]) -> tuple[SnapshotManifest, ...]:
    return tuple(sorted(manifests, key=attrgetter("snapshot_id")))


def _unfit(manifest: SnapshotManifest, judged: SnapshotManifest | None) -> str | None:
    if not manifest.complete:
        missing = "; ".join(f"{broker}: {why}" for broker, why in sorted(manifest.missing_brokers.items()))
        return f"is not complete (missing from the listing: {missing or 'not named'})"
    if judged is not None and manifest.kafka_cluster_id != judged.kafka_cluster_id:
        return f"is of another Kafka cluster ({manifest.kafka_cluster_id}, judged: {judged.kafka_cluster_id})"
    if judged is not None and _looked_for_fewer(manifest.scope, judged.scope):
        return FEWER
    return None


def _looked_for_fewer(scope: Mapping[str, Any], judged: Mapping[str, Any]) -> bool:
    """Return whether a snapshot may lack groups that the judged one looked for only because it did not look for them.

    One of named groups has all of them if it names all of the judged one's.
    """
    if "group_ids" in scope:
        return not ("group_ids" in judged and {*judged["group_ids"]} <= {*scope["group_ids"]})
    return scope != judged and has_patterns(scope)


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
    stored = storage.sizes_below(f"{folder}/{paths.DATA}")
    if not ids:
        raise SnapshotError(_nothing_there(storage, base, cluster))
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
        lost = [file.name for file in manifest.files if (manifest.snapshot_id, file.name) not in stored]
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
    return [f"{folder}/{file.name}" for file in manifest.files]


def _nothing_there(storage: Storage, base: str, cluster: str) -> str:
    others = list(filter(is_cluster_name, storage.folders(base)))  # not the journal
    known = f" Clusters there: {', '.join(others[:10])}." if others else ""
    return (
        f"no snapshot of cluster {cluster} in {base}/{cluster}/manifests. Run the DAG that takes snapshots "
        f"(snapshot_group_offsets) first, or check the storage path (a job's --base) and the cluster.{known}"
    )
