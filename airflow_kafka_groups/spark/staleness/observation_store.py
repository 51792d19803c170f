"""The observations of a cluster's snapshots on storage: made once, by the first job that sees a snapshot.

``tables/observations/snapshot_id=<id>/`` has a snapshot's observations, and ``summaries/observations/<id>.json``,
written last and only once, describes them. They are used only if everything matches: the format, the snapshot's
manifest and the sizes of its files, as they were reduced, and the bytes of the observations themselves. Otherwise the
snapshot is reduced again: observations save time and never decide alone.

Jobs may do so at the same time. Each writes to a folder of its own, hidden from readers of the table, and moves the
files from there to names made of their SHA-256. So whatever a killed job leaves behind is either hidden, or what the
next job would write in its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts import paths
from airflow_kafka_groups.contracts.digest import digest_of
from airflow_kafka_groups.contracts.formats import OBSERVATIONS_FORMAT
from airflow_kafka_groups.contracts.ids import is_id, new_id, parse_time, time_of
from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.spark.errors import SPARK_ERRORS, StorageError, first_line
from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, read_stored
from airflow_kafka_groups.spark.ledger.snapshots import History, check_rows, read_rows
from airflow_kafka_groups.spark.preflight import ONE_TASK_ROWS, PARALLEL_LISTING, fit_plans, in_tasks, set_default
from airflow_kafka_groups.spark.session import settings_of
from airflow_kafka_groups.spark.staleness.observations import observations
from airflow_kafka_groups.spark.storage import Storage

_TRIES = 3
_LEFT_BEHIND = timedelta(days=1)
_PARTITION = "snapshot_id"
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


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
    format: int = OBSERVATIONS_FORMAT


def source_of(manifest: SnapshotManifest, history: History) -> str:
    """Return the digest that binds observations to their snapshot."""
    sizes = {name: history.sizes.get((manifest.snapshot_id, name)) for name, _ in manifest.files}
    return digest_of({"manifest": manifest.to_json(), "sizes": sizes})


class ObservationStore:
    """The observations of one cluster."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder
        self._root = f"{folder}/{paths.table(paths.TableName.OBSERVATIONS)}"
        self._storage = Storage(spark, folder)
        self.is_local = self._storage.is_local
        if self.is_local:  # a Spark job that lists files pays off only where each listing takes a while
            set_default(spark, PARALLEL_LISTING, 100_000)

    def complete(self, history: History) -> tuple[dict[str, ObservationManifest], int]:
        """Return the verified observations of all snapshots, by id, and how many had to be reduced for it.

        Raises ``SnapshotError`` for a snapshot whose rows do not match its manifest, and ``StorageError``.
        """
        reduced: set[str] = set()
        for _ in range(_TRIES):
            found = self.find(history)
            missing = [manifest for manifest in history.read if manifest.snapshot_id not in found]
            reduced |= {manifest.snapshot_id for manifest in missing}
            with self._staged(history, missing) as staged:
                files = {self._file(manifest): manifest for manifest in found.values() if manifest.file is not None}
                digests = self._storage.sha256s([*files])
                damaged = [manifest for path, manifest in files.items() if digests.get(path) != manifest.sha256]
                for stored in damaged:
                    self._discard(stored)
                for made, path in staged:
                    found[made.snapshot_id] = self._publish(made, path)
            if not damaged:
                return found, len(reduced)
        raise StorageError(
            f"{self._root} has other bytes than were written, {_TRIES} times: another program writes there, or the "
            "storage is damaged. Nothing was judged"
        )

    def find(self, history: History) -> dict[str, ObservationManifest]:
        """Return the stored observations that match their snapshots, by id; their files are not verified yet."""
        names = set(self._storage.files(f"{self._folder}/{paths.summaries(paths.TableName.OBSERVATIONS)}"))
        known = [manifest for manifest in history.read if f"{manifest.snapshot_id}.json" in names]
        texts = self._storage.read_texts([self._manifest(each.snapshot_id) for each in known], skip_unreadable=True)
        sizes = self._storage.files_below(self._root) if known else {}
        found = {}
        for manifest, text in zip(known, texts, strict=True):
            stored = _parse(text)
            if stored is not None and _matches(stored, manifest, source_of(manifest, history), sizes):
                found[manifest.snapshot_id] = stored
        return found

    def read(self, stored: Iterable[ObservationManifest]) -> DataFrame:
        """Read observations."""
        return self._rows([self._file(manifest) for manifest in stored if manifest.file is not None])

    @contextmanager
    def _staged(
        self, history: History, missing: Sequence[SnapshotManifest]
    ) -> Iterator[list[tuple[ObservationManifest, str | None]]]:
        """Reduce snapshots to files in a hidden folder, check them as they are on storage, and provide their paths.

        A snapshot without groups has none.
        """
        if not missing:
            yield []
            return
        self._remove_left_behind()
        stage = f"{self._root}/_{new_id(datetime.now(UTC))}"
        try:
            self._write(history, missing, stage)
            written = {
                folder: (f"{stage}/{folder}/{name}", size)
                for (folder, name), size in self._storage.files_below(stage).items()
                if paths.is_data_file(name)
            }
            files = [path for path, _ in written.values()]
            rows = sum(manifest.rows for manifest in missing)
            extents = check_rows(in_tasks(self._rows(files), rows), missing, self._folder)
            digests = self._storage.sha256s(files)
            if unread := set(files) - digests.keys():
                raise StorageError(f"{min(unread)} was written and cannot be read")
            staged = []
            for manifest in missing:
                path, size = written.get(f"{_PARTITION}={manifest.snapshot_id}", (None, 0))
                sha256 = None if path is None else digests[path]
                made = ObservationManifest(
                    snapshot_id=manifest.snapshot_id,
                    cluster=manifest.cluster,
                    source=source_of(manifest, history),
                    **asdict(extents[manifest.snapshot_id]),
                    file=None if sha256 is None else f"part-{sha256[:32]}.parquet",
                    bytes=size,
                    sha256=sha256,
                )
                staged.append((made, path))
            yield staged
        finally:
            with suppress(StorageError):  # the first error is the one to report
                self._storage.delete_folder(stage)

    def _write(self, history: History, missing: Sequence[SnapshotManifest], stage: str) -> None:
        count = sum(manifest.rows for manifest in missing)
        fit_plans(self._spark, count)
        shuffled = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 1)
        partitions = 0 if count <= ONE_TASK_ROWS else min(len(missing), shuffled)
        rows = in_tasks(read_rows(self._spark, history, missing), count)
        observed = observations(rows, partitions)
        ordered = observed.withColumn(_PARTITION, F.col("run_id")).sortWithinPartitions(_PARTITION, "group_id")
        try:
            with settings_of(self._spark, {_TIMESTAMPS: "TIMESTAMP_MICROS"}):  # a write has no option for it
                ordered.write.partitionBy(_PARTITION).option("maxRecordsPerFile", 0).parquet(stage)
        except SPARK_ERRORS as exc:
            # Raises if the snapshots cannot be read; cached, since it would skip the columns that it does not need.
            check_rows(observed.cache(), missing, self._folder)
            observed.unpersist()
            raise StorageError(f"{stage} cannot be written: {first_line(exc)}") from exc

    def _publish(self, made: ObservationManifest, staged: str | None) -> ObservationManifest:
        """Move a file to its place and write its manifest, unless another job has done so, or a killed one."""
        if staged is not None and not self._storage.move_file(staged, self._file(made)):
            self._replace_unless_same(staged, made)
        place, text = self._manifest(made.snapshot_id), json.dumps(asdict(made), indent=1) + "\n"
        try:
            self._storage.write_text(place, text, replace=False)
        except StorageError:
            other = _parse(self._storage.read_texts([place], skip_unreadable=True)[0])
            if other != made:
                if other is not None and other.snapshot_id == made.snapshot_id and other.file != made.file:
                    self._discard(other)
                self._storage.write_text(place, text)
        return made

    def _replace_unless_same(self, staged: str, made: ObservationManifest) -> None:
        """Replace a file that has the right name and other bytes: its digest was never verified, or it was damaged."""
        place = self._file(made)
        if self._storage.sha256s([place]).get(place) != made.sha256:
            self._storage.delete_file(place)
            if not self._storage.move_file(staged, place):
                raise StorageError(f"{staged} cannot be moved to {place}")

    def _rows(self, files: Sequence[str]) -> DataFrame:
        if not files:
            return self._spark.createDataFrame([], OBSERVATION_SCHEMA)
        return read_stored(self._spark, OBSERVATION_SCHEMA).parquet(*files)

    def _discard(self, manifest: ObservationManifest) -> None:
        """Delete observations that do not match their manifest or their snapshot, the manifest first."""
        self._storage.delete_file(self._manifest(manifest.snapshot_id))
        if manifest.file is not None:
            self._storage.delete_file(self._file(manifest))

    def _remove_left_behind(self) -> None:
        """Delete the folders of jobs that were killed a while ago."""
        now = datetime.now(UTC)
        for name in self._storage.folders(self._root):
            if name[0] == "_" and is_id(name[1:]) and now - time_of(name[1:]) > _LEFT_BEHIND:
                self._storage.delete_folder(f"{self._root}/{name}")

    def _manifest(self, snapshot_id: str) -> str:
        return f"{self._folder}/{paths.summary(paths.TableName.OBSERVATIONS, snapshot_id)}"

    def _file(self, manifest: ObservationManifest) -> str:
        return f"{self._root}/{_PARTITION}={manifest.snapshot_id}/{manifest.file}"


def _parse(text: str) -> ObservationManifest | None:
    """Return the manifest, ``None`` for a string that is none of this format."""
    try:
        manifest = ObservationManifest(**json.loads(text))
        for at in (manifest.oldest, manifest.newest):
            if at is not None:
                parse_time(at)
        if type(manifest.groups) is not int or (manifest.oldest is None) != (manifest.groups == 0):
            return None
    except (ValueError, TypeError):
        return None
    return manifest if manifest.format == OBSERVATIONS_FORMAT else None


def _matches(
    stored: ObservationManifest, manifest: SnapshotManifest, source: str, sizes: Mapping[tuple[str, str], int]
) -> bool:
    if (stored.snapshot_id, stored.cluster, stored.source) != (manifest.snapshot_id, manifest.cluster, source):
        return False
    if stored.file is None:
        return stored.groups == 0
    return sizes.get((f"{_PARTITION}={stored.snapshot_id}", stored.file)) == stored.bytes
