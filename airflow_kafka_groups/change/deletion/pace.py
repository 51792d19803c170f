"""How fast a deletion goes: the size of its chunks, its limits, and its pauses while brokers are slow.

Brokers write a tombstone for every offset of a group, replicate it, and compact it away later. Their own answers set
the pace: when DeleteGroups takes ``SLOWER`` times as long for each group as in the first chunks of the run, it pauses
after each chunk for as long as that took, doubled while it lasts, up to ``LONGEST_PAUSE``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.ledger.plan_rows import Target

OFFSETS_AT_ONCE = 20_000
"""Committed offsets of one chunk: about two megabytes of tombstones, spread over the brokers."""
OFFSET_BYTES = 100
"""What a broker writes for each of them, about: a header, the group's id, and the topic's name."""
PACED_SECONDS = 5.0
"""With a pace limit, a chunk is at most what may be deleted in this time, so that pauses stay short."""
_SLOW, _QUICK = 1 / 4, 1 / 16
"""Shares of the age that a reading may have: a chunk that took longer is followed by smaller ones, and so on."""


class Chunks:
    """The groups of a run, cut into chunks one after the other.

    :param entries: what is backed up, by name; it says how many offsets a group has.
    :param limits: the most groups of a chunk, the age that its reading may have, and the pace.
    """

    def __init__(self, groups: Sequence[Target], entries: Mapping[str, Target], limits: DeletionLimits) -> None:
        self._groups = groups
        self._entries = entries
        self._most, self._offsets = float(limits.chunk_size), float(OFFSETS_AT_ONCE)
        if limits.groups_per_second is not None:
            self._most = min(self._most, limits.groups_per_second * PACED_SECONDS)
        if limits.bytes_per_second is not None:
            self._offsets = min(self._offsets, limits.bytes_per_second * PACED_SECONDS / OFFSET_BYTES)
        self._max_age = limits.max_read_age_seconds
        self._share = 1.0
        self._done = 0

    def take(self) -> Sequence[Target]:
        """Return the next chunk, empty when there are no more groups."""
        most, offsets = max(int(self._most * self._share), 1), self._offsets * self._share
        start = end = self._done
        while end < len(self._groups) and end - start < most:
            offsets -= self._offsets_of(self._groups[end])
            if offsets < 0 and end > start:
                break
            end += 1
        self._done = end
        return self._groups[start:end]

    def offsets(self, chunk: Sequence[Target]) -> int:
        """Return how many committed offsets these groups have, as far as the backup says."""
        return sum(map(self._offsets_of, chunk))

    def _offsets_of(self, group: Target) -> int:
        entry = self._entries.get(group.name)
        return 1 if entry is None else entry.partitions

    def took(self, seconds: float) -> None:
        """Adapt the size of the chunks to come to how long one took, from its reading until it was deleted."""
        if seconds > self._max_age * _SLOW:
            self._share = max(self._share / 2, 1 / 64)
        elif seconds < self._max_age * _QUICK:
            self._share = min(self._share * 2, 1.0)


SLOWER = 4.0
LONGEST_PAUSE = 30.0
_FIRST = 3
"""Chunks that show how fast these brokers are."""
_WEIGHT = 0.4
"""Of the newest chunk in the moving average."""
_NOTICED = 0.5
"""Seconds that a request has to take before a pause helps anybody."""


class Pace:
    """The times at which chunks may begin.

    :param notice: receives a sentence when the run begins to pause, and when it goes on as before.
    """

    def __init__(self, limits: DeletionLimits, monotonic: Callable[[], float], notice: Callable[[str], None]) -> None:
        self._limits = limits
        self._monotonic = monotonic
        self._notice = notice
        self._next = monotonic()
        self._first: list[float] = []
        self._usual_groups = 0
        self._average: float | None = None
        self._pause = 0.0

    @property
    def wait_seconds(self) -> float:
        """The seconds until the next chunk may be read; 0 or less when it may at once."""
        return self._next - self._monotonic()

    def begin(self, groups: int, offsets: int) -> None:
        """Note a chunk that is read now: the next one has to wait until this one was paid for."""
        seconds = 0.0
        if self._limits.groups_per_second is not None:
            seconds = groups / self._limits.groups_per_second
        if self._limits.bytes_per_second is not None:
            seconds = max(seconds, offsets * OFFSET_BYTES / self._limits.bytes_per_second)
        self._next = max(self._next, self._monotonic()) + seconds

    def answered(self, groups: int, seconds: float) -> None:
        """Note how long brokers took to delete a chunk."""
        each = seconds / max(groups, self._usual_groups, 1)  # a small chunk costs no less
        if len(self._first) < _FIRST:
            self._first.append(each)
            self._usual_groups = max(self._usual_groups, groups)
            return
        self._average = each if self._average is None else _WEIGHT * each + (1 - _WEIGHT) * self._average
        usual = median(self._first)
        if self._average > SLOWER * usual and seconds > _NOTICED:
            if not self._pause:
                self._notice(
                    f"brokers take {self._average / usual if usual else SLOWER:.1f} times as long for a group as at "
                    "first: the deletion pauses after each chunk"
                )
            self._pause = min(max(seconds, 2 * self._pause), LONGEST_PAUSE)
            self._next = max(self._next, self._monotonic()) + self._pause
        elif self._pause:
            self._pause = 0.0
            self._notice("brokers are as quick as at first again: the deletion goes on without pauses")
