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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, StorageError
from airflow_kafka_groups.judge.staleness.lives import READ
from airflow_kafka_groups.judge.staleness.observations import Reduction
from airflow_kafka_groups.judge.workers import Workers
from airflow_kafka_groups.observe.history.snapshots import History
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.storage import paths
from airflow_kafka_groups.storage.access import raised_by
from airflow_kafka_groups.storage.arrow_values import column, empty_table
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.formats import FORMAT, digest_of
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.paths import parse_time
from airflow_kafka_groups.storage.schemas import (
    OBSERVATION_COLUMNS,
    arrow_schema,
    known_columns,
    utc_times,
    with_missing,
)

PARTITION = "snapshot_id"
"""The column that the folders of the table are named after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationManifest:
    """The description of a snapshot's observations.

    :param source: digest of what they were made of: the snapshot's manifest, and the sizes of its files.
    :param groups: the number of observations.
    :param oldest: time of the first one (ISO 8601); ``None`` for a snapshot without groups.
    :param newest: time of the last one.
    :param file: the file's name; ``None`` for a snapshot without groups.
    :param bytes: the file's size.
    :param sha256: the file's SHA-256.
    """

    snapshot_id: str
    cluster: str
    source: str
    groups: int
    oldest: str | None
    newest: str | None
    file: str | None
    bytes: int
    sha256: str | None
    format: int = FORMAT

    def describes(self, manifest: SnapshotManifest, source: str) -> bool:
        """Return whether these are the observations of a snapshot, in the present format.

        :param source: what ``source_of`` returns for it.
        """
        found = self.format, self.snapshot_id, self.cluster, self.source, self.file is None
        return found == (FORMAT, manifest.snapshot_id, manifest.cluster, source, self.groups == 0)


def source_of(manifest: SnapshotManifest, history: History) -> str:
    """Return the digest that binds observations to their snapshot."""
    sizes = {file.name: history.sizes.get((manifest.snapshot_id, file.name)) for file in manifest.files}
    return digest_of({"manifest": manifest.to_json(), "sizes": sizes})


def parse(text: bytes) -> ObservationManifest | None:
    """Return the manifest, of any version; ``None`` for a string that is none."""
    try:
        manifest = ObservationManifest(**json.loads(text))
        for at in (manifest.oldest, manifest.newest):
            if at is not None:
                parse_time(at)
        if type(manifest.groups) is not int or (manifest.oldest is None) != (manifest.groups == 0):
            return None
    except (ValueError, TypeError):
        return None
    return manifest


_TRIES = 3
_KINDS = ["group_type", "protocol_type"]
"""The columns that have the same few values in all rows."""

_REPEATED = ["run_id", *_KINDS, "state", "error"]


class ObservationStore:
    """The observations of the snapshots of a history.

    :param storage: that of the history's folder.
    :param workers: what reads several files at once.
    :param reduction: what reduces the snapshots that have none.
    """

    def __init__(self, storage: Storage, history: History, workers: Workers, reduction: Reduction) -> None:
        self._storage, self._history, self._workers = storage, history, workers
        self._folder = history.folder
        self._root = f"{self._folder}/{paths.table(paths.TableName.OBSERVATIONS)}"
        self._reduction = reduction
        self.reduced: set[str] = set()
        """The snapshots whose rows were read, because they had no observations that could be used."""

        self.stored: dict[str, ObservationManifest] = {}
        """The observations of all snapshots, by id."""

    def complete(self) -> None:
        """Reduce the snapshots that have no observations, and verify that all have some.

        Raises ``SnapshotError`` for a snapshot whose rows do not match its manifest, and ``StorageError``.
        """
        self.stored = self.find()
        missing = [manifest for manifest in self._history.read if manifest.snapshot_id not in self.stored]
        if missing:
            self._reduce(missing)

    def tables(self, snapshot_ids: Iterable[str]) -> Iterator[pa.Table]:
        """Return the observations of snapshots, in their order, with the columns that decide.

        Those whose bytes are not as they were written are made again. Raises as ``complete`` does.
        """
        manifests = {manifest.snapshot_id: manifest for manifest in self._history.read}
        for name, table in self._workers.each(self._verified, snapshot_ids):
            found = table
            for _ in range(_TRIES):
                if found is None:
                    self._discard(self.stored[name])
                    self._reduce([manifests[name]])
                    found = self._verified(name)
            if found is None:
                raise StorageError(
                    f"{self._root} has other bytes than were written, {_TRIES} times: another program writes there, or "
                    "the storage is damaged. Nothing was judged"
                )
            yield found

    def newest(self) -> pa.Table:
        """Return the observations of the judged snapshot with all columns."""
        return next(iter(self.tables([self._history.judged.snapshot_id])))

    def find(self) -> dict[str, ObservationManifest]:
        """Return the stored observations that match their snapshots, by id; their files are not verified yet."""
        names = set(self._storage.files(f"{self._folder}/{paths.summaries(paths.TableName.OBSERVATIONS)}"))
        known = [each for each in self._history.read if f"{each.snapshot_id}.json" in names]
        texts = self._storage.read_many([self._manifest(each.snapshot_id) for each in known], skip_unreadable=True)
        found = {}
        for manifest, text in zip(known, texts, strict=True):
            stored = parse(text)
            if stored is not None and stored.describes(manifest, source_of(manifest, self._history)):
                found[manifest.snapshot_id] = stored
        return found

    def files(self, stored: Iterable[ObservationManifest]) -> list[str]:
        """Return the paths of observations."""
        return [self._file(each) for each in stored if each.file is not None]

    def _verified(self, snapshot_id: str) -> pa.Table | None:
        """Read observations, ``None`` if they are not there as they were written."""
        stored = self.stored[snapshot_id]
        if stored.file is None:
            return empty_table(arrow_schema(OBSERVATION_COLUMNS))
        path = self._file(stored)
        try:
            content = self._storage.read_bytes(path)
            if sha256(content).hexdigest() != stored.sha256:
                return None
            of_all = snapshot_id == self._history.judged.snapshot_id
            columns = tuple(each for each in OBSERVATION_COLUMNS if of_all or each.name in READ)
            # Not by read_table(), which imports pandas, and takes a third longer.
            with pq.ParquetFile(pa.BufferReader(content), read_dictionary=_KINDS) as file:
                known = known_columns(file.schema_arrow, columns, of_any_type=True)  # the digest is of their bytes
                table = with_missing(file.read(columns=known, use_threads=False), columns)
        except (StorageError, ValueError, MemoryError, pa.ArrowException) as exc:
            if isinstance(exc, MemoryError) or isinstance(raised_by(exc), MemoryError):  # they may be sound
                raise StorageError(f"{path} cannot be read: {first_line(exc)}") from exc
            return None
        found = (table.num_rows, *_extent(table))
        return table if found == (stored.groups, stored.oldest, stored.newest) else None

    def _reduce(self, missing: list[SnapshotManifest]) -> None:
        """Reduce snapshots and store what they came to, each as soon as it is made."""
        self.reduced |= {manifest.snapshot_id for manifest in missing}
        self.stored |= dict(self._reduction.of(missing, self._publish))

    def _publish(self, manifest: SnapshotManifest, table: pa.Table) -> ObservationManifest:
        """Write observations and their manifest, unless another job has done so, or a killed one."""
        content = _parquet(table) if table.num_rows else b""
        digest = sha256(content).hexdigest() if content else None
        oldest, newest = _extent(table)
        made = ObservationManifest(
            snapshot_id=manifest.snapshot_id,
            cluster=manifest.cluster,
            source=source_of(manifest, self._history),
            groups=table.num_rows,
            oldest=oldest,
            newest=newest,
            file=digest and f"part-{digest[:32]}.parquet",
            bytes=len(content),
            sha256=digest,
        )
        if made.file is not None:
            self._create(self._file(made), content)
        self._create(self._manifest(made.snapshot_id), (json.dumps(asdict(made), indent=1) + "\n").encode())
        self._remove_others(made)
        return made

    def _remove_others(self, made: ObservationManifest) -> None:
        """Remove what jobs of other versions left of a snapshot: readers of the table would count its groups twice."""
        folder = f"{self._root}/{PARTITION}={made.snapshot_id}"
        for name in self._storage.files(folder):
            if paths.is_data_file(name) and name != made.file:
                self._storage.remove(f"{folder}/{name}")

    def _create(self, path: str, content: bytes) -> None:
        """Write a file, unless it is there as it should be: another job may be reading it."""
        try:
            self._storage.create(path, content, durable=False)  # what a power cut takes is made again
        except FileExistsAlreadyError:  # a killed job's, or damaged
            self._storage.replace(path, content)

    def _discard(self, manifest: ObservationManifest) -> None:
        """Delete observations that do not match their manifest or their snapshot, the manifest first."""
        self._storage.remove(self._manifest(manifest.snapshot_id))
        if manifest.file is not None:
            self._storage.remove(self._file(manifest))

    def _manifest(self, snapshot_id: str) -> str:
        return f"{self._folder}/{paths.summary(paths.TableName.OBSERVATIONS, snapshot_id)}"

    def _file(self, manifest: ObservationManifest) -> str:
        return f"{self._root}/{PARTITION}={manifest.snapshot_id}/{manifest.file}"


def _parquet(table: pa.Table) -> bytes:
    with pa.BufferOutputStream() as stream:  # an object of Python's would take turns with the threads that reduce
        # Only these columns repeat their values: a dictionary of the others would be made and thrown away.
        pq.write_table(table, stream, compression="zstd", use_dictionary=_REPEATED, write_page_checksum=True)
        content: bytes = stream.getvalue().to_pybytes()
    return content


def _extent(table: pa.Table) -> tuple[str | None, str | None]:
    """Return the times of the first and of the last observation."""
    micros = pc.min_max(table["observed_at"].cast(pa.int64())).as_py()
    times = utc_times(column([*micros.values()], pa.int64()))  # without the zones that pyarrow asks for
    oldest, newest = (None if at is None else f"{at:%Y-%m-%dT%H:%M:%S.%fZ}" for at in times)
    return oldest, newest
