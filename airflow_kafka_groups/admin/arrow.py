"""Committed offsets of many groups as one Arrow table: columns are copied as they are, never a row at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from airflow_kafka_groups.models import GroupOffsets


def to_arrow(offsets: Iterable[GroupOffsets]) -> Any:
    """Make a ``pyarrow.Table`` with a row for each group, topic and partition.

    :param offsets: e.g. ``results.succeeded.values()``. A group without offsets has no row.

    Columns: ``group_id``, ``topic`` (dictionaries), ``partition`` (int32), ``committed_offset`` (int64; null where a
    partition was asked for and has no commit), ``leader_epoch`` (int32, null where there is none), ``metadata``.
    """
    import pyarrow as pa

    groups, topics = _Dictionary(), _Dictionary()
    partitions, epochs, committed = array("i"), array("i"), array("q")
    metadata: list[str] = []
    for group in offsets:
        for topic in group.topics:
            count = len(topic)
            groups.repeat(group.group_id, count)
            topics.repeat(topic.topic, count)
            partitions.extend(topic.partitions)
            epochs.extend(topic.leader_epochs)
            committed.extend(topic.offsets)
            metadata.extend(topic.metadata or ("",) * count)
    return pa.table(
        {
            "group_id": groups.column(pa),
            "topic": topics.column(pa),
            "partition": _column(pa, pa.int32(), partitions),
            "committed_offset": _without_negatives(pa, _column(pa, pa.int64(), committed)),
            "leader_epoch": _without_negatives(pa, _column(pa, pa.int32(), epochs)),
            "metadata": pa.array(metadata, pa.string()),
        }
    )


class _Dictionary:
    """Collect a column of few distinct texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._indices = array("i")

    def repeat(self, text: str, count: int) -> None:
        number = self._numbers.setdefault(text, len(self._numbers))
        self._indices.extend(array("i", [number]) * count)

    def column(self, pa: Any) -> Any:
        return pa.DictionaryArray.from_arrays(
            _column(pa, pa.int32(), self._indices), pa.array(self._numbers, pa.string())
        )


def _column(pa: Any, kind: Any, values: array[int]) -> Any:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.tobytes())])


def _without_negatives(pa: Any, column: Any) -> Any:
    import pyarrow.compute as pc

    return pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column)
