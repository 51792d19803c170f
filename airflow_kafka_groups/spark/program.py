"""Running a job as a program: its own session, a one-line error message, the summary as last line, an exit code.

The summary is JSON, on stdout. Exit code 0: done; 1: the job failed; 2: invalid argument; 5: some clusters failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.errors import SPARK_ERRORS, ArgumentError, JobError, first_line
from airflow_kafka_groups.spark.files.storage import Storage
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import load_properties, options_hidden
from airflow_kafka_groups.spark.kafka.reader import explain
from airflow_kafka_groups.spark.preflight import SETTINGS
from airflow_kafka_groups.spark.session import running_session, settings_kept

Summary = dict[str, Any]
_PATHS = frozenset({"backlog", "base", "commit_history", "output", "owners", "records", "result", "summary"})
_CONNECTION = re.compile(r"\A((?:s3[an]?|gs)://)[^/:@]*@", re.IGNORECASE)
"""An Airflow connection before a bucket: connectors refuse it as a user. On Azure, what is there is the container."""
PARTLY_FAILED = 5
"""The exit code of a run over many clusters, if some failed."""

_CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"
_NO_SESSION = "Check that Java 17 or newer is there (JAVA_HOME, or java on the PATH), and what it wrote above"


@dataclass(frozen=True, slots=True)
class Program:
    """A job as a program; ``--help`` shows the first line of its documentation.

    :param job: its name, for Spark and for messages.
    :param check: completes and checks what was parsed; its ``ArgumentError`` ends the program.
    :param failed: the consequence of a Spark failure, as a sentence without its full stop.
    :param say: returns the message for an error that the job explains itself. Default: its text.
    :param counted: the lists of the summary of which only the number of entries is printed.
    """

    job: str
    documentation: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    check: Callable[[argparse.Namespace], None]
    run: Callable[[SparkSession, argparse.Namespace], Summary]
    failed: str
    say: Callable[[JobError], str] = str
    counted: tuple[str, ...] = ()

    def parse_arguments(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the command line, by default the process's. An error ends the program with exit code 2 and a remedy."""
        parser = argparse.ArgumentParser(prog=self.job, description=(self.documentation or "").partition("\n")[0])
        self.add_arguments(parser)
        arguments = parser.parse_args(argv)
        for name in _PATHS.intersection(vars(arguments)):
            path = getattr(arguments, name)
            setattr(arguments, name, path and _CONNECTION.sub(r"\1", path))
        try:
            check_folder("--base", getattr(arguments, "base", None))  # not every job has one
            self.check(arguments)
        except ArgumentError as exc:
            parser.error(str(exc))
        return arguments

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the job, by default as the command line says, and return the exit code.

        A session that is there before, such as a notebook's, stays, and with it its settings.
        """
        arguments = self.parse_arguments(argv)
        found = running_session()
        # Recording the Python call site of each column is useful only in notebooks, and doubles the calls to the JVM.
        try:
            spark = found or SparkSession.builder.appName(self.job).config(_CALL_SITES, "false").getOrCreate()
        except SPARK_ERRORS as exc:
            print(f"{exc}\n{self.job}: error: Spark does not start: {first_line(exc)} {_NO_SESSION}", file=sys.stderr)
            return 1
        try:
            with settings_kept(spark, *SETTINGS), options_hidden(spark):
                summary = self.run(spark, arguments)
        except JobError as exc:
            print(f"{self.job}: error: {self.say(exc)}", file=sys.stderr)
            return exc.exit_code
        except SPARK_ERRORS as exc:
            why = explain(exc, _brokers(spark, arguments))
            print(f"{exc}\n{self.job}: error: {why}. {self.failed}", file=sys.stderr)
            return 1
        finally:
            if found is None:
                spark.stop()
        print(json.dumps(summary | {name: len(summary[name]) for name in self.counted}), flush=True)
        if summary.get("failed"):
            print(f"{self.job}: error: failed for {', '.join(summary['failed'])}: see above", file=sys.stderr)
            return PARTLY_FAILED
        return 0


def add_base(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the folder of all clusters."""
    parser.add_argument(
        "--base",
        required=True,
        type=folder_path,
        help="folder with one folder for each cluster, e.g. s3a://bucket/kafka-groups",
    )


def folder_path(text: str) -> str:
    """Parse a folder for argparse: ``/out/`` is ``/out``, whose summary is ``/out.json``."""
    return text.rstrip("/")


def check_folder(option: str, path: str | None) -> None:
    """Raise ``ArgumentError`` for an option with no folder, or with one that Spark would read as a pattern."""
    if path is not None and (not path or any(letter in path for letter in "*?[]{}\\")):
        raise ArgumentError(option, path, "give a folder or URI without any of * ? [ ] { } \\")


def write_summary(spark: SparkSession, path: str, summary: Summary) -> None:
    """Write the file that vouches for a job's output, as the last one."""
    Storage(spark, path).write_text(path, json.dumps(summary, indent=1) + "\n")


def _brokers(spark: SparkSession, arguments: argparse.Namespace) -> list[str]:
    """Return the brokers' advertised addresses for a message; none if the job does not read Kafka or none answers."""
    path = getattr(arguments, "kafka_properties", None)
    if not path:
        return []
    try:
        properties = load_properties(spark, path)
        with KafkaAdmin(spark, properties) as admin:
            return admin.brokers()
    except (JobError, *SPARK_ERRORS):
        return []
