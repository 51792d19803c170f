"""Process exactly the unread records of a group, then commit.

Exit code 0: processed (and committed); 1: the job failed, and of the slice in work nothing was committed; 3: processed
but NOT committed, e.g. because the group was used meanwhile; 4: the commit was sent and cannot be verified. After 1, 3,
4 or a kill, the same command continues.
"""

from __future__ import annotations

import argparse
import importlib
import traceback
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.backlog import OUTPUT_MODES, BacklogOutput, process_backlog
from airflow_kafka_groups.spark.hadoop_storage import beside, require_shared, storage_of
from airflow_kafka_groups.spark.kafka.properties import load_properties
from airflow_kafka_groups.spark.options import KAFKA_PROPERTIES, add_reading
from airflow_kafka_groups.spark.preflight import prepare_kafka
from airflow_kafka_groups.spark.program import Program, logged, warn, write_summary
from airflow_kafka_groups.spark.session import SPARK_ERRORS
from airflow_kafka_groups.spark.unread.commit import NotCommittedError
from airflow_kafka_groups.spark.unread.ranges import POLICY_CHOICES, BacklogContext, BacklogPolicy, with_context
from airflow_kafka_groups.spark.unread.request import BacklogRequest, parse_fetched
from airflow_kafka_groups.spark.unread.run import PROCESSED, TakenOverError
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.job_outputs import require_own_summary
from airflow_kafka_groups.storage.paths import BACKLOG_RECORDS

JOB = "process_group_backlog"
_LISTS = ("before", "ends", "to_commit", "processed", "uncommitted")  # the result has all of them
_FAILED = "Nothing was committed, except for slices recorded before: the same command continues after them"
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
    """Process and commit; return the summary.

    The summary is written to ``--result`` also when an error is raised.
    """
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
    records = records_folder(spark, arguments)
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


def records_folder(spark: SparkSession, arguments: argparse.Namespace) -> str:
    """Return the folder of the records: every try of the same command finds the same one."""
    if arguments.records:
        return str(arguments.records)
    known = arguments.backlog or arguments.output or arguments.result
    return beside(spark, known, BACKLOG_RECORDS)


def handler(transform: str | None, output: BacklogOutput | None) -> Handler:
    """Build the function that takes a slice. The user's function is imported here, before a broker is accessed.

    :param transform: ``module:function``; ``None`` for the records unchanged.
    """
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


_program = Program(JOB, __doc__, _add_arguments, _check, run, _FAILED, _say, _LISTS)
parse_arguments, main = _program.parse_arguments, _program.main
