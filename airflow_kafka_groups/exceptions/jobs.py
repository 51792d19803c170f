"""The errors of the jobs. Jobs run alone on a Spark cluster, so they do not use the package's error tree."""

from __future__ import annotations

_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = "Caused by: "


class JobError(Exception):
    """The base class of errors that a job explains itself, and ends with their exit code."""

    exit_code = 1


class ArgumentError(JobError, ValueError):
    """An invalid argument, detected before anything is read or written; its exit code is 2.

    :param argument: its name, as typed by the user.
    :param remedy: what to do about it, as a sentence.
    """

    exit_code = 2

    def __init__(self, argument: str, value: object, remedy: str) -> None:
        super().__init__(f"{argument} (got {value!r}): {remedy}")


class StorageError(JobError):
    """A file or folder that cannot be accessed; the message says why."""


class SnapshotError(JobError):
    """A snapshot that is missing, empty or incomplete, and so cannot be judged; the message has the remedy."""


def first_line(exc: BaseException) -> str:
    """Return the line of Spark's long message that says what happened, with its last cause.

    Of a write that failed, Spark's own line has no more than the folder. A worker's cause is its last error in Python.
    """
    raised_in_java = getattr(exc, "java_exception", None)
    text = exc if raised_in_java is None else raised_in_java.toString()
    lines = [line for line in str(text).splitlines() if line.strip()]
    if not lines:
        return type(exc).__name__
    said = lines[0].strip()
    begins = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    after = lines[begins[-1] + 1 :] if begins else []
    raised = next((line.strip() for line in after if not line.startswith(" ")), "")  # ends the last traceback
    if raised:
        return f"{said.removesuffix(_TRACEBACK).strip()} {raised}"
    causes = [line.removeprefix(_CAUSE).strip() for line in str(exc).splitlines() if line.startswith(_CAUSE)]
    return f"{said} {_CAUSE}{causes[-1]}" if causes and causes[-1] not in said else said
