"""Committed offsets of many groups as Arrow columns, decoded for all groups at once, never a row at a time.

Which group and which topic a row is of is kept as runs: the rows of a topic come together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from airflow_kafka_groups.kafka.models import PACKED_ROW_SIZE, GroupOffsets, TopicOffsets
from airflow_kafka_groups.storage.arrow_values import as_column, column, literal, repeat

_ROW = [("partition", ">i4"), ("committed_offset", ">i8"), ("leader_epoch", ">i4"), ("rest", "V4")]
"""The row of a ``TopicOffsets``, for numpy."""


def to_arrow(offsets: Iterable[GroupOffsets]) -> Any:
    """Make a ``pyarrow.Table`` with a row for each group, topic and partition.

    :param offsets: e.g. ``results.succeeded.values()``. A group without offsets has no row.

    Columns: ``group_id``, ``topic`` (dictionaries), ``partition`` (int32), ``committed_offset`` (int64; null where a
    partition was asked for and has no commit), ``leader_epoch`` (int32, null where there is none), ``metadata``.
    """
    import pyarrow as pa

    group_ids: list[str] = []
    gathered = OffsetRows()
    for group in offsets:
        for topic in group.topics:
            gathered.add(len(group_ids), topic)
        group_ids.append(group.group_id)
    rows = gathered.columns()
    return pa.table(
        {
            "group_id": pa.DictionaryArray.from_arrays(rows["group"], column(group_ids, pa.string())),
            "topic": pa.DictionaryArray.from_arrays(rows["topic"], column(gathered.topics, pa.string())),
            "partition": rows["partition"],
            "committed_offset": null_if_negative(rows["committed_offset"]),
            "leader_epoch": null_if_negative(rows["leader_epoch"]),
            "metadata": rows["metadata"],
        }
    )


class OffsetRows:
    """Gather rows of many groups as bytes, then give them as columns."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._ends = array("q")
        self._groups = array("i")
        self._topic_numbers = array("i")
        self._topics: dict[str, int] = {}
        self._metadata: list[tuple[int, tuple[str, ...]]] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def add(self, group: int, topic: TopicOffsets) -> None:
        """Add the rows of one topic of a group."""
        if not len(topic):  # a run has to be of one row at least
            return
        if topic.metadata is not None:
            self._metadata.append((len(self), topic.metadata))
        self._add(group, self._topics.setdefault(topic.topic, len(self._topics)), topic.packed_rows)

    def add_group(self, group: int) -> None:
        """Add one row for a group without topic, partition and offset."""
        self._add(group, -1, _NOTHING)

    @property
    def topics(self) -> list[str]:
        """The names of the topics, by their numbers."""
        return list(self._topics)

    def columns(self) -> Any:
        """Return all rows as a ``pyarrow.RecordBatch`` with numbers of groups and topics, and let go of their bytes.

        A negative number stands for a missing one.
        """
        import numpy as np
        import pyarrow as pa

        rows = np.frombuffer(b"".join(self._rows), _ROW)
        self._rows.clear()
        ends = as_column(pa.int64(), self._ends)
        columns = {
            "group": repeat(as_column(pa.int32(), self._groups), ends),
            "topic": repeat(as_column(pa.int32(), self._topic_numbers), ends),
            "partition": as_column(pa.int32(), rows["partition"].astype("i4")),
            "committed_offset": as_column(pa.int64(), rows["committed_offset"].astype("i8")),
            "leader_epoch": as_column(pa.int32(), rows["leader_epoch"].astype("i4")),
            "metadata": self._texts(pa),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _add(self, group: int, topic: int, rows: bytes) -> None:
        self._ends.append(len(self) + len(rows) // PACKED_ROW_SIZE)
        self._rows.append(rows)
        self._groups.append(group)
        self._topic_numbers.append(topic)

    def _texts(self, pa: Any) -> Any:
        if not self._metadata:
            return pa.repeat(literal(""), len(self))
        texts = [""] * len(self)
        for start, metadata in self._metadata:
            texts[start : start + len(metadata)] = metadata
        return column(texts, pa.string())


_NOTHING = TopicOffsets.of_rows("", [(-1, -1, -1, "")]).packed_rows


def packed_rows(partitions: Any, offsets: Any, leader_epochs: Any) -> bytes:
    """Return columns of numbers, -1 for a missing one, as the rows of ``TopicOffsets``, one after the other."""
    import numpy as np

    rows = np.zeros(len(partitions), _ROW)
    rows["partition"], rows["committed_offset"], rows["leader_epoch"] = partitions, offsets, leader_epochs
    return rows.tobytes()


def null_if_negative(numbers: Any) -> Any:
    """Return a column of numbers with null for the negative ones."""
    import pyarrow.compute as pc

    return pc.if_else(pc.less(numbers, literal(0, numbers.type)), literal(None, numbers.type), numbers)


def lag_and_lost(committed: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """Return the records that are left to read, and those that were removed unread.

    This is ``kafka.admin.lag.partition_lag`` for many rows at once. Both are null where an offset is null, or the
    commit is beyond the end.

    :param committed: the committed offsets.
    :param start: the log starts. Retention may have moved one beyond ``end``, which was read before.
    :param end: the end offsets.
    """
    import pyarrow.compute as pc

    first = pc.max_element_wise(committed, start, skip_nulls=False)
    first = pc.min_element_wise(first, end, skip_nulls=False)
    is_within, none = pc.less_equal(committed, end), literal(None, first.type)
    return tuple(pc.if_else(is_within, pc.subtract(*pair), none) for pair in ((end, first), (first, committed)))
