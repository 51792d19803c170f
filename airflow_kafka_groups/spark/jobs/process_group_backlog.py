"""Process exactly the unread records of a group, then commit: ``spark-submit process_group_backlog.py --group …``.

The last line on stdout is the summary as JSON. Exit code 0: processed (and committed); 1: the job failed, and nothing
was committed; 2: invalid argument; 3: processed but NOT committed, e.g. because the group was used meanwhile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

if find_spec("airflow_kafka_groups") is None:  # neither installed nor in --py-files: submitted from a checkout
    sys.path.extend(str(root) for root in Path(__file__).resolve().parents if (root / "airflow_kafka_groups").is_dir())

from airflow_kafka_groups.contracts.formats import FORMAT
from airflow_kafka_groups.spark.backlog.commit import NotCommittedError
from airflow_kafka_groups.spark.backlog.file import parse_fetched
from airflow_kafka_groups.spark.backlog.process import BacklogRequest, Handler, process_backlog
from airflow_kafka_groups.spark.backlog.ranges import POLICY_CHOICES, BacklogPolicy
from airflow_kafka_groups.spark.errors import SPARK_ERRORS, ArgumentError, JobError
from airflow_kafka_groups.spark.kafka.properties import OPTION, load_properties
from airflow_kafka_groups.spark.kafka.reader import ISOLATION_LEVELS
from airflow_kafka_groups.spark.preflight import prepare_kafka
from airflow_kafka_groups.spark.program import run_program
from airflow_kafka_groups.spark.storage import Storage, require_shared

JOB = "process_group_backlog"
OUTPUT_MODES = ("errorifexists", "append", "overwrite")
Transform = Callable[[DataFrame], DataFrame | None]


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line. An error ends the program with exit code 2 and a remedy.

    :param argv: arguments without the program's name. Default: those of the process.
    """
    parser = argparse.ArgumentParser(prog=JOB, description=(__doc__ or "").partition(":")[0] + ".")
    add = parser.add_argument
    add(OPTION, required=True, metavar="FILE", help="properties of Kafka's Java client; holds all secrets")
    add("--group", help="the group; its offsets are fetched now")
    add("--backlog", metavar="PATH", help="offsets fetched before, as GroupOffsetsToSparkOperator writes them")
    add("--topic", action="append", default=[], help="only this topic; repeatable (default: all with commits)")
    add("--transform", metavar="MODULE:FUNCTION", help="gets the DataFrame; returns one (for --output) or None")
    add("--output", metavar="PATH", help="write the DataFrame there")
    add("--format", default="parquet", help="format of the output (default parquet)")
    add("--output-mode", choices=OUTPUT_MODES, default=OUTPUT_MODES[0])
    add("--isolation-level", choices=ISOLATION_LEVELS, default=ISOLATION_LEVELS[0])
    for name, choices in POLICY_CHOICES.items():
        add(f"--{name.replace('_', '-')}", choices=choices, default=choices[0])
    add("--no-commit", action="store_true", help="leave the commit to somebody else, who reads --result")
    add("--result", metavar="PATH", help="also write the summary there, with what is to be committed")
    add("--max-records-per-partition", type=int, default=0, help="of a Spark task (default 0: no limit)")
    arguments = parser.parse_args(argv)
    try:
        _check(arguments)
    except ArgumentError as exc:
        parser.error(str(exc))
    return arguments


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Process and commit; return the summary.

    :param spark: the session; it is set to UTC.
    :param arguments: the result of ``parse_arguments``.
    """
    handle = handler(arguments)
    warnings = prepare_kafka(spark, python_on_workers=bool(arguments.transform))
    for warning in warnings:
        print(f"{JOB}: warning: {warning}", file=sys.stderr)
    properties = load_properties(spark, arguments.kafka_properties)
    fetched = None
    if arguments.backlog:
        fetched = parse_fetched(Storage(spark, arguments.backlog).read_text(arguments.backlog), arguments.backlog)
    request = BacklogRequest(
        group_id=arguments.group or (fetched.group_id if fetched else ""),
        topics=frozenset(arguments.topic),
        fetched=fetched,
        policy=BacklogPolicy(**{name: getattr(arguments, name) for name in POLICY_CHOICES}),
        isolation_level=arguments.isolation_level,
        commit=not arguments.no_commit,
    )
    if arguments.output:
        require_shared(spark, arguments.output)
    if arguments.result:  # an older result must not be mistaken for this one
        Storage(spark, arguments.result).delete_file(arguments.result)
    records = arguments.max_records_per_partition
    options = {"maxRecordsPerPartition": str(records)} if records else {}
    found = process_backlog(spark, properties, request, handle, options=options)
    summary = {
        "job": JOB,
        "format": FORMAT,
        "backlog_id": fetched.backlog_id if fetched else None,
        **found,
        "output": arguments.output,
        "warnings": warnings,
    }
    if arguments.result:
        Storage(spark, arguments.result).write_text(arguments.result, json.dumps(summary, indent=1) + "\n")
    return summary


def handler(arguments: argparse.Namespace) -> Handler:
    """Build the function that takes the records. The user's function is imported here, before a broker is accessed.

    :param arguments: the result of ``parse_arguments``.
    """
    transform = load_transform(arguments.transform) if arguments.transform else None

    def handle(records: DataFrame) -> None:
        made = records if transform is None else _transformed(transform, records)
        if made is None:
            return
        if not arguments.output:
            raise JobError("the transform returned a DataFrame, and there is no --output to write it to")
        made.write.format(arguments.format).mode(arguments.output_mode).save(arguments.output)

    return handle


def load_transform(name: str) -> Transform:
    """Import ``module:function``.

    :param name: as typed by the user.
    """
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise ArgumentError("--transform", name, "give it as module:function")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as exc:
        remedy = f"{exc}. Ship the module by --py-files, or install it where the driver runs"
        raise ArgumentError("--transform", name, remedy) from exc
    if not callable(function):
        raise ArgumentError("--transform", name, "is not a function")
    return function  # type: ignore[no-any-return]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job in its own session and return the exit code.

    :param argv: arguments without the program's name. Default: those of the process.
    """
    return run_program(JOB, run, parse_arguments(argv), failed="Nothing was committed", say=_say, shown=_shown)


