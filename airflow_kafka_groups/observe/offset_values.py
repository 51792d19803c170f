"""Values of the jobs: partitions, committed offsets, log ends and ranges of offsets; and their rows in JSON files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Commit(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


Timestamp = tuple[str, int, int, int | None, str]
"""Topic, partition, requested offset, milliseconds since 1970 (``None`` without a record), whose clock."""

Commits = Mapping[Partition, Commit]


class LogEnds(NamedTuple):
    """The first and the end offset (exclusive) of a partition's log."""

    start: int
    end: int


class Range(NamedTuple):
    """The offsets ``[start, end)`` of one partition."""

    partition: Partition
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """The number of offsets; compaction and transactions leave some without a record."""
        return self.end - self.start


def commit_rows(commits: Commits) -> list[dict[str, Any]]:
    """Return commits as JSON rows."""
    return [{**where._asdict(), **commit._asdict()} for where, commit in sorted(commits.items())]


def parse_commits(rows: Iterable[Mapping[str, Any]]) -> dict[Partition, Commit]:
    """Return the commits of JSON rows."""
    return {
        Partition(row["topic"], row["partition"]): Commit(row["offset"], row["leader_epoch"], row["metadata"])
        for row in rows
    }
