"""Process exactly the unread records of a group, then commit.

Exit code 0: processed (and committed); 1: the job failed, and of the slice in work nothing was committed; 3: processed
but NOT committed, e.g. because the group was used meanwhile; 4: the commit was sent and cannot be verified. After 1, 3,
4 or a kill, the same command continues.
"""

from __future__ import annotations

import argparse
import importlib
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.hadoop_storage import beside, require_shared, storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties, load_properties
from airflow_kafka_groups.spark.kafka.reader import read_ranges
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, add_reading
from airflow_kafka_groups.spark.program import Program, logged, warn, write_summary
from airflow_kafka_groups.spark.session import SPARK_ERRORS, options_hidden, prepare_kafka
from airflow_kafka_groups.spark.unread.group import BacklogRequest, NotCommittedError, look, parse_fetched
from airflow_kafka_groups.spark.unread.ranges import POLICY_CHOICES, BacklogContext, BacklogPolicy, with_context
from airflow_kafka_groups.spark.unread.run import (
    PROCESSED,
    PROCESSING,
    Attempt,
    Record,
    TakenOverError,
    open_record,
    resume_or_begin,
)
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.job_outputs import require_own_summary
from airflow_kafka_groups.storage.paths import BACKLOG_RECORDS

JOB = "process_group_backlog"
_LISTS = ("before", "ends", "to_commit", "processed", "uncommitted")  # the result has all of them
_FAILED = "Nothing was committed, except for slices recorded before: the same command continues after them"
OUTPUT_MODES = ("errorifexists", "append", "overwrite")
COLUMN = "backlog_slice"
_MARK = "_writes-"
"""How the file begins that is there while a run writes a slice; readers of the output pass over such names."""
_FILES = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})
_READ_WAIT_MS = 10_000
"""How long Spark may take to report queries that have ended."""
Transform = Callable[[DataFrame, BacklogContext], DataFrame | None]
Handler = Callable[[DataFrame, BacklogContext], None]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(KAFKA_PROPERTIES, required=True, metavar="FILE", help="properties of Kafka's Java client; holds all secrets")
    add("--group", help="the group; its offsets are fetched now")
    add("--backlog", metavar="PATH", help="offsets fetched before, as GroupOffsetsToSparkOperator writes them")
    add("--topic", action="append", default=[], help="only this topic; repeatable (default: all with commits)")
    add("--transform", metavar="MODULE:FUNCTION", help="gets the DataFrame and, if it takes it, a context")
    add("--output", metavar="PATH", help="write the DataFrame there")
    add("--format", default="parquet", help="format of the output (default parquet)")
    words = f"what to do about other data in the output (default {OUTPUT_MODES[0]})"
    add("--output-mode", choices=OUTPUT_MODES, default=OUTPUT_MODES[0], help=words)
    add_reading(parser, POLICY_CHOICES)
    add("--no-commit", action="store_true", help="leave the commit to somebody else, who reads --result")
    add("--result", metavar="PATH", help="also write the summary there, also if the job fails")
    add("--max-records-per-slice", type=int, default=0, help="offsets per slice (default 0: all in one)")
    add(
        "--records",
        metavar="FOLDER",
        help="folder for restart records (default: beside --backlog, --output or --result)",
    )
    add("--start-over", action="store_true", help="begin at the group's commits, although an earlier run did not end")
    add("--max-records-per-partition", type=int, default=0, help="maximum records per Spark task (default 0: no limit)")


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Process and commit; return the summary. The summary is written to ``--result`` also when an error is raised."""
    summary: dict[str, Any] = {"job": JOB, "format": FORMAT, "backlog_id": None, "outcome": "failed", "error": None}
    summary |= {"output": arguments.output, "warnings": []}
    if result := arguments.result:
        storage = storage_of(spark, result)
        require_own_summary(storage, result, JOB, "--result", result)
        write_summary(storage, result, summary)  # or fail, before anything is processed
        storage.remove(result)  # an older one must not be mistaken for this one
    try:
        _run(spark, arguments, summary)
    except BaseException as exc:  # Ctrl-C, too
        summary["error"] = first_line(exc)
        summary.pop("to_commit", None)  # only what is processed completely may be committed by somebody else
        _write_result(spark, None if isinstance(exc, TakenOverError) else result, summary)  # the other process's result
        raise
    _write_result(spark, result, summary)
    return summary


def _write_result(spark: SparkSession, path: str | None, summary: dict[str, Any]) -> None:
    """Write the result, where one is asked for. A job that has failed ends with its own error and exit code."""
    try:
        if path:
            write_summary(storage_of(spark, path), path, summary)
    except Exception as exc:
        if summary["error"] is None:
            done = f"the job ended as {summary['outcome']!r}, with its ranges in {summary.get('record')}"
            raise JobError(f"{done}, but {first_line(exc)}") from exc
        warn(f"there is no --result: {first_line(exc)}")


def _run(spark: SparkSession, arguments: argparse.Namespace, summary: dict[str, Any]) -> None:
    output = (
        BacklogOutput(spark, arguments.output, arguments.format, arguments.output_mode) if arguments.output else None
    )
    handle = handler(arguments.transform, output)
    warnings = logged(prepare_kafka(spark))
    properties = load_properties(spark, arguments.kafka_properties)
    fetched = None
    if arguments.backlog:
        fetched = parse_fetched(storage_of(spark, arguments.backlog).read_text(arguments.backlog), arguments.backlog)
        summary["backlog_id"] = fetched.backlog_id
    request = BacklogRequest(
        group_id=arguments.group or (fetched.group_id if fetched else ""),
        topics=frozenset(arguments.topic),
        fetched=fetched,
        policy=BacklogPolicy(**{name: getattr(arguments, name) for name in POLICY_CHOICES}),
        isolation_level=arguments.isolation_level,
        commit=not arguments.no_commit,
        max_records_per_slice=arguments.max_records_per_slice,
        start_over=arguments.start_over,
    )
    # Every try of the same command finds the same ones.
    near = arguments.backlog or arguments.output or arguments.result
    records = arguments.records or beside(near, BACKLOG_RECORDS)
    for path in filter(None, (arguments.output, records)):
        require_shared(spark, path)
    most = arguments.max_records_per_partition
    options = {"maxRecordsPerPartition": str(most)} if most else {}
    try:
        process_backlog(spark, properties, request, handle, options=options, records=records, into=summary)
    except TakenOverError as exc:
        # A slice that is recorded as processed counts: the other process goes on after it, or replaces it itself.
        if output is not None and exc.entry == PROCESSED:
            output.discard()
        raise
    finally:
        summary["warnings"] = [*warnings, *summary["warnings"]]


def handler(transform: str | None, output: BacklogOutput | None) -> Handler:
    """Build the function that takes a slice. The user's function is imported here, before a broker is accessed."""
    function = with_context(load_transform(transform)) if transform else None

    def handle(records: DataFrame, context: BacklogContext) -> None:
        made = records if function is None else _transformed(function, records, context)
        if made is None:
            return
        if output is None:
            raise JobError("the transform returned a DataFrame, and there is no --output to write it to")
        output.write(made, context)

    return handle


