"""The judgement of a cluster in Spark's tasks: the driver reads manifests, and no row.

1. A task reduces each file of a snapshot to a file of observations. On other storages than a disk, Spark writes it into
   a hidden folder, whence the driver moves it.
2. Files of observations are cut into buckets of groups. The shuffle carries a row for each file and bucket.
3. A task judges the groups of its buckets, and Spark writes the verdicts.

Files travel as bytes: to read Parquet as rows, and hand these to Python, takes five times the processor time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from airflow_kafka_groups.exceptions import JobError, SnapshotError, StorageError
from airflow_kafka_groups.judge.staleness.buckets import (
    JUDGED,
    LAST_RECORDS,
    Judgement,
    Part,
    cut,
    judged_buckets,
    packed,
)
from airflow_kafka_groups.judge.staleness.judging import VerdictCounts
from airflow_kafka_groups.judge.staleness.lives import READ
from airflow_kafka_groups.judge.staleness.observation_store import (
    PARTITION,
    DamagedObservationsError,
    ObservationFile,
    ObservationStore,
    create,
    from_file,
    to_file,
)
from airflow_kafka_groups.judge.staleness.observations import reduced
from airflow_kafka_groups.judge.staleness.one_process import each
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.judge.verdict_names import VerdictName
from airflow_kafka_groups.observe.history.snapshot_rows import rows_in
from airflow_kafka_groups.observe.history.snapshots import rows_of
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.bundle import ship
from airflow_kafka_groups.spark.frames import BASENAME, VERDICT_SCHEMA, WHOLE
from airflow_kafka_groups.spark.hadoop_storage import move
from airflow_kafka_groups.spark.session import SPARK_ERRORS, jvm_of, remedy_of, settings_of
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.file_storage import LocalStorage, Storage
from airflow_kafka_groups.storage.job_outputs import JobFiles, ReplacedFolder, footer_of
from airflow_kafka_groups.storage.manifest import SnapshotFile, SnapshotManifest
from airflow_kafka_groups.storage.paths import is_data_file, new_id
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS, arrow_schema

_GROUPS_OF_A_BUCKET = 5_000
"""Fewer are not worth a bucket of their own: each costs a millisecond for each snapshot."""

_MOST_GROUPS_OF_A_BUCKET = 50_000
"""More take a hundred megabytes of a task."""

_SEED = 42
"""By which Spark hashes a number, to choose the partition of a row."""

_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # a file's bytes, or those of one bucket, are in memory
    "spark.sql.adaptive.enabled": "false",  # it would put buckets into one task, since they are small to the shuffle
    # Tasks of a second or two of as many bytes each: by Spark's own sizes, 48 files become three tasks of two cores.
    "spark.sql.files.maxPartitionBytes": str(32 * 2**20),
    "spark.sql.files.openCostInBytes": "0",
    # All of the work is Python's: to compile code for it in the JVM takes longer than to run it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_LISTED_AT_ONCE = {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(2**31 - 1)}
"""For a local disk, which is listed more quickly than a job starts that lists."""

_AT_ONCE = {"mapreduce.job.outputformat.class": "org.apache.hadoop.mapreduce.lib.output.NullOutputFormat"}
"""Tasks write files where they are to be, instead of moving them there: an object store copies what is moved."""

_MADE = pa.schema({"made": pa.string(), "content": pa.binary()})
_PARTS = pa.schema({"bucket": pa.int32(), "place": pa.int32(), "content": pa.binary()})
_MAGIC = b"PAR1"
_FACTS = re.compile(r"made=(?P<snapshot_id>[^,]+),(?P<number>\d+),(?P<facts>[\d,-]+),(?P<sha256>[0-9a-f]{64})")

_DAMAGED = re.compile(rf"{DamagedObservationsError.__name__}: (\S+)")
_UNUSABLE = re.compile(r"exceptions\.SnapshotError: (.+)")
_MICROS = [f"unix_micros(last_{kind}_at) AS {kind}" for kind in ("commit", "record")]

Batches = Iterable[pa.RecordBatch]


class InTasks:
    """The runner that judges in Spark's tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        ship(spark)

    def reduce(self, store: ObservationStore) -> None:
        """Reduce the snapshots that have no observations, and store these.

        Raises ``SnapshotError`` for a snapshot whose rows do not match its manifest, and ``JobError``.
        """
        if not (manifests := store.missing()):
            return
        # A folder that readers of the table do not see, for files before they get their names.
        stage = f"{store.root}/_{new_id(datetime.now(UTC))}"

        def publish(manifest: SnapshotManifest) -> None:
            files = made.get(manifest.snapshot_id, {})
            if sorted(files) != [number for number, file in enumerate(manifest.files) if file.rows]:
                raise JobError(f"Spark has not written all observations of snapshot {manifest.snapshot_id}")
            places = dict(files.values())
            store.publish(manifest, [files[number].file for number in sorted(files)], partial(put, places))

        def put(places: Mapping[ObservationFile, str], file: ObservationFile, path: str) -> None:
            if places[file]:
                move(self._spark, f"{stage}/{places[file]}", path)

        try:
            made = self._made(store, manifests, stage)
            for _ in each(publish, manifests, store.storage):
                pass
        finally:
            with suppress(StorageError):  # the first error is the one to report
                store.storage.remove_folder(stage, everything=True)

    def _made(
        self, store: ObservationStore, manifests: Sequence[SnapshotManifest], stage: str
    ) -> dict[str, dict[int, _Made]]:
        """Return the files that tasks have made of each snapshot's, by the number of what they were made of."""
        sources = {
            (manifest.snapshot_id, file.name): (number, file)
            for manifest in manifests
            for number, file in enumerate(manifest.files)
        }
        paths = [path for manifest in manifests for path in rows_of(store.history, manifest)]
        if not paths:
            return {}
        disk = store.storage.local(store.root)
        with self._working(store, _SETTINGS):
            made = self._files(paths).mapInArrow(partial(_reduced_files, sources, disk), from_arrow_schema(_MADE))
            if disk is not None:
                rows = made.select(_MADE.names[0]).collect()
                return _described({(f"{_MADE.names[0]}={row[0]}", ""): None for row in rows})
            _write_contents(made, stage)
        return _described(store.storage.sizes_below(stage))

    def judge(
        self, store: ObservationStore, policy: StalenessPolicy, retention: int, output: str, last: DataFrame | None
    ) -> tuple[VerdictCounts, list[str]]:
        """Judge the groups, and write their verdicts in place of what a folder has; see ``OneProcess.judge``."""
        if not store.stored[store.history.judged.snapshot_id].files:
            folder = ReplacedFolder(store.storage, output)
            folder.write(arrow_schema(VERDICT_COLUMNS), ())
            return VerdictCounts(), folder.verify("verdicts", "judged")
        with self._working(store):
            # Now, since it needs other settings, and once, since it may read Kafka.
            records = None if last is None else _listed(last)
        try:
            with self._working(store, _SETTINGS):
                return _write_verdicts(self._verdicts(store, policy, retention, records), store.storage, output)
        finally:
            if records is not None:
                records.unpersist()

    def _verdicts(
        self, store: ObservationStore, policy: StalenessPolicy, retention: int, records: DataFrame | None
    ) -> DataFrame:
        read, incomplete = store.history.read, {*store.history.incomplete_ids}
        snapshots = [(manifest.snapshot_id, manifest.snapshot_id not in incomplete) for manifest in read]
        judgement = Judgement(policy, snapshots, retention, sorted(oldest for oldest, _ in store.observed))
        groups = store.stored[store.history.judged.snapshot_id].groups
        labels = self._labels(_buckets(groups, self._spark.sparkContext.defaultParallelism))
        files = {
            (name, file.name): (place if place < len(read) - 1 else JUDGED, file)
            for place, (name, _) in enumerate(snapshots)
            for file in store.stored[name].files
        }
        paths = [path for name, _ in snapshots for path in store.paths_of(store.stored[name])]
        parts = self._files(paths).mapInArrow(partial(_cut_files, files, labels), from_arrow_schema(_PARTS))
        if records is not None:
            parts = parts.union(records.mapInArrow(partial(_cut_records, labels), from_arrow_schema(_PARTS)))
        in_order = parts.repartition(len(labels), "bucket").sortWithinPartitions("bucket", "place")
        return in_order.mapInArrow(partial(_judged_parts, judgement), VERDICT_SCHEMA)

    def _files(self, paths: Sequence[str]) -> DataFrame:
        return self._spark.read.format("binaryFile").options(**WHOLE).load([*paths]).select("path", "content")

    def _labels(self, buckets: int) -> list[int]:
        """Return numbers of which Spark puts each into another one of as many partitions."""
        found, numbers = dict[int, int](), count()
        # By its full name, and an object of it: of a static method of the same name as another one, py4j finds either.
        murmur3 = getattr(jvm_of(self._spark, "a judgement"), "org.apache.spark.unsafe.hash.Murmur3_x86_32")(_SEED)
        while len(found) < buckets:
            number = next(numbers)
            found.setdefault(murmur3.hashInt(number) % buckets, number)
        return [*found.values()]

    @contextmanager
    def _working(self, store: ObservationStore, settings: Mapping[str, str] = {}) -> Iterator[None]:
        """Change settings within the block. What a task found is raised as if it was found here."""
        try:
            with settings_of(self._spark, {**settings, **(_LISTED_AT_ONCE if store.storage.is_local else {})}):
                yield
        except SPARK_ERRORS as exc:
            text = str(exc)
            if found := _DAMAGED.search(text):
                raise store.damaged(found[1]) from exc
            if found := _UNUSABLE.search(text):
                raise SnapshotError(found[1]) from exc
            problem = f"the data of {store.history.folder} cannot be judged: {first_line(exc)}"
            raise JobError(f"{problem}{remedy_of(exc)}") from exc


