"""Errors of snapshots, plans, backups, deletions and their files."""

from __future__ import annotations

from datetime import datetime

from airflow_kafka_groups.exceptions.client import KafkaGroupsError


class MaintenanceError(KafkaGroupsError):
    """The base class of errors of snapshots, plans, backups and deletions."""


_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = "Caused by: "


class JobError(MaintenanceError):
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


class SnapshotError(JobError):
    """A snapshot is missing, empty or incomplete."""


class PlanError(MaintenanceError):
    """A plan cannot be made or must not be applied."""


class QuietTimeError(PlanError):
    """The quiet hours or holidays of a policy forbid a deletion now.

    :param message: what forbids it.
    :param until: when they end; ``None``: the plan will have expired.
    """

    def __init__(self, message: str, until: datetime | None) -> None:
        super().__init__(message)
        self.until = until


class PolicyError(MaintenanceError):
    """A policy file is missing, or says something that cannot be meant; the message names file, line and remedy."""


class BackupError(MaintenanceError):
    """A backup is missing or not as it should be."""


class JournalError(MaintenanceError):
    """The journal of deletions is damaged or cannot be continued."""


class StorageError(JobError):
    """A file could not be read, written or listed; the message names the path."""


class FileExistsAlreadyError(StorageError):
    """The file that was to be created exists, with other content."""
