"""Snapshots' files, reduced in Spark's tasks if they are many rows, and otherwise in threads of the driver.

The threads take less time than the start of Python workers on executors does, up to some ten million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.staleness.observations import (
    CARRIED,
    REDUCED_SCHEMA,
    Reduction,
    combined,
    reduce_batches,
)
from airflow_kafka_groups.judge.workers import Workers
from airflow_kafka_groups.observe.history.snapshots import History, half_written, rows_of
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.frames import WHOLE, by_value
from airflow_kafka_groups.spark.session.preflight import require_arrow
from airflow_kafka_groups.spark.session.settings import runs_locally, settings_kept
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.manifest import SnapshotManifest

_ROWS_AT_ONCE = 100_000_000
_FILES_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch"


class ClusterReduction(Reduction):
    """The reduction of a history's snapshots by a cluster, if it is worth its while.

    :param workers: the driver's threads.
    :param driver_rows: the number of rows up to which they do it all.
    """

    def __init__(
        self, spark: SparkSession, storage: Storage, history: History, workers: Workers, driver_rows: int
    ) -> None:
        super().__init__(storage, history, workers)
        self._spark, self._driver_rows = spark, driver_rows

    def _tables(
        self, manifests: Sequence[SnapshotManifest]
    ) -> Iterable[tuple[SnapshotManifest, Callable[[], pa.Table]]]:
        rows = sum(manifest.rows for manifest in manifests)
        # Of a disk, threads read more than tasks; from elsewhere, tasks get more than comes through the JVM's socket.
        alone = runs_locally(self._spark) and self._storage.is_local
        many = rows > self._driver_rows and not alone
        return self._by_cluster(manifests) if many else super()._tables(manifests)

    def _by_cluster(
        self, manifests: Sequence[SnapshotManifest]
    ) -> Iterator[tuple[SnapshotManifest, Callable[[], pa.Table]]]:
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
                yield manifest, partial(combined, found[manifest.snapshot_id])

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