def _buckets(groups: int, cores: int) -> int:
    """Return how many buckets to judge by: a task for each core, unless they would be too small or too large."""
    return max(1, min(cores, groups // _GROUPS_OF_A_BUCKET), -(-groups // _MOST_GROUPS_OF_A_BUCKET))


def _batch(schema: pa.Schema, *values: Sequence[Any]) -> pa.RecordBatch:
    columns = [column(each, field.type) for each, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _contents(batches: Batches) -> Iterator[tuple[tuple[str, str], pa.Buffer]]:
    for batch in batches:
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
            folder, name = path.split("/")[-2:]
            yield (folder.rpartition("=")[2], name), content.as_buffer()


def _reduced_files(
    sources: Mapping[tuple[str, str], tuple[int, SnapshotFile]], disk: Path | None, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Reduce files; in a table on a disk, observations are written to their place, and not returned."""
    for (snapshot_id, name), content in _contents(batches):
        number, source = sources[snapshot_id, name]
        table = reduced(rows_in(source, snapshot_id, content), snapshot_id)
        if not table.num_rows:
            continue
        file, made = to_file(table)
        if disk is not None:
            create(LocalStorage(), f"{disk}/{PARTITION}={snapshot_id}/{file.name}", made)
            made = b""
        facts = (snapshot_id, number, file.groups, file.oldest, file.newest, file.bytes, file.sha256)
        yield _batch(_MADE, [",".join(map(str, facts))], [made.removesuffix(_MAGIC)])


def _write_contents(made: DataFrame, folder: str) -> None:
    """Write each row's bytes to a file, in a folder whose name describes it.

    Spark has no writer of bytes. Its writer of text adds what a line ends with, here what a file of Parquet ends with.
    """
    lines = made.select("made", F.col("content").cast("string").alias("value"))
    options = {"lineSep": _MAGIC.decode(), "maxRecordsPerFile": "1", "compression": "none"}
    lines.write.partitionBy("made").options(**options, **_AT_ONCE).mode("errorifexists").text(folder)


class _Made(NamedTuple):
    file: ObservationFile
    path: str
    """Where it is in the hidden folder; empty if it is in its place."""


def _described(places: Mapping[tuple[str, str], int | None]) -> dict[str, dict[int, _Made]]:
    """Return the files of each snapshot, by the number of what they were made of.

    :param places: folders that describe their file, its name and size. A killed task may leave a part of a file.
    """
    found: dict[str, dict[int, _Made]] = {}
    for (folder, name), there in places.items():
        if (said := _FACTS.fullmatch(folder)) and not name.startswith((".", "_")):
            groups, oldest, newest, size = map(int, said["facts"].split(","))
            if there not in (None, size):
                continue
            file = ObservationFile.of(groups, oldest, newest, size, said["sha256"])
            path = name and f"{folder}/{name}"
            found.setdefault(said["snapshot_id"], {})[int(said["number"])] = _Made(file, path)
    return found


def _cut_files(
    files: Mapping[tuple[str, str], tuple[int, ObservationFile]], labels: Sequence[int], batches: Batches
) -> Iterator[pa.RecordBatch]:
    for (snapshot_id, name), content in _contents(batches):
        place, file = files[snapshot_id, name]
        table = from_file(snapshot_id, file, content, everything=place == JUDGED)
        yield _parts_of(table if place == JUDGED else table.select(READ), place, labels)


def _parts_of(table: pa.Table, place: int, labels: Sequence[int]) -> pa.RecordBatch:
    found = [
        (label, packed(part)) for label, part in zip(labels, cut(table, len(labels)), strict=True) if part.num_rows
    ]
    return _batch(_PARTS, [label for label, _ in found], [place] * len(found), [content for _, content in found])


def _listed(rows: DataFrame) -> DataFrame:
    """Return last records in lists, which are many of them in one row, and persist."""
    known = rows.selectExpr("group_id", *_MICROS)
    several = known.groupBy(F.expr("pmod(hash(group_id), 64)")).agg(F.collect_list(F.struct("*")).alias("records"))
    listed = several.select("records").persist()
    listed.count()
    return listed


def _cut_records(labels: Sequence[int], batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        records = pa.RecordBatch.from_struct_array(batch["records"].flatten())
        yield _parts_of(pa.table(records.columns, names=records.schema.names), LAST_RECORDS, labels)


def _judged_parts(judgement: Judgement, batches: Batches) -> Iterator[pa.RecordBatch]:
    parts: Iterator[Part] = (
        (bucket, place, content.as_buffer())
        for batch in batches
        for bucket, place, content in zip(
            batch["bucket"].to_pylist(), batch["place"].to_pylist(), batch["content"], strict=True
        )
    )
    for verdicts in judged_buckets(judgement, parts):
        yield from verdicts.to_batches()


def _write_verdicts(rows: DataFrame, storage: Storage, output: str) -> tuple[VerdictCounts, list[str]]:
    own, seen, counts = JobFiles(), Observation(), VerdictCounts()
    lag = F.coalesce("lag", F.lit(0)).cast("decimal(38,0)")
    sums = [
        each
        for name in VerdictName
        for each in (
            F.count_if(F.col("verdict") == name).alias(f"groups_{name}"),
            F.sum(F.when(F.col("verdict") == name, lag)).alias(f"lag_{name}"),
        )
    ]
    observed = rows.observe(seen, *sums)
    observed.write.option(BASENAME, own.prefix).option("compression", "zstd").mode("overwrite").parquet(output)
    files = [name for name in storage.files(output) if is_data_file(name)]
    own.require_own(output, files, "judged")
    for name in map(str, VerdictName):
        counts.add(name, int(seen.get[f"groups_{name}"] or 0), int(seen.get[f"lag_{name}"] or 0))
    if sum(footer_of(storage, f"{output}/{name}")[1] for name in files) != sum(counts.groups.values()):
        raise JobError(f"{output} does not have the verdicts that were written: another job wrote there. Run it again")
    return counts, files
