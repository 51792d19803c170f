"""How many groups are read and deleted together.

As many as brokers write in one go: a group costs them a tombstone for each of its offsets. Fewer where chunks take so
long that their readings would grow old. A process that dies leaves at most one chunk possibly deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_groups.change.backup.groups import BackupEntry
from airflow_kafka_groups.change.deletion.recheck import Expected
from airflow_kafka_groups.change.deletion.request import DeletionLimits

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

    :param entries: what is backed up, by group id; it says how many offsets a group has.
    :param limits: the most groups of a chunk, the age that its reading may have, and the pace.
    """

    def __init__(self, groups: Sequence[Expected], entries: Mapping[str, BackupEntry], limits: DeletionLimits) -> None:
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

    def take(self) -> Sequence[Expected]:
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

    def offsets(self, chunk: Sequence[Expected]) -> int:
        """Return how many committed offsets these groups have, as far as the backup says."""
        return sum(map(self._offsets_of, chunk))

    def _offsets_of(self, group: Expected) -> int:
        entry = self._entries.get(group.group_id)
        return 1 if entry is None else entry.partitions

    def took(self, seconds: float) -> None:
        """Adapt the size of the chunks to come to how long one took, from its reading until it was deleted."""
        if seconds > self._max_age * _SLOW:
            self._share = max(self._share / 2, 1 / 64)
        elif seconds < self._max_age * _QUICK:
            self._share = min(self._share * 2, 1.0)
