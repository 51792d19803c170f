"""The output of a run: a folder for each slice, named after run, slice and attempt, so that no try spoils another one.

``<output>/backlog_slice=<run id>-<slice>-<attempt>`` is a Hive partition: the output is one table. Before a slice is
processed, what earlier attempts wrote of it is deleted; so readers of the complete output have every record once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.unread.ranges import BacklogContext
from airflow_kafka_groups.spark.unread.record import PROCESSING, TakenOverError

OUTPUT_MODES = ("errorifexists", "append", "overwrite")
COLUMN = "backlog_slice"
_MARK = "_writes-"
"""How the file begins that is there while a run writes a slice; readers of the output pass over such names."""
_FILES = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})


class BacklogOutput:
    """Where and how the records, or what a transform made of them, are written.

    :param path: the folder; another format than files gets it unchanged, and appends each slice itself.
    :param mode: what happens to other data in the folder: one of ``OUTPUT_MODES``.
    """

    def __init__(self, spark: SparkSession, path: str, file_format: str, mode: str) -> None:
        self._spark, self._path, self._mode = spark, path.rstrip("/"), mode
        # To Spark, PARQUET is parquet: it must not lose the guarantees of files. Names of classes keep their case.
        lower = file_format.lower()
        self._format = lower if lower in (*_FILES, "delta") else file_format
        self._written = ""
        self._has_room = False

    def write(self, rows: DataFrame, context: BacklogContext) -> None:
        """Write a slice.

        Raises ``JobError`` if the folder has other data, and the mode does not allow it, or if another run has written
        there since this one began.
        """
        writer = rows.write.format(self._format)
        if self._format in _FILES:
            if lost := [name for name in rows.columns if name.lower() == COLUMN]:
                raise JobError(f"the output has a column {lost[0]!r}, which readers take from the folder: rename it")
            self._make_room(context)
            self._written = f"{self._path}/{COLUMN}={context.run_id}-{context.slice:06d}-{context.attempt}"
            storage = storage_of(self._spark, self._path)
            mark = f"{self._path}/{_MARK}{context.run_id}-{context.attempt}"
            storage.replace(mark, b"")
            try:
                writer.mode("errorifexists").save(self._written)
                self._require_alone(context)
                if not storage.exists(mark):  # Spark has committed only what tasks wrote after that
                    raise self._shared("which deleted this slice while it was written")
            finally:
                storage.remove(mark)
            return
        if self._format == "delta":  # a transaction that was committed before is skipped
            writer = writer.option("txnAppId", context.run_id).option("txnVersion", context.slice)
        # Also if slice 1 is repeated: its first try may have been refused by this mode, before it wrote anything.
        writer.mode("append" if context.slice > 1 else self._mode).save(self._path)

    def discard(self) -> None:
        """Delete the slice that was written last, because another process works on it."""
        if self._written:
            storage_of(self._spark, self._path).remove_folder(self._written, everything=True)

    def _require_alone(self, context: BacklogContext) -> None:
        """Raise ``JobError`` if another run made room for itself while the slice was written: it is not committed."""
        if self._mode != "overwrite":
            return
        there = storage_of(self._spark, self._path).folders(self._path)
        for name in there:
            if name.startswith(f"{COLUMN}=") and not name.startswith(f"{COLUMN}={context.run_id}-"):
                raise self._shared(name)
        if self._written.rpartition("/")[2] not in there:
            raise self._shared("which deleted this slice")

    def _shared(self, other: str) -> JobError:
        return JobError(
            f"--output {self._path!r} is written by another run, too ({other}), and with --output-mode overwrite each "
            "deletes what the other one wrote: give each group, and each run at a time, an --output of its own, and "
            "repeat this run with --start-over"
        )

    def _make_room(self, context: BacklogContext) -> None:
        storage = storage_of(self._spark, self._path)
        of_run = f"{COLUMN}={context.run_id}-"
        there = [*storage.folders(self._path), *storage.files(self._path)]
        marks = [name for name in there if name.startswith(f"{_MARK}{context.run_id}-")]
        others = [name for name in there if not name.startswith(of_run) and name not in marks]
        others.sort(key=lambda name: not name.startswith(_MARK))  # a run whose slice goes next learns of it
        other_runs = [name for name in others if name.startswith(f"{COLUMN}=")]
        data = [name for name in others if name[0] not in "._" and name not in other_runs]
        if others and self._mode == "errorifexists":
            found, remedy = (data or others)[0], "overwrite, which deletes it"
            if other_runs and not data:
                found, remedy = f"{other_runs[0]} of another run", "append; overwrite deletes it, also if committed"
            raise JobError(f"{self._path} exists and has {found}: give another --output, or --output-mode {remedy}")
        if data and self._mode == "append":  # they pass over files beside a partition, and fail for partitions of two
            raise JobError(
                f"{self._path} has {data[0]}, which readers would not see beside a slice's folder: give an --output of "
                "its own"
            )
        begun = self._has_room or any(name.startswith(of_run) for name in there)
        if begun and other_runs and self._mode == "overwrite":
            # It was made room for this run before its first slice. To delete it now would lose what its run commits.
            raise self._shared(other_runs[0])
        of_slice = f"{of_run}{context.slice:06d}-"
        stale = [name for name in there if name.startswith(of_slice)]
        if any(int(name.removeprefix(of_slice)) > context.attempt for name in stale):
            # What a later attempt wrote may be committed by now; this process has been replaced.
            raise TakenOverError(
                f"another process works on this backlog too, and has written slice {context.slice}: this one stops "
                "here, and has written nothing of it",
                PROCESSING,
            )
        marks = [name for name in marks if int(name.rpartition("-")[2]) < context.attempt]
        for name in marks + stale + (others if self._mode == "overwrite" else []):
            storage.remove_folder(f"{self._path}/{name}", everything=True)
        self._has_room = True
