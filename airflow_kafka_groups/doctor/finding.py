"""``Finding``: what one check found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What a check found: all is well, it works with limits, it cannot work, or nobody can tell."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    :param check: the name of the check, such as ``listing``.
    :param text: one sentence on what was found.
    :param remedy: what to do about it; empty where nothing has to be done.
    """

    check: str
    status: Status
    text: str
    remedy: str = ""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 broker", "3 brokers"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def worst(findings: Iterable[Finding]) -> Status:
    """Return the most serious status: failed, warning, unknown, ok; ok if there is no finding."""
    found = {finding.status for finding in findings}
    return next((status for status in (Status.FAILED, Status.WARNING, Status.UNKNOWN) if status in found), Status.OK)


class Report:
    """The findings of several checks, in the order in which they were made."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def ok(self, check: str, text: str) -> None:
        """Add a finding of a check that found nothing wrong."""
        self.findings.append(Finding(check=check, status=Status.OK, text=text))

    def warn(self, check: str, text: str, remedy: str) -> None:
        """Add a finding of something that works with limits."""
        self.findings.append(Finding(check=check, status=Status.WARNING, text=text, remedy=remedy))

    def fail(self, check: str, text: str, remedy: str) -> None:
        """Add a finding of something that cannot work."""
        self.findings.append(Finding(check=check, status=Status.FAILED, text=text, remedy=remedy))

    def unknown(self, check: str, text: str, remedy: str = "") -> None:
        """Add a finding of something that nobody can tell."""
        self.findings.append(Finding(check=check, status=Status.UNKNOWN, text=text, remedy=remedy))

    @contextmanager
    def checking(self, check: str, remedy: str, *errors: type[Exception]) -> Iterator[None]:
        """Turn errors of a check into a failed finding.

        :param remedy: what to do where it raises.
        :param errors: which errors are a finding; others are raised.
        """
        try:
            yield
        except errors as error:
            self.fail(check, f"{type(error).__name__}: {error}", remedy)
