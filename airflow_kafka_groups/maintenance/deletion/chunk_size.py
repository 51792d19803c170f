"""How many groups are read and deleted together.

As many as brokers write in one go: a group costs them a tombstone for each of its offsets. Fewer where chunks take so
long that their readings would grow old. A process that dies leaves at most one chunk possibly deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_kafka_groups.maintenance.backup.groups import BackupEntry
from airflow_kafka_groups.maintenance.deletion.recheck import Expected

OFFSETS_AT_ONCE = 20_000
"""Committed offsets of one chunk: about a megabyte and a half of tombstones, spread over the brokers."""
_SLOW, _QUICK = 1 / 4, 1 / 16
"""Shares of the age that a reading may have: a chunk that took longer is followed by smaller ones, and so on."""


class Chunks:
    """The groups of a run, cut into chunks one after the other.

    :param most: the most groups of a chunk.
    :param max_age: the seconds for which a reading may be deleted by.
    """

    def __init__(
        self, groups: Sequence[Expected], entries: Mapping[str, BackupEntry], *, most: int, max_age: float
    ) -> None:
        self._groups = groups
        self._entries = entries
        self._most = most
        self._max_age = max_age
        self._share = 1.0
        self._done = 0

    def take(self) -> Sequence[Expected]:
        """Return the next chunk, empty when there are no more groups."""
        most, offsets = max(int(self._most * self._share), 1), OFFSETS_AT_ONCE * self._share
        start = end = self._done
        while end < len(self._groups) and end - start < most:
            entry = self._entries.get(self._groups[end].group_id)
            offsets -= 1 if entry is None else entry.partitions
            if offsets < 0 and end > start:
                break
            end += 1
        self._done = end
        return self._groups[start:end]

    def took(self, seconds: float) -> None:
        """Adapt the size of the chunks to come to how long one took, from its reading until it was deleted."""
        if seconds > self._max_age * _SLOW:
            self._share = max(self._share / 2, 1 / 64)
        elif seconds < self._max_age * _QUICK:
            self._share = min(self._share * 2, 1.0)