def load_transform(name: str) -> Callable[..., Any]:
    """Import ``module:function``."""
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise ArgumentError("--transform", name, "give it as module:function")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as exc:
        remedy = f"{exc}. Ship the module by --py-files, or install it where the driver runs"
        raise ArgumentError("--transform", name, remedy) from exc
    except Exception as exc:  # the user's code
        traceback.print_exc()
        raise ArgumentError("--transform", name, f"its module cannot be imported: {type(exc).__name__}: {exc}") from exc
    if not callable(function):
        raise ArgumentError("--transform", name, "is not a function")
    return function  # type: ignore[no-any-return]


def _say(exc: JobError) -> str:
    if isinstance(exc, NotCommittedError):
        return f"the records are processed, but {exc}. The same command commits, if the group is where it was before"
    return f"{exc}. Nothing was committed" if isinstance(exc, ArgumentError) else str(exc)


def _transformed(transform: Transform, records: DataFrame, context: BacklogContext) -> DataFrame | None:
    try:
        made = transform(records, context)
    except SPARK_ERRORS:
        raise
    except (Exception, SystemExit) as exc:  # the user's code: whatever it raises, nothing may be committed
        traceback.print_exc()
        why = f"the transform failed: {type(exc).__name__}: {first_line(exc)}. Its slice was not committed"
        raise JobError(why) from exc
    if made is not None and not isinstance(made, DataFrame):
        raise JobError(f"the transform returned a {type(made).__name__}, not a DataFrame or None")
    return made


def _check(arguments: argparse.Namespace) -> None:
    for name in ("group", "backlog", "transform", "output", "result", "records"):
        setattr(arguments, name, getattr(arguments, name) or None)  # a template that rendered to nothing
    if not (arguments.group or arguments.backlog):
        raise ArgumentError("--group", arguments.group, "give a group, or its fetched offsets by --backlog")
    if not (arguments.transform or arguments.output):
        raise ArgumentError("--output", arguments.output, "give an output, a --transform, or both")
    for option in ("--max-records-per-partition", "--max-records-per-slice"):
        if (most := getattr(arguments, option[2:].replace("-", "_"))) < 0:
            raise ArgumentError(option, most, "give 0 or more")
    if arguments.no_commit and not arguments.result:
        raise ArgumentError("--result", arguments.result, "give a path: with --no-commit somebody else has to read it")
    if not (arguments.records or arguments.backlog or arguments.output or arguments.result):
        remedy = (
            "give a folder for what a restart needs: there is no --output, --result or --backlog beside which it can be"
        )
        raise ArgumentError("--records", arguments.records, remedy)


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

    In a notebook or an application of your own::

        summary = process_backlog(spark, load_properties(spark, "kafka.properties"), "orders", my_function)

    The records are passed a slice at a time, as a bounded DataFrame. A slice is committed only if the group was not
    used meanwhile.

    :param request: the request; a group id means all its topics.
    :param handle: takes the records as returned by Spark's Kafka source and, if it has a parameter ``context``, a
        ``BacklogContext``.
    :param options: further options of Spark's Kafka source.
    :param records: folder in which the work is recorded, so that a restart continues it. Default: no record.
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
    """Return the rows, observed, and a function that returns whether a query has read them, in any thread."""
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


class BacklogOutput:
    """Where and how the records, or what a transform made of them, are written.

    ``<output>/backlog_slice=<run id>-<slice>-<attempt>`` is a Hive partition, and the output one table. What earlier
    attempts wrote of a slice is deleted before it is processed; so readers have every record once. Another format than
    files appends each slice itself.
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

        Raises ``JobError`` if the folder has other data that the mode does not allow, or that another run writes.
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


_program = Program(JOB, __doc__, _add_arguments, _check, run, _FAILED, _say, _LISTS)
parse_arguments, main = _program.parse_arguments, _program.main
