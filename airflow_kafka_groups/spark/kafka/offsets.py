"""Name what the jobs count with: partitions, committed offsets, the ends of logs and ranges of offsets. Values only."""

from __future__ import annotations

from typing import NamedTuple


class Partition(NamedTuple):
    """Name one partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Commit(NamedTuple):
    """Be a committed offset."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class LogEnds(NamedTuple):
    """Be the offsets a partition's log begins and ends with; the end is exclusive."""

    start: int
    end: int


class Range(NamedTuple):
    """Be the offsets ``[start, end)`` of one partition."""

    partition: Partition
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """Give how many offsets lie in it; compaction and transactions leave some without a record."""
        return self.end - self.start
