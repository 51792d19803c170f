"""The groups of a backup: what identifies each, and its offsets for a restore."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

from airflow_kafka_groups.maintenance.snapshot.group_blocks import GroupBlock
from airflow_kafka_groups.models import GroupOffsets, TopicOffsets, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEntry:
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
    numbers = ("partition", "committed_offset", "leader_epoch", "log_start", "log_end")
    columns = [_known(block.rows[name]) for name in numbers]
    metadata = block.rows["metadata"].to_pylist()
    for entry, (start, end) in zip(entries, pairwise([0, *block.ends]), strict=True):
        # Rows of a topic may lie apart: sorting by topic is stable, and leaves rows alone that are together.
        order = sorted(range(start, end), key=topic.__getitem__)
        parts = []
        for number, rows in groupby(order, key=topic.__getitem__):
            where = list(rows)
            partition, offset, epoch = (
                array(kind, [column[row] for row in where]) for kind, column in zip("iqi", columns[:3], strict=True)
            )
            texts = tuple([metadata[row] for row in where])
            parts.append(TopicOffsets(names[number], partition, offset, epoch, texts if any(texts) else None))
        bounds = tuple(array("q", [column[row] for row in order]) for column in columns[3:])
        yield BackedUpGroup(entry=entry, offsets=GroupOffsets(entry.group_id, tuple(parts)), bounds=bounds)


def _known(column: Any) -> list[int]:
    import pyarrow.compute as pc

    values: list[int] = pc.fill_null(column, -1).to_pylist()
    return values
