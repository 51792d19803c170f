"""Running a job as a program: its own session, a one-line error message, the summary as last line, an exit code."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.spark.options import check_folder
from airflow_kafka_groups.spark.requirements import require_pyspark
from airflow_kafka_groups.storage.file_storage import Storage

Summary = dict[str, Any]
_PATHS = frozenset({"backlog", "base", "output", "places", "records", "result"})
_CONNECTION = re.compile(r"\A((?:s3[an]?|gs)://)[^/:@]*@", re.IGNORECASE)
"""An Airflow connection before a bucket: connectors refuse it as a user. On Azure, what is there is the container."""
PARTLY_FAILED = 5
"""The exit code of a run over many clusters, if some failed."""


@dataclass(frozen=True, slots=True)
class Program:
    """A job as a program; ``--help`` shows its documentation, from the second line on below the options.

    :param check: completes and checks what was parsed; its ``ArgumentError`` ends the program.
    :param failed: the consequence of a Spark failure, as a sentence without its full stop.
    :param say: returns the message for an error that the job explains itself. Default: its text.
    :param counted: the lists of the summary of which only the number of entries is printed.
    :param imports: see ``session_of``.
    """

    job: str
    documentation: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    check: Callable[[argparse.Namespace], None]
    run: Callable[[Any, argparse.Namespace], Summary]
    failed: str
    say: Callable[[JobError], str] = str
    counted: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def parse_arguments(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the command line, by default the process's. An error ends the program with exit code 2 and a remedy."""
        first, _, more = (self.documentation or "").partition("\n")
        parser = argparse.ArgumentParser(prog=self.job, description=first, epilog=more.strip())
        self.add_arguments(parser)
        arguments = parser.parse_args(argv)
        for name in _PATHS.intersection(vars(arguments)):
            path = getattr(arguments, name)
            setattr(arguments, name, path and _CONNECTION.sub(r"\1", path))
        try:
            check_folder("--base", getattr(arguments, "base", None))  # not every job has one
            self.check(arguments)
            check_folder("--output", getattr(arguments, "output", None))
        except ArgumentError as exc:
            parser.error(str(exc))
        return arguments

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the job, by default as the command line says, and return the exit code. A notebook's session stays."""
        arguments = self.parse_arguments(argv)
        try:
            require_pyspark()
            # What a job and its arguments are is known without pyspark.
            from airflow_kafka_groups.spark.session import SPARK_ERRORS, remedy_of, session_of

            with session_of(self.job, self.imports) as spark:
                try:
                    summary = self.run(spark, arguments)
                except SPARK_ERRORS as exc:
                    from airflow_kafka_groups.spark.kafka.reader import explain

                    why = f"{explain(exc)}{remedy_of(exc)}. {self.failed}"
                    print(f"{exc}\n{self.job}: error: {why}", file=sys.stderr)
                    return 1
        except JobError as exc:
            print(f"{self.job}: error: {self.say(exc)}", file=sys.stderr)
            return exc.exit_code
        except ModuleNotFoundError as exc:
            remedy = "install it, or name a Python that has it by PYSPARK_DRIVER_PYTHON"
            print(f"{self.job}: error: the driver's Python ({sys.executable}): {exc}: {remedy}", file=sys.stderr)
            return 1
        print(json.dumps(summary | {name: len(summary[name]) for name in self.counted}), flush=True)
        if summary.get("failed"):
            print(f"{self.job}: error: failed for {', '.join(summary['failed'])}: see above", file=sys.stderr)
            return PARTLY_FAILED
        return 0


def warn(message: str) -> None:
    """Log a warning."""
    spark = sys.modules.get("pyspark.logger")  # not imported: a job that needs no Spark would wait for it
    (spark.PySparkLogger if spark else logging).getLogger("airflow_kafka_groups").warning(message)


def logged(warnings: Sequence[str]) -> list[str]:
    """Log warnings, and return them."""
    for warning in warnings:
        warn(warning)
    return list(warnings)


def write_summary(storage: Storage, path: str, summary: Summary) -> None:
    """Write the file that vouches for a job's output, as the last one."""
    storage.replace(path, (json.dumps(summary, indent=1) + "\n").encode())
