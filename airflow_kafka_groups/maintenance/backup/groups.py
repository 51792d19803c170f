"""The groups of a backup: what identifies each, and its offsets for a restore."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from airflow_kafka_groups.admin.arrow import as_array
from airflow_kafka_groups.admin.arrow_values import fill_nulls
from airflow_kafka_groups.maintenance.snapshot.group_blocks import GroupBlock
from airflow_kafka_groups.models import GroupOffsets, TopicOffsets, TopicPartition


class BackupEntry(NamedTuple):
    """A group in a backup."""

    group_id: str
    group_type: str
    protocol_type: str
    partitions: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class BackedUpGroup:
    """A group with its offsets, for a restore.

    :param bounds: (log start, log end) of each partition of ``offsets``, in their order; -1 for one that is not known.
    """

    entry: BackupEntry
    offsets: GroupOffsets
    bounds: tuple[Sequence[int], ...]

    @cached_property
    def log_ends(self) -> Mapping[TopicPartition, tuple[int | None, int | None]]:
        """(Log start, log end) of each partition."""
        known = [[None if offset < 0 else offset for offset in offsets] for offsets in self.bounds]
        return dict(zip(self.offsets, zip(*known, strict=True), strict=True))


def groups_of(block: GroupBlock, entries: Sequence[BackupEntry]) -> Iterator[BackedUpGroup]:
    """Yield the groups of a verified block with their offsets."""
    topics = block.rows["topic"].dictionary_encode()
    names, topic = topics.dictionary.to_pylist(), topics.indices.to_pylist()
    columns = [_known(block.rows[name], kind) for name, kind in _NUMBERS.items()]
    metadata = block.rows["metadata"].to_pylist()
    plain = not any(metadata)
    for entry, (start, end) in zip(entries, pairwise([0, *block.ends]), strict=True):
        of_rows, texts = [column[start:end] for column in columns], metadata[start:end]
        runs = [(number, len(list(rows))) for number, rows in groupby(topic[start:end])]
        if len(dict(runs)) < len(runs):  # rows of a topic lie apart; sorting by topic keeps their order
            order = sorted(range(end - start), key=topic[start:end].__getitem__)
            of_rows = [array(column.typecode, map(column.__getitem__, order)) for column in of_rows]
            texts = [texts[row] for row in order]
            runs = [(number, len(list(rows))) for number, rows in groupby(sorted(topic[start:end]))]
        parts, first = [], 0
        for number, count in runs:
            rows = slice(first, first + count)
            some = None if plain or not any(texts[rows]) else tuple(texts[rows])
            partition, offset, epoch = (column[rows] for column in of_rows[:3])
            parts.append(TopicOffsets(names[number], partition, offset, epoch, some))
            first += count
        yield BackedUpGroup(entry=entry, offsets=GroupOffsets(entry.group_id, tuple(parts)), bounds=tuple(of_rows[3:]))


_NUMBERS = {"partition": "i", "committed_offset": "q", "leader_epoch": "i", "log_start": "q", "log_end": "q"}
"""The columns of numbers, and how wide they are."""


def _known(numbers: Any, kind: str) -> array[int]:
    """Return the numbers of a column, -1 for those that are not known."""
    return as_array(kind, fill_nulls(numbers, -1))
