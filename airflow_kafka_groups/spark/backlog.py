"""Processing of exactly the unread records of a group, followed by a commit: the library of ``process_group_backlog``.

In a notebook or an application of your own::

    summary = process_backlog(spark, load_properties(spark, "kafka.properties"), "orders", my_function)

1. *Look*: the group must not be in use; its commits and the log ends define what to read (``unread.ranges``).
2. *Record*: what is to be read, and that this process begins (``unread.run``). A restart continues from the record.
3. *Read and process*, a slice at a time: a bounded DataFrame is passed to the function. If it raises, nothing of the
   slice is committed.
4. *Commit* the slice: only if the group was not used meanwhile (``unread.commit``).

The output is a folder for each slice, named after run, slice and attempt, so that no try spoils another one:
``<output>/backlog_slice=<run id>-<slice>-<attempt>`` is a Hive partition, and the output one table. Before a slice is
processed, what earlier attempts wrote of it is deleted; so readers of the complete output have every record once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.kafka.reader import read_ranges
from airflow_kafka_groups.spark.program import warn
from airflow_kafka_groups.spark.session import SPARK_ERRORS, options_hidden
from airflow_kafka_groups.spark.unread.ranges import BacklogContext, with_context
from airflow_kafka_groups.spark.unread.request import BacklogRequest, look
from airflow_kafka_groups.spark.unread.run import (
    PROCESSING,
    Attempt,
    Record,
    TakenOverError,
    open_record,
    resume_or_begin,
)

_READ_WAIT_MS = 10_000
"""How long Spark may take to report queries that have ended."""


def process_backlog(
    spark: SparkSession,
    properties: KafkaProperties,
    request: BacklogRequest | str,
    handle: Callable[..., Any],
    *,
    options: Mapping[str, str] | None = None,
    records: str | None = None,
    into: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Pass the unread records to a function, and commit when it returns; return the summary.

    :param spark: the session; it must have the Kafka connector.
    :param request: the request; a group id means all its topics.
    :param handle: takes the records as returned by Spark's Kafka source and, if it has a parameter ``context`` or a
        second one without a default, a ``BacklogContext``.
    :param options: further options of Spark's Kafka source.
    :param records: folder in which the work is recorded, so that a restart continues it. Default: no record; a restart
        then begins at the group's commits, and does not know what was processed before.
    :param into: the dictionary of the summary; it is filled also if an error is raised. Default: a new one.

    Raises whatever the function raises, without a commit of its slice; ``NotCommittedError`` if a slice is processed
    but the group was used meanwhile; ``NotVerifiedError`` if a commit was sent and cannot be read back; ``JobError``
    for all problems noticed before.
    """
    asked = BacklogRequest(group_id=request) if isinstance(request, str) else request
    started = time.monotonic()
    found = {} if into is None else into
    with options_hidden(spark), KafkaAdmin(spark, properties) as admin:
        if asked.commit and (reason := properties.why_unchangeable(asked.group_id)):
            raise JobError(f"{reason}, so nothing can be committed: nothing was read")
        fetched_from = asked.fetched.kafka_cluster_id if asked.fetched else None
        cluster_id = admin.cluster_id(fetched_from, "the offsets were fetched from")
        record = Record()
        if records is not None:
            record = open_record(storage_of(spark, records), records, cluster_id, asked.group_id)
        observed = look(admin, asked)
        record, run = resume_or_begin(admin, asked, observed, record)
        attempt = Attempt(admin, record, run, observed, cluster_id, warn)
        function = with_context(handle)

        def process(context: BacklogContext) -> bool:
            rows, was_read = reads_of(
                read_ranges(spark, properties, context.ranges, isolation_level=asked.isolation_level, options=options)
            )
            function(rows, context)
            return was_read()

        failed = True
        try:
            attempt.do(process)
            failed = False
        finally:
            found |= {**attempt.summary(failed), "warnings": attempt.warnings}
            found["seconds"] = round(time.monotonic() - started, 1)
    return found


def reads_of(rows: DataFrame) -> tuple[DataFrame, Callable[[], bool]]:
    """Return the rows, observed, and a function that returns whether a query has read them, in any thread or job group.

    Spark reports nothing of rows that are read as an RDD; they count as unread.
    """
    observation = Observation(f"reads-{uuid.uuid4().hex[:8]}")
    observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))

    def was_read() -> bool:
        bus: Any = rows.sparkSession._jsc.sc().listenerBus()
        with suppress(*SPARK_ERRORS):  # a busy application has more to report
            bus.waitUntilEmpty(_READ_WAIT_MS)  # what a query that has ended reports is in it
        # In Python, one can only wait for a query, forever if there is none. One that failed did read.
        jvm_observation: Any = observation._jo
        return bool(jvm_observation.future().isCompleted())

    return observed, was_read


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
