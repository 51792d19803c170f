"""Snapshots' manifests as the jobs read them: which ones count, and errors that name a snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.formats import FORMAT, UnknownFormatError
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.storage import Storage

FEWER = "looked for some groups only"
"""Why a snapshot is passed over."""

_OTHERWISE = "chose groups by other patterns than those before and after it"
_ONLY_LIFE = ": only signs of life in it count"

_AT_FIRST = 8
"""The least number of manifests that are read at once. The one to judge, or to report on, is mostly the first."""


def parse_manifest(text: str, *, snapshot_id: str, cluster: str) -> SnapshotManifest:
    """Parse the text of a manifest, and check that it is that of this snapshot.

    :param snapshot_id: the snapshot in the file's name.
    :param cluster: the cluster in whose folder it lies.
    """
    try:
        manifest = SnapshotManifest.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        if isinstance(exc, UnknownFormatError) and exc.found is not None:
            remedy = "run the version of the job that belongs to the one that takes the snapshots"
            raise SnapshotError(
                f"snapshot {snapshot_id} has format {exc.found!r}, this job reads {FORMAT}: {remedy}"
            ) from exc
        problem = f"its manifest cannot be used ({type(exc).__name__}: {exc})"
        raise SnapshotError(half_written(snapshot_id, problem)) from exc
    if (manifest.snapshot_id, manifest.cluster) != (snapshot_id, cluster):
        raise SnapshotError(
            f"manifest {snapshot_id}.json of cluster {cluster} belongs to snapshot {manifest.snapshot_id} of cluster "
            f"{manifest.cluster}: it was copied or renamed. Move it back to its own folder"
        )
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
            texts = self._storage.read_texts([f"{self._folder}/{paths.manifest(name)}" for name in new])
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
    others: list[SnapshotManifest] = []  # by other patterns than the judged one
    for manifest in manifests.backwards(ids, max(wanted, _AT_FIRST)):
        why = _unfit(manifest, used[0] if used else None)
        if why and not used:
            raise SnapshotError(
                f"snapshot {manifest.snapshot_id} {why}, so it may lack groups and cannot be judged. Take a new "
                "one, or name an older one by --snapshot-id"
            )
        if not why:
            same = not used or manifest.scope == used[0].scope
            if same and others:  # the patterns were not changed for good
                incomplete += others
                skipped += [(other.snapshot_id, f"{_OTHERWISE}{_ONLY_LIFE}") for other in others]
                others = []
            (used if same or not _has_patterns(manifest.scope) else others).append(manifest)
            if len(used) == wanted:
                break
            continue
        # One that does not name its cluster may be of this one.
        ids_of_both = {manifest.kafka_cluster_id, used[0].kafka_cluster_id}
        if len(ids_of_both - {None}) < 2:
            incomplete.append(manifest)
            why += _ONLY_LIFE
        skipped.append((manifest.snapshot_id, why))
    return _oldest_first([*used, *others])[-wanted:], _oldest_first(incomplete), skipped


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
    """Return whether a snapshot lacks groups only because it did not look for them.

    Where the patterns of all snapshots were changed, the older ones still count: for the groups that both select.
    Whether they were is seen by ``newest_complete``. So do those of named groups that name all of the judged one's.
    """
    if scope == judged:
        return False
    if "group_ids" in scope and not ("group_ids" in judged and {*judged["group_ids"]} <= {*scope["group_ids"]}):
        return True
    return _has_patterns(scope) and not _has_patterns(judged)


def _has_patterns(scope: Mapping[str, Any]) -> bool:
    return bool(scope.get("exclude")) or list(scope.get("include", ())) not in ([], ["*"])
