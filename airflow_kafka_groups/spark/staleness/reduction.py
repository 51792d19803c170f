"""Snapshots' files, reduced where they are read: in threads of the driver, or in Spark's tasks if they are many rows.

Each file is one piece of work, and its observations are twenty times smaller than its rows. So threads of the driver
take less time than the start of Python workers on executors does, up to some ten million rows; a cluster reduces more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row, SparkSession

from airflow_kafka_groups.contracts.manifest import SnapshotManifest
from airflow_kafka_groups.spark.by_value import by_value
from airflow_kafka_groups.spark.errors import SPARK_ERRORS, SnapshotError, StorageError, first_line
from airflow_kafka_groups.spark.files.storage import Storage
from airflow_kafka_groups.spark.frames import WHOLE
from airflow_kafka_groups.spark.ledger.manifests import half_written
from airflow_kafka_groups.spark.ledger.snapshot_rows import file_parts, require_all
from airflow_kafka_groups.spark.ledger.snapshots import History, rows_of
from airflow_kafka_groups.spark.preflight import require_arrow
from airflow_kafka_groups.spark.session import runs_locally, settings_kept
from airflow_kafka_groups.spark.staleness.observations import (
    CARRIED,
    REDUCED_SCHEMA,
    combined,
    reduce_batches,
    reduced,
)
from airflow_kafka_groups.spark.workers import DRIVER_ROWS, Workers

_ROWS_AT_ONCE = 100_000_000
_FILES_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Reduction:
    """The reduction of a history's snapshots.

    :param workers: the driver's threads.
    :param driver_rows: the number of rows up to which they do it all.
    """

    def __init__(self, spark: SparkSession, history: History, workers: Workers, driver_rows: int = DRIVER_ROWS) -> None:
        self._spark, self._history, self._workers, self._driver_rows = spark, history, workers, driver_rows
        self._storage = Storage(spark, history.folder)

    def of(self, manifests: Sequence[SnapshotManifest]) -> Iterator[tuple[SnapshotManifest, pa.Table]]:
        """Return the observations of snapshots, in their order.

        Raises ``SnapshotError`` for one whose rows do not match its manifest, and ``StorageError``.
        """
        rows = sum(manifest.rows for manifest in manifests)
        # Of a disk, threads read more than tasks; from elsewhere, tasks get more than comes through the JVM's socket.
        alone = runs_locally(self._spark) and self._storage.is_local
        many = rows > self._driver_rows and not alone
        for manifest, table in self._by_cluster(manifests) if many else self._workers.each(self._reduced, manifests):
            found = (pc.sum(table[name], min_count=0).as_py() for name in ("rows", "invalid"))
            require_all(manifest, *found)
            yield manifest, table

    def _reduced(self, manifest: SnapshotManifest) -> pa.Table:
        files = rows_of(self._history, manifest)
        parts = (part for path in files for part in file_parts(self._storage, manifest, path))
        try:
            return reduced(parts, manifest.snapshot_id)
        except MemoryError as exc:
            problem = f"the driver has no memory left for the rows of snapshot {manifest.snapshot_id}: give it more"
            raise StorageError(problem) from exc

    def _by_cluster(self, manifests: Sequence[SnapshotManifest]) -> Iterator[tuple[SnapshotManifest, pa.Table]]:
        """Reduce files in Spark's tasks, some snapshots at a time, since their observations come to the driver."""
        require_arrow(self._spark)
        for part in _parts(manifests):
            files = [path for manifest in part for path in rows_of(self._history, manifest)]
            found: dict[str, list[pa.Table]] = {manifest.snapshot_id: [] for manifest in part}
            for row in self._tasks(files) if files else ():
                if row["problem"] is not None:
                    raise SnapshotError(half_written(row["snapshot_id"], f"{row['file']}: {row['problem']}"))
                found[row["snapshot_id"]].append(pa.ipc.open_stream(row["observations"]).read_all())
            for manifest in part:
                yield manifest, combined(found[manifest.snapshot_id])

    def _tasks(self, files: Sequence[str]) -> list[Row]:
        work = by_value(reduce_batches, *CARRIED)
        read = self._spark.read.format("binaryFile").options(**WHOLE).load([*files])
        try:
            with settings_kept(self._spark, _FILES_AT_ONCE):
                self._spark.conf.set(_FILES_AT_ONCE, "1")
                # A row for each file. toArrow() would hide why a task failed behind "thrown in awaitResult".
                return read.select("path", "content").mapInArrow(work, REDUCED_SCHEMA).collect()
        except SPARK_ERRORS as exc:
            raise SnapshotError(f"the data of {self._history.folder} cannot be read: {first_line(exc)}") from exc


def _parts(manifests: Sequence[SnapshotManifest]) -> Iterator[list[SnapshotManifest]]:
    """Divide snapshots into parts of some hundred million rows."""
    part: list[SnapshotManifest] = []
    for manifest in manifests:
        if part and sum(each.rows for each in part) + manifest.rows > _ROWS_AT_ONCE:
            yield part
            part = []
        part.append(manifest)
    yield part
