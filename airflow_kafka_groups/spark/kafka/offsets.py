"""Values of the jobs: partitions, committed offsets, log ends and ranges of offsets."""

from __future__ import annotations

from typing import NamedTuple


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
