"""Committed offsets of very many groups in flat columns, and from there to Parquet.

50,000 groups of 20 partitions are a million rows. Kept as Python objects they take a gigabyte; here a row is six
numbers in arrays (28 bytes): which group, which partition of the cluster, offset, leader epoch, and codes of the
metadata and the error. Partitions are numbered as they are seen, so that each is asked for its log ends once, and
pyarrow's ``take`` turns numbers into columns a chunk at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_groups.models import GroupOffsets, TopicPartition

_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Be what is known of a group besides its offsets."""

    group_id: str
    group_type: str
    protocol_type: str
    state: str
    members: int | None
    coordinator: int | None


class _Codes(dict[Any, int]):
    """Number values as they are first seen."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code


class OffsetColumns:
    """Collect groups one by one, then give Arrow tables, sorted by group id."""

    def __init__(self) -> None:
        self.facts: list[GroupFacts] = []
        self._observed = array("q")
        self._partitions = _Codes()
        self._topics: dict[str, _PartitionCodes] = {}
        self._metadata = _Codes()
        self._errors = _Codes()
        self._row_group = array("i")
        self._row_partition = array("i")
        self._row_offset = array("q")
        self._row_epoch = array("i")
        self._row_metadata = array("i")
        self._row_error = array("i")
        self._starts = array("q")
        self._ends = array("q")

    def __len__(self) -> int:
        return len(self._row_group)

    def add(
        self,
        facts: GroupFacts,
        observed_at: datetime,
        offsets: GroupOffsets | None,
        *,
        error: str | None = None,
        partition_errors: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Add a group: a row for each committed offset and for each partition error, and one row at the least."""
        before = len(self)
        group = len(self.facts)
        self.facts.append(facts)
        self._observed.append(_micros(observed_at))
        if error is None:
            self._add_offsets(group, offsets)
            for key, text in (partition_errors or {}).items():
                self._add_row(group, self._partition(key.topic)[key.partition], self._errors[text])
        if len(self) == before:
            self._add_row(group, _NONE, _NONE if error is None else self._errors[error])

    def partitions(self) -> list[TopicPartition]:
        """Give every partition seen, each once; the order is that of the arguments of ``set_log_ends``."""
        return list(self._partitions)

    def set_log_ends(self, starts: array[int], ends: array[int]) -> None:
        """Say where each partition's log starts and ends; -1 for one that is gone or could not be asked."""
        if not len(starts) == len(ends) == len(self._partitions):
            raise ValueError("give one log start and one log end for each partition")
        self._starts, self._ends = starts, ends

    def tables(self, chunk_rows: int = 131_072) -> Iterator[Any]:
        """Give all rows as Arrow tables of a bounded size, each group's rows together, groups sorted by id."""
        import pyarrow as pa
        import pyarrow.compute as pc

        row_group = _column(pa, pa.int32(), self._row_group)
        by_id = sorted(range(len(self.facts)), key=lambda i: self.facts[i].group_id)
        rank = array("i", bytes(4 * len(by_id)))
        for position, group in enumerate(by_id):
            rank[group] = position
        order = pc.sort_indices(_column(pa, pa.int32(), rank).take(row_group))
        lookups = self._lookups(pa)
        for start in range(0, len(self), chunk_rows):
            yield self._table(pa, pc, order.slice(start, chunk_rows), lookups)

    def _add_offsets(self, group: int, offsets: GroupOffsets | None) -> None:
        for topic in offsets.topics if offsets is not None else ():
            codes = self._partition(topic.topic)
            if topic.metadata is None and len(topic) and min(topic.offsets) >= 0:
                self._row_partition.extend([codes[partition] for partition in topic.partitions])
                self._row_offset.extend(topic.offsets)
                self._row_epoch.extend(topic.leader_epochs)
                count = len(topic)
                self._row_group.extend([group] * count)
                self._row_metadata.extend([self._metadata[""]] * count)
                self._row_error.extend([_NONE] * count)
                continue
            for partition, offset, epoch, metadata in topic.rows():
                if offset >= 0:
                    self._add_row(group, codes[partition], _NONE, offset, epoch, self._metadata[metadata])

    def _add_row(
        self, group: int, partition: int, error: int, offset: int = _NONE, epoch: int = _NONE, metadata: int = _NONE
    ) -> None:
        self._row_group.append(group)
        self._row_partition.append(partition)
        self._row_offset.append(offset)
        self._row_epoch.append(epoch)
        self._row_metadata.append(metadata)
        self._row_error.append(error)

    def _partition(self, topic: str) -> _PartitionCodes:
        codes = self._topics.get(topic)
        if codes is None:
            codes = self._topics[topic] = _PartitionCodes(topic, self._partitions)
        return codes

    def _lookups(self, pa: Any) -> dict[str, Any]:
        """Give the small tables that numbers are looked up in."""
        facts, partitions = self.facts, list(self._partitions)
        unknown = array("q", [_NONE]) * len(partitions)
        return {
            "group_id": pa.array([fact.group_id for fact in facts], pa.string()),
            "group_type": pa.array([fact.group_type for fact in facts], pa.string()),
            "protocol_type": pa.array([fact.protocol_type for fact in facts], pa.string()),
            "state": pa.array([fact.state for fact in facts], pa.string()),
            "members": pa.array([fact.members for fact in facts], pa.int32()),
            "coordinator": pa.array([fact.coordinator for fact in facts], pa.int32()),
            "observed_at": _column(pa, pa.timestamp("us", tz="UTC"), self._observed),
            "topic": pa.array([key.topic for key in partitions], pa.string()),
            "partition": pa.array([key.partition for key in partitions], pa.int32()),
            "log_start": _column(pa, pa.int64(), self._starts or unknown),
            "log_end": _column(pa, pa.int64(), self._ends or unknown),
            "metadata": pa.array(list(self._metadata), pa.string()),
            "error": pa.array(list(self._errors), pa.string()),
        }

    def _table(self, pa: Any, pc: Any, order: Any, lookups: dict[str, Any]) -> Any:
        def taken(kind: Any, rows: array[int]) -> Any:
            return _nullable(pa, pc, _column(pa, kind, rows).take(order))

        group = _column(pa, pa.int32(), self._row_group).take(order)
        partition = taken(pa.int32(), self._row_partition)
        of_group = ("group_id", "group_type", "protocol_type", "state", "members", "coordinator", "observed_at")
        columns = {name: lookups[name].take(group) for name in of_group}
        columns["topic"] = lookups["topic"].take(partition)
        columns["partition"] = lookups["partition"].take(partition)
        columns["committed_offset"] = taken(pa.int64(), self._row_offset)
        columns["leader_epoch"] = taken(pa.int32(), self._row_epoch)
        columns["metadata"] = lookups["metadata"].take(taken(pa.int32(), self._row_metadata))
        columns["log_start"] = _nullable(pa, pc, lookups["log_start"].take(partition))
        columns["log_end"] = _nullable(pa, pc, lookups["log_end"].take(partition))
        columns["error"] = lookups["error"].take(taken(pa.int32(), self._row_error))
        return pa.table(columns)


class _PartitionCodes(dict[int, int]):
    """Number the partitions of one topic among all partitions of the cluster."""

    def __init__(self, topic: str, all_partitions: _Codes) -> None:
        super().__init__()
        self._topic = topic
        self._all = all_partitions

    def __missing__(self, partition: int) -> int:
        code = self[partition] = self._all[TopicPartition(self._topic, partition)]
        return code


def _column(pa: Any, kind: Any, values: array[int]) -> Any:
    """Look at an array's own memory as an Arrow column: nothing is copied."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _nullable(pa: Any, pc: Any, values: Any) -> Any:
    return pc.if_else(pc.less(values, 0), pa.scalar(None, values.type), values)


def _micros(when: datetime) -> int:
    seconds = when.timestamp()
    return round(seconds * 1_000_000)
