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

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.spark.options import check_folder
from airflow_kafka_groups.spark.session.packages import require_pyspark
from airflow_kafka_groups.spark.session_on_demand import SessionOnDemand
from airflow_kafka_groups.storage.file_storage import Storage

Summary = dict[str, Any]
_PATHS = frozenset({"backlog", "base", "commit_history", "output", "owners", "records", "result", "summary"})
_CONNECTION = re.compile(r"\A((?:s3[an]?|gs)://)[^/:@]*@", re.IGNORECASE)
"""An Airflow connection before a bucket: connectors refuse it as a user. On Azure, what is there is the container."""
PARTLY_FAILED = 5
"""The exit code of a run over many clusters, if some failed."""


@dataclass(frozen=True, slots=True)
class Program:
    """A job as a program; ``--help`` shows its documentation, from the second line on below the options.

    :param job: its name, for Spark and for messages.
    :param check: completes and checks what was parsed; its ``ArgumentError`` ends the program.
    :param run: the job itself, with a Spark session.
    :param failed: the consequence of a Spark failure, as a sentence without its full stop.
    :param say: returns the message for an error that the job explains itself. Default: its text.
    :param counted: the lists of the summary of which only the number of entries is printed.
    :param starts_later: pass ``SessionOnDemand`` to ``run``. Default false: Spark starts at once.
    """

    job: str
    documentation: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None]
    check: Callable[[argparse.Namespace], None]
    run: Callable[[Any, argparse.Namespace], Summary]
    failed: str
    say: Callable[[JobError], str] = str
    counted: tuple[str, ...] = ()
    starts_later: bool = False

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
        """Run the job, by default as the command line says, and return the exit code.

        A session that is there before, such as a notebook's, stays, and with it its settings.
        """
        arguments = self.parse_arguments(argv)
        with SessionOnDemand(self.job) as session:
            try:
                summary = self._run(session, arguments)
            except JobError as exc:
                print(f"{self.job}: error: {self.say(exc)}", file=sys.stderr)
                return exc.exit_code
            except Exception as exc:
                if not _is_sparks(exc):
                    raise
                print(
                    f"{exc}\n{self.job}: error: {_why(exc, session, arguments)}{_remedy_of(exc)}. {self.failed}",
                    file=sys.stderr,
                )
                return 1
        print(json.dumps(summary | {name: len(summary[name]) for name in self.counted}), flush=True)
        if summary.get("failed"):
            print(f"{self.job}: error: failed for {', '.join(summary['failed'])}: see above", file=sys.stderr)
            return PARTLY_FAILED
        return 0

    def _run(self, session: SessionOnDemand, arguments: argparse.Namespace) -> Summary:
        try:
            return self.run(session if self.starts_later else session.start(), arguments)
        except ModuleNotFoundError:  # a job that began without Spark imports it when something needs it
            require_pyspark()
            raise


def write_summary(storage: Storage, path: str, summary: Summary) -> None:
    """Write the file that vouches for a job's output, as the last one."""
    storage.replace(path, (json.dumps(summary, indent=1) + "\n").encode())


def _is_sparks(exc: Exception) -> bool:
    if sys.modules.get("pyspark") is None:
        return False
    from airflow_kafka_groups.spark.errors import SPARK_ERRORS

    return isinstance(exc, SPARK_ERRORS)


def _remedy_of(exc: Exception) -> str:
    from airflow_kafka_groups.spark.errors import remedy_of

    return remedy_of(exc)


def _why(exc: Exception, session: SessionOnDemand, arguments: argparse.Namespace) -> str:
    """Explain an error of Spark's; one of its Kafka client's with the brokers' advertised addresses, if any answers."""
    from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
    from airflow_kafka_groups.spark.kafka.properties import load_properties
    from airflow_kafka_groups.spark.kafka.reader import explain

    brokers = list[str]()
    if path := getattr(arguments, "kafka_properties", None):
        try:
            spark = session.start()
            with KafkaAdmin(spark, load_properties(spark, path)) as admin:
                brokers = admin.brokers()
        except Exception as unanswered:
            if not (isinstance(unanswered, JobError) or _is_sparks(unanswered)):
                raise
    return explain(exc, brokers)
