"""The observations of a cluster's snapshots on storage: made once, by the first job that sees a snapshot.

``summaries/observations/<id>.json``, written last and only once, describes a snapshot's files. They are used only if
everything matches: the format, the snapshot's manifest and the sizes of its files, as they were reduced, and their own
bytes. Jobs may do so at the same time: a file appears when it is complete, and its name is made of its SHA-256.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, SnapshotError, StorageError
from airflow_kafka_groups.judge.staleness.lives import READ
from airflow_kafka_groups.observe.history.snapshots import History, half_written
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.arrow_values import empty_table
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.formats import FORMAT, digest_of, plain, read_model
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import OBSERVATION_COLUMNS, arrow_schema, read_known

_KINDS = ["group_type", "protocol_type"]
"""The columns that have the same few values in all rows."""

_REPEATED = ["run_id", *_KINDS, "state", "error"]
_DECIDE = tuple(column for column in OBSERVATION_COLUMNS if column.name in READ)


class DamagedObservationsError(Exception):
    """Observations that are not as they were written. The message is the snapshot's id, and that is all."""


class ObservationFile(NamedTuple):
    """What vouches for a file of observations, at least one. Times are in microseconds since 1970."""

    name: str
    groups: int
    oldest: int
    newest: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, groups: int, oldest: int, newest: int, size: int, digest: str) -> ObservationFile:
        """Return the description of a file, whose name is made of its digest."""
        return cls(f"part-{digest[:32]}.parquet", groups, oldest, newest, size, digest)


def to_file(table: pa.Table) -> tuple[ObservationFile, bytes]:
    """Return the file of a table of observations that has rows, and its bytes."""
    with pa.BufferOutputStream() as stream:  # an object of Python's would take turns with the threads that reduce
        # Only these columns repeat their values: a dictionary of the others would be made and thrown away.
        pq.write_table(table, stream, compression="zstd", use_dictionary=_REPEATED, write_page_checksum=True)
        content: bytes = stream.getvalue().to_pybytes()
    return ObservationFile.of(table.num_rows, *_extent(table), len(content), sha256(content).hexdigest()), content


def from_file(snapshot_id: str, file: ObservationFile, content: Any, *, everything: bool) -> pa.Table:
    """Read a file of observations from its bytes.

    :param everything: whether to read all columns, and not only those that decide.

    Raises ``DamagedObservationsError``.
    """
    try:
        if sha256(content).hexdigest() != file.sha256:
            raise ValueError
        columns = OBSERVATION_COLUMNS if everything else _DECIDE
        # Not by read_table(), which imports pandas, and takes a third longer.
        with pq.ParquetFile(pa.BufferReader(content), read_dictionary=_KINDS) as parquet:
            table = read_known(parquet, columns, of_any_type=True)  # the digest is of their bytes
        if (table.num_rows, *_extent(table)) != (file.groups, file.oldest, file.newest):
            raise ValueError
    except MemoryError:  # an ArrowException, too; they may be sound, and take more of it to be made again
        raise
    except (ValueError, pa.ArrowException) as exc:
        raise DamagedObservationsError(snapshot_id) from exc
    return table


def _extent(table: pa.Table) -> tuple[int, int]:
    found = pc.min_max(table["observed_at"].cast(pa.int64())).as_py()
    return found["min"], found["max"]


def nothing() -> pa.Table:
    """Return the observations of no group."""
    return empty_table(arrow_schema(OBSERVATION_COLUMNS))


def of_snapshot(snapshot_id: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Return the observations of a snapshot, or of a bucket of its groups, from those of its files.

    Raises ``SnapshotError`` if a group is in two of them: its rows would be judged as those of two groups.
    """
    if len(parts) < 2:
        return parts[0] if parts else nothing()
    table = pa.concat_tables(parts)
    if pc.count_distinct(table["group_id"]).as_py() != table.num_rows:
        twice = pc.value_counts(table["group_id"])
        group = next(each["values"] for each in twice.to_pylist() if each["counts"] > 1)
        raise SnapshotError(half_written(snapshot_id, f"group {group!r} is in two of its files"))
    return table


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
        """Return whether these are the observations of a snapshot, in the present format."""
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


def create(storage: Storage, path: str, content: bytes) -> None:
    """Write a file, unless it is there as it should be: another job may be reading it."""
    try:
        storage.create(path, content, durable=False)  # what a power cut takes is made again
    except FileExistsAlreadyError:  # a killed job's, or damaged
        storage.replace(path, content)


class ObservationStore:
    """The observations of the snapshots of a history."""

    def __init__(self, storage: Storage, history: History) -> None:
        self.storage, self.history = storage, history
        self.root = f"{history.folder}/{paths.table(paths.TableName.OBSERVATIONS)}"
        self.reduced: set[str] = set()
        """The snapshots whose rows were read, because they had no observations that could be used."""

        self.stored: dict[str, ObservationManifest] = {}
        """The observations of all snapshots, by id."""

        self._there: dict[str, set[str]] = {}

    def missing(self) -> list[SnapshotManifest]:
        """Look for observations, and return the snapshots that have none."""
        self.stored = self._find()
        return [manifest for manifest in self.history.read if manifest.snapshot_id not in self.stored]

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
        sizes, self._there = self.storage.sizes_below(self.root), {}
        for folder, name in sizes:
            self._there.setdefault(folder, set()).add(name)
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
        create(self.storage, self._manifest(name), (json.dumps(plain(made), indent=1) + "\n").encode())
        # What jobs of other versions left of the snapshot: readers of the table would count its groups twice.
        folder = f"{PARTITION}={name}"
        for other in self._there.get(folder, set()) - {file.name for file in files}:
            if paths.is_data_file(other):
                self.storage.remove(f"{self.root}/{folder}/{other}")
        self.reduced.add(name)
        self.stored[name] = made

    def damaged(self, snapshot_id: str) -> StorageError:
        """Remove the manifest of observations that are not as they were written, and return the error to raise."""
        self.storage.remove(self._manifest(snapshot_id))
        return StorageError(
            f"the observations of snapshot {snapshot_id} in {self.root} are not as they were written: run "
            "the job again, which makes them again"
        )

    def _manifest(self, snapshot_id: str) -> str:
        return f"{self.history.folder}/{paths.summary(paths.TableName.OBSERVATIONS, snapshot_id)}"

    def _path(self, snapshot_id: str, file: ObservationFile) -> str:
        return f"{self.root}/{PARTITION}={snapshot_id}/{file.name}"
