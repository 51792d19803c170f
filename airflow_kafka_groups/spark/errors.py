"""What the jobs raise: they stand alone on a Spark cluster, so this is not the package's own tree.

::

    JobError                   the job cannot go on: exit code 1
    ├── ArgumentError          bad input, named with its value and the remedy: exit code 2 (also a ValueError)
    ├── StorageError           a file or folder cannot be reached
    └── SnapshotError          a snapshot is missing, empty, incomplete or half written
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What Spark raises: translated ones, and what comes from the JVM as it is."""

_TRACEBACK = "Traceback (most recent call last):"


class JobError(Exception):
    """Be the base of every error a job explains by itself."""

    exit_code = 1


class ArgumentError(JobError, ValueError):
    """Refuse an argument before anything is read or written.

    :param argument: its name, as the user typed it.
    :param value: what was given.
    :param remedy: what to do about it, as a sentence.
    """

    exit_code = 2

    def __init__(self, argument: str, value: object, remedy: str) -> None:
        super().__init__(f"{argument} (got {value!r}): {remedy}")
        self.argument = argument
        self.remedy = remedy


class StorageError(JobError):
    """Say that a file or a folder cannot be reached, and why."""


class SnapshotError(JobError):
    """Say that a snapshot cannot be judged by, and what to do about it."""


def first_line(exc: BaseException) -> str:
    """Give the line of Spark's long messages that says what happened.

    :param exc: what Spark raised.
    """
    text = exc.java_exception.toString() if isinstance(exc, Py4JJavaError) else exc
    lines = [line for line in str(text).splitlines() if line.strip()]
    if not lines:
        return type(exc).__name__
    said = lines[0].strip()
    raised = _raised_in_python(lines)
    return f"{said.removesuffix(_TRACEBACK).strip()} {raised}" if raised else said


def _raised_in_python(lines: list[str]) -> str:
    """Give the last line of the last Python traceback: what a worker raised; empty if there is none."""
    begins = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    after = lines[begins[-1] + 1 :] if begins else []
    return next((line.strip() for line in after if not line.startswith(" ")), "")
