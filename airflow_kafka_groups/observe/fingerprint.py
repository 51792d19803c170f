r"""The fingerprint of a group's committed offsets: while it is unchanged, no offset has moved.

SHA-256 over one line per committed partition, sorted by topic and partition: ``topic \t partition \t offset \t leader
epoch (-1 for none) \t metadata as a JSON string \n``. A commit with other metadata is a sign of life, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

from airflow_kafka_groups.kafka.models import GroupOffsets
from airflow_kafka_groups.storage.arrow_values import column, fill_nulls, literal, repeat

OFFSET_COLUMNS = ("topic", "partition", "committed_offset", "leader_epoch", "metadata")
"""The columns of stored rows that a fingerprint is computed from."""

_EMPTY = '""'


def fingerprint(offsets: GroupOffsets) -> str:
    """Return the fingerprint. Partitions without a commit are ignored."""
    rows = sorted(
        (topic.topic, partition, offset, max(epoch, -1), metadata)
        for topic in offsets.topics
        for partition, offset, epoch, metadata in topic.rows()
        if offset >= 0
    )
    lines = [
        f"{topic}\t{partition}\t{offset}\t{epoch}\t{json.dumps(metadata) if metadata else _EMPTY}\n"
        for topic, partition, offset, epoch, metadata in rows
    ]
    return sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def committed_partitions(offsets: GroupOffsets) -> int:
    """Return the number of partitions with a committed offset."""
    return sum([topic.committed for topic in offsets.topics])


def fingerprints(rows: Any, ends: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the fingerprint and the number of committed partitions of each group.

    :param rows: a ``pyarrow.RecordBatch`` with ``OFFSET_COLUMNS``, the rows of each group together.
    :param ends: where the rows of each group end; each has one at least.

    Raises ``ValueError`` for a committed offset without topic or partition.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(ends):
        return [], []
    offset = rows["committed_offset"]
    committed = pc.fill_null(pc.greater_equal(offset, literal(0)), literal(False))  # the value, not a switch
    if rows["topic"].null_count or rows["partition"].null_count:
        named = pc.and_(pc.is_valid(rows["topic"]), pc.is_valid(rows["partition"]))
        if pc.any(pc.and_not(committed, named)).as_py():
            raise ValueError("a committed offset lacks its topic or partition")
    epoch = pc.max_element_wise(fill_nulls(rows["leader_epoch"], -1), literal(-1, pa.int32()))
    group = repeat(column(range(len(ends)), pa.int32()), column(ends, pa.int32()))
    columns = [group, rows["topic"], rows["partition"], offset, epoch, fill_nulls(rows["metadata"], ""), committed]
    names = ["group", *OFFSET_COLUMNS, "committed"]
    order = pc.sort_indices(pa.table(columns, names), sort_keys=[(name, "ascending") for name in names[:-1]])
    _, topic, partition, offset, epoch, metadata, committed = (values.take(order) for values in columns)
    texts = [values.cast(pa.string()) for values in (partition, offset, epoch)]
    lines = pc.binary_join_element_wise(topic, *texts, _json_lines(metadata), literal("\t"))
    lines = pc.if_else(committed, lines, literal(""))
    place, data = memoryview(lines.buffers()[1]).cast("i"), memoryview(lines.buffers()[2] or b"")
    bounds = [place[end] for end in (0, *ends)]
    digests = [sha256(data[start:end]).hexdigest() for start, end in pairwise(bounds)]
    counted = [0, *pc.cumulative_sum(committed.cast(pa.int64())).to_pylist()]
    return digests, [counted[end] - counted[start] for start, end in pairwise((0, *ends))]


def _json_lines(metadata: Any) -> Any:
    """Return the end of each line: the metadata as a JSON string."""
    import pyarrow as pa

    values = metadata.dictionary_encode()
    written = column([f"{json.dumps(text)}\n" for text in values.dictionary.to_pylist()], pa.string())
    return written.take(values.indices)