def _say(exc: JobError) -> str:
    if isinstance(exc, NotCommittedError):
        return f"the records are processed, but {exc}"
    return f"{exc}. Nothing was committed" if isinstance(exc, ArgumentError) else str(exc)


def _shown(summary: dict[str, Any]) -> dict[str, Any]:
    lists = {name: len(summary[name]) for name in ("before", "ends", "to_commit")}  # the result has all of them
    return {**summary, **lists}


def _transformed(transform: Transform, records: DataFrame) -> DataFrame | None:
    try:
        made = transform(records)
    except SPARK_ERRORS:
        raise
    except (Exception, SystemExit) as exc:  # the user's code: whatever it raises, nothing may be committed
        traceback.print_exc()
        raise JobError(f"the transform failed: {type(exc).__name__}: {exc}. Nothing was committed") from exc
    if made is not None and not isinstance(made, DataFrame):
        raise JobError(f"the transform returned a {type(made).__name__}, not a DataFrame or None")
    return made


def _check(arguments: argparse.Namespace) -> None:
    for name in ("group", "backlog", "transform", "output", "result"):
        setattr(arguments, name, getattr(arguments, name) or None)  # a template that rendered to nothing
    if not (arguments.group or arguments.backlog):
        raise ArgumentError("--group", arguments.group, "give a group, or its fetched offsets by --backlog")
    if not (arguments.transform or arguments.output):
        raise ArgumentError("--output", arguments.output, "give an output, a --transform, or both")
    if arguments.max_records_per_partition < 0:
        raise ArgumentError("--max-records-per-partition", arguments.max_records_per_partition, "give 0 or more")
    if arguments.no_commit and not arguments.result:
        raise ArgumentError("--result", arguments.result, "give a path: with --no-commit somebody else has to read it")


if __name__ == "__main__":
    sys.exit(main())
