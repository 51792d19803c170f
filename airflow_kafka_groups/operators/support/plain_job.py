"""A job that needs no Spark, as a program of this Python."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from airflow_kafka_groups.contracts.jobs import WITHOUT_SPARK
from airflow_kafka_groups.exceptions import KafkaGroupsError

_logger = logging.getLogger(__name__)
_SECONDS_TO_END = 10.0


def needs_no_spark(arguments: Sequence[str]) -> bool:
    """Return whether a job can do without: by its name, on a local disk, without a table.

    :param arguments: the job and its arguments, without Kafka's properties.
    """
    options = dict(pairwise(arguments))
    places = [options[name] for name in ("--base", "--output", "--owners") if name in options]
    is_local = all(":" not in place.partition("/")[0] or place.startswith("file:/") for place in places)
    more = {"--table", "--observations-table", "--commit-history"}.intersection(options)
    return "--base" in options and arguments[0] in WITHOUT_SPARK and is_local and not more


class PlainJob:
    """A run of a job.

    :param arguments: the job's own arguments.
    :param environment: the variables of its process.
    :param why: why it runs without Spark, as a sentence's end.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], why: str) -> None:
        self._arguments, self._environment, self._why = arguments, environment, why
        self._process: subprocess.Popen[str] | None = None
        self._was_killed = False

    def submit(self, application: str) -> None:
        """Run it to its end; its output goes to the log. Raises ``KafkaGroupsError`` if it fails."""
        command = [sys.executable, application, *self._arguments]
        last: deque[str] = deque(maxlen=1)
        _logger.warning("The job runs on this machine, without Spark and without access to Kafka: %s", self._why)
        with subprocess.Popen(  # noqa: S603
            command, env={**self._environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            self._process = process
            if self._was_killed:
                process.kill()
            for line in process.stdout or ():
                if text := line.rstrip():
                    _logger.info(text)
                    last.append(text)
        if process.returncode:
            said = last[0] if last else f"it ended with exit code {process.returncode}"
            raise KafkaGroupsError(f"the job {self._arguments[0]} failed: {said}")

    def on_kill(self) -> None:
        """Stop it, or do not begin it."""
        self._was_killed = True
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
