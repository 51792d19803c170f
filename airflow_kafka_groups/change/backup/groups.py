"""The groups of a backup: what identifies each, and its offsets for a restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from airflow_kafka_groups.kafka.admin.arrow import as_array, packed_rows
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicOffsets
from airflow_kafka_groups.kafka.models.group_offsets import PACKED_ROW_SIZE
from airflow_kafka_groups.observe.snapshot.group_blocks import GroupBlock
from airflow_kafka_groups.storage.arrow_values import column, fill_nulls, literal, repeat


class BackupEntry(NamedTuple):
    """A group in a backup."""

    group_id: str
    group_type: str
    protocol_type: str
    partitions: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpGroup:
    """A group with its offsets, for a restore.

    :param bounds: (log start, log end) of each partition of ``offsets``, in their order; -1 for one that is not known.
    """

    entry: BackupEntry
    offsets: GroupOffsets
    bounds: tuple[Sequence[int], ...]


def groups_of(block: GroupBlock, entries: Sequence[BackupEntry]) -> Iterator[BackedUpGroup]:
    """Yield the groups of a verified block with their offsets."""
    import pyarrow as pa
    import pyarrow.compute as pc

    topics = block.rows["topic"].dictionary_encode()
    names = topics.dictionary.to_pylist()
    group = repeat(column(range(len(block)), pa.int64()), column(block.ends, pa.int32()))
    key = pc.add(pc.multiply(group, literal(len(names))), topics.indices)
    runs, rows = pc.run_end_encode(key), block.rows
    if pc.count_distinct(runs.values).as_py() < len(runs.values):  # rows of a topic lie apart
        order = pc.sort_indices(key)  # which keeps their order
        runs, rows = pc.run_end_encode(key.take(order)), rows.take(order)
    numbers = {name: as_array(kind, fill_nulls(rows[name], -1)) for name, kind in _NUMBERS.items()}
    packed = packed_rows(*(numbers[name] for name in ("partition", "committed_offset", "leader_epoch")))
    metadata = fill_nulls(rows["metadata"], "")
    texts = metadata.to_pylist() if pc.max(pc.binary_length(metadata)).as_py() else []
    ends = zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True)
    for entry, (start, end) in zip(entries, pairwise([0, *block.ends]), strict=True):
        parts, first = [], start
        while first < end:
            last, number = next(ends)
            part = TopicOffsets.packed(
                names[number % len(names)], packed[first * PACKED_ROW_SIZE : last * PACKED_ROW_SIZE]
            )
            if any(texts[first:last]):
                part.metadata = tuple(texts[first:last])
            parts.append(part)
            first = last
        bounds = numbers["log_start"][start:end], numbers["log_end"][start:end]
        yield BackedUpGroup(entry=entry, offsets=GroupOffsets(entry.group_id, tuple(parts)), bounds=bounds)


_NUMBERS = {"partition": "i", "committed_offset": "q", "leader_epoch": "i", "log_start": "q", "log_end": "q"}
"""The columns of numbers, and how wide they are. A number that is not known becomes -1."""
