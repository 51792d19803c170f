"""The observations of a cluster's snapshots on storage: made once, by the first job that sees a snapshot.

``tables/observations/snapshot_id=<id>/`` has a snapshot's observations, and ``summaries/observations/<id>.json``,
written last and only once, describes them. They are used only if everything matches: the format, the snapshot's
manifest and the sizes of its files, as they were reduced, and the bytes of the observations themselves. Otherwise the
snapshot is reduced again: observations save time and never decide alone.

Jobs may do so at the same time. A file appears when it is complete, and its name is made of its SHA-256. So whatever a
killed job leaves behind is either hidden from readers of the table, or what the next job would write in its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, SnapshotError, StorageError
from airflow_kafka_groups.judge.staleness.observation_files import ObservationFile
from airflow_kafka_groups.observe.history.snapshots import History, half_written
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.formats import FORMAT, digest_of, plain, read_model
from airflow_kafka_groups.storage.manifest import SnapshotManifest

PARTITION = "snapshot_id"
"""The column that the folders of the table are named after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationManifest:
    """The description of a snapshot's observations.

    :param source: digest of what they were made of: the snapshot's manifest, and the sizes of its files.
    :param files: their files; none for a snapshot without groups.
    """

    snapshot_id: str
    cluster: str
    source: str
    files: tuple[ObservationFile, ...]
    format: int = FORMAT

    @property
    def groups(self) -> int:
        """The number of observations."""
        return sum(file.groups for file in self.files)

    def describes(self, manifest: SnapshotManifest, source: str) -> bool:
        """Return whether these are the observations of a snapshot, in the present format.

        :param source: what ``source_of`` returns for it.
        """
        found = self.format, self.snapshot_id, self.cluster, self.source, bool(self.files)
        return found == (FORMAT, manifest.snapshot_id, manifest.cluster, source, manifest.rows > 0)


def source_of(manifest: SnapshotManifest, history: History) -> str:
    """Return the digest that binds observations to their snapshot."""
    sizes = {file.name: history.sizes.get((manifest.snapshot_id, file.name)) for file in manifest.files}
    return digest_of({"manifest": manifest.to_json(), "sizes": sizes})


def parse(text: bytes) -> ObservationManifest | None:
    """Return the manifest, of any version; ``None`` for a string that is none."""
    try:
        manifest = read_model(ObservationManifest, json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return manifest if all(file.groups for file in manifest.files) else None


TRIES = 3
"""How often observations are made again whose bytes are not as they were written."""


class ObservationStore:
    """The observations of the snapshots of a history.

    :param storage: that of the history's folder.
    """

    def __init__(self, storage: Storage, history: History) -> None:
        self.storage, self.history = storage, history
        self.root = f"{history.folder}/{paths.table(paths.TableName.OBSERVATIONS)}"
        self.reduced: set[str] = set()
        """The snapshots whose rows were read, because they had no observations that could be used."""

        self.stored: dict[str, ObservationManifest] = {}
        """The observations of all snapshots, by id."""

    def missing(self) -> list[SnapshotManifest]:
        """Look for observations, and return the snapshots that have none."""
        self.stored = self._find()
        return [manifest for manifest in self.history.read if manifest.snapshot_id not in self.stored]

    def require_readable(self, damaged: int) -> None:
        """Raise ``StorageError`` if observations were not as they were written so many times."""
        if damaged == TRIES:
            raise StorageError(
                f"{self.root} has other bytes than were written, {TRIES} times: another program writes there, or "
                "the storage is damaged. Nothing was judged"
            )

    @property
    def observed(self) -> list[tuple[int, int]]:
        """When the observations of each complete snapshot that has some begin and end, in microseconds since 1970."""
        every = [self.stored[name].files for name in self.history.snapshot_ids]
        return [(min(file.oldest for file in files), max(file.newest for file in files)) for files in every if files]

    def _find(self) -> dict[str, ObservationManifest]:
        """Return the stored observations that match their snapshots, by id; their files are not verified yet."""
        names = set(self.storage.files(f"{self.history.folder}/{paths.summaries(paths.TableName.OBSERVATIONS)}"))
        known = [each for each in self.history.read if f"{each.snapshot_id}.json" in names]
        texts = self.storage.read_many([self._manifest(each.snapshot_id) for each in known], skip_unreadable=True)
        sizes = self.storage.sizes_below(self.root) if known else {}
        found = {}
        for manifest, text in zip(known, texts, strict=True):
            stored, folder = parse(text), f"{PARTITION}={manifest.snapshot_id}"
            if (
                stored is not None
                and stored.describes(manifest, source_of(manifest, self.history))
                and all(sizes.get((folder, file.name)) == file.bytes for file in stored.files)
            ):
                found[manifest.snapshot_id] = stored
        return found

    def paths_of(self, stored: ObservationManifest) -> list[str]:
        """Return the paths of the files of observations."""
        return [self._path(stored.snapshot_id, file) for file in stored.files]

    def publish(
        self, manifest: SnapshotManifest, files: Sequence[ObservationFile], put: Callable[[ObservationFile, str], None]
    ) -> None:
        """Put the observations of a snapshot in their places, and write their manifest, unless another job has done so.

        :param put: puts a file in its place. One with the right name may be a killed job's, or damaged.

        Raises ``SnapshotError`` if two files are the same, and ``StorageError``.
        """
        name = manifest.snapshot_id
        if len({file.name for file in files}) != len(files):
            raise SnapshotError(half_written(name, "two of its files have the same rows"))
        for file in files:
            put(file, self._path(name, file))
        source = source_of(manifest, self.history)
        made = ObservationManifest(snapshot_id=name, cluster=manifest.cluster, source=source, files=tuple(files))
        self.create(self._manifest(name), (json.dumps(plain(made), indent=1) + "\n").encode())
        # What jobs of other versions left of the snapshot: readers of the table would count its groups twice.
        names = {file.name for file in files}
        for other in self.storage.files(f"{self.root}/{PARTITION}={name}"):
            if paths.is_data_file(other) and other not in names:
                self.storage.remove(f"{self.root}/{PARTITION}={name}/{other}")
        self.reduced.add(name)
        self.stored[name] = made

    def discard(self, snapshot_id: str) -> SnapshotManifest:
        """Delete observations that are not as they were written, the manifest first. Return the snapshot's manifest."""
        self.storage.remove(self._manifest(snapshot_id))
        for path in self.paths_of(self.stored[snapshot_id]):
            self.storage.remove(path)
        return next(manifest for manifest in self.history.read if manifest.snapshot_id == snapshot_id)

    def create(self, path: str, content: bytes) -> None:
        """Write a file, unless it is there as it should be: another job may be reading it."""
        try:
            self.storage.create(path, content, durable=False)  # what a power cut takes is made again
        except FileExistsAlreadyError:  # a killed job's, or damaged
            self.storage.replace(path, content)

    def _manifest(self, snapshot_id: str) -> str:
        return f"{self.history.folder}/{paths.summary(paths.TableName.OBSERVATIONS, snapshot_id)}"

    def _path(self, snapshot_id: str, file: ObservationFile) -> str:
        return f"{self.root}/{PARTITION}={snapshot_id}/{file.name}"
