"""Gather the rows of a chunk and give them as Arrow batches: all groups at once, never an object for a row."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_groups.admin.arrow import OffsetColumns, OffsetRows, as_column, null_if_negative
from airflow_kafka_groups.models import GroupOffsets, TopicOffsets, TopicPartition
from airflow_kafka_groups.models.group_offsets import PACKED_ROW_SIZE
from airflow_kafka_groups.spark.source.groups import ListedGroups
from airflow_kafka_groups.spark.source.rows import arrow_schema

_ROWS_PER_BATCH = 65_536
_PARTITION_BITS = 32


class GroupRows:
    """Gather a row for each committed offset and each partition that cannot be read, and one at the least for a group.

    :param groups: the groups of the chunk; they are added by their places among these.
    """

    def __init__(self, groups: ListedGroups) -> None:
        self.groups = groups
        self._rows = OffsetRows()
        self._observed = array("q", bytes(8 * len(groups)))
        self._errors: list[tuple[int, str]] = []

    def add(
        self,
        group: int,
        offsets: GroupOffsets | None,
        *,
        error: str | None = None,
        partition_errors: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Add a group as it is observed now.

        :param group: its place, from 0.
        :param offsets: its committed offsets; ``None`` where there are none to ask for.
        :param error: why it could not be read. Default: it could.
        :param partition_errors: why some of its partitions could not. Default: all could.
        """
        rows, before = self._rows, len(self._rows)
        self._observed[group] = time.time_ns() // 1000
        for topic in offsets.topics if offsets is not None else ():
            rows.add(group, _committed(topic))
        for key, text in (partition_errors or {}).items():
            self._errors.append((len(rows), text))
            rows.add(group, TopicOffsets(key.topic, array("i", [key.partition]), array("q", [-1]), array("i", [-1])))
        if len(rows) == before:
            if error is not None:
                self._errors.append((len(rows), error))
            rows.add_group(group)

    def end(self) -> GatheredRows:
        """Take the rows apart into columns."""
        columns = self._rows.columns()
        return GatheredRows(
            groups=self.groups,
            columns=columns,
            observed=self._observed,
            errors=tuple(self._errors),
            **_numbered(columns),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredRows:
    """Be the rows of a chunk.

    :param groups: its groups.
    :param columns: its committed offsets.
    :param observed: when each group was observed, in microseconds since 1970.
    :param errors: rows that stand for what could not be read, and why.
    :param partition: for each row an index into ``partitions``; null without one.
    :param partitions: each partition that is named, once.
    """

    groups: ListedGroups
    columns: OffsetColumns
    observed: array[int]
    errors: tuple[tuple[int, str], ...]
    partition: Any
    partitions: list[TopicPartition]

    def batches(self, cluster_id: str | None, log_ends: tuple[array[int], array[int]] | None = None) -> Iterator[Any]:
        """Give the rows as ``pyarrow.RecordBatch``.

        :param cluster_id: the cluster's id.
        :param log_ends: where the log of each of ``partitions`` starts and ends, -1 for one that is not known. Default:
            nobody asked.
        """
        import pyarrow as pa

        columns = self.columns
        known = self._lookups(pa, log_ends)
        errors = self._error_codes(pa)
        for start in range(0, len(columns.group), _ROWS_PER_BATCH):
            part = slice(start, start + _ROWS_PER_BATCH)
            group, partition = columns.group[part], self.partition[part]
            kind = known["kind"].take(group)
            named = {name: known[name].take(kind) for name in ("group_type", "protocol_type", "state", "coordinator")}
            named |= {name: known[name].take(group) for name in ("group_id", "observed_at")}
            named |= {name: known[name].take(partition) for name in ("log_start", "log_end")}
            named["topic"] = known["topic"].take(null_if_negative(columns.topic[part]))
            named["partition"] = null_if_negative(columns.partition[part])
            named["committed_offset"] = null_if_negative(columns.committed_offset[part])
            named["leader_epoch"] = null_if_negative(columns.leader_epoch[part])
            named["metadata"] = columns.metadata[part]
            named["error"] = known["error"].take(errors[part])
            named["lag"] = _lag(named["committed_offset"], named["log_start"], named["log_end"])
            named["cluster_id"] = pa.repeat(pa.scalar(cluster_id, pa.string()), len(group))
            schema = arrow_schema()
            yield pa.record_batch([named[name] for name in schema.names], schema=schema)

    def _lookups(self, pa: Any, log_ends: tuple[array[int], array[int]] | None) -> dict[str, Any]:
        """Give the small columns that numbers are looked up in."""
        kinds = self.groups.kinds
        unknown = array("q", [-1]) * len(self.partitions)
        starts, ends = log_ends or (unknown, unknown)
        if not len(starts) == len(ends) == len(self.partitions):
            raise ValueError("give one log start and one log end for each partition")
        return {
            "group_id": pa.array(self.groups.ids, pa.string()),
            "kind": as_column(pa.int32(), self.groups.codes),
            "observed_at": as_column(pa.timestamp("us", tz="UTC"), self.observed),
            "group_type": pa.array([kind.group_type for kind in kinds], pa.string()),
            "protocol_type": pa.array([kind.protocol_type for kind in kinds], pa.string()),
            "state": pa.array([kind.state for kind in kinds], pa.string()),
            "coordinator": pa.array([kind.coordinator for kind in kinds], pa.int32()),
            "topic": pa.array(self.columns.topics, pa.string()),
            "log_start": null_if_negative(as_column(pa.int64(), starts)),
            "log_end": null_if_negative(as_column(pa.int64(), ends)),
            "error": pa.array([text for _, text in self.errors], pa.string()),
        }

    def _error_codes(self, pa: Any) -> Any:
        count = len(self.columns.group)
        if not self.errors:
            return pa.nulls(count, pa.int32())
        codes = array("i", [-1]) * count
        for number, (row, _) in enumerate(self.errors):
            codes[row] = number
        return null_if_negative(as_column(pa.int32(), codes))


def _committed(topic: TopicOffsets) -> TopicOffsets:
    """Leave out partitions that have no commit, which brokers name only when they are asked for them."""
    if max(topic.packed_rows()[4::PACKED_ROW_SIZE], default=0) < 0x80:  # no offset has its sign bit
        return topic
    kept = [row for row in topic.rows() if row[1] >= 0]
    return TopicOffsets(
        topic.topic,
        array("i", [row[0] for row in kept]),
        array("q", [row[1] for row in kept]),
        array("i", [row[2] for row in kept]),
        tuple([row[3] for row in kept]) if any(row[3] for row in kept) else None,
    )


def _numbered(columns: OffsetColumns) -> dict[str, Any]:
    """Number the partitions as they are seen, so that each is asked for its log ends once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    topic = pc.shift_left(columns.topic.cast(pa.int64()), pa.scalar(_PARTITION_BITS, pa.int64()))
    key = null_if_negative(pc.add(topic, columns.partition.cast(pa.int64())))
    seen = key.dictionary_encode()
    low = (1 << _PARTITION_BITS) - 1
    partitions = [TopicPartition(columns.topics[k >> _PARTITION_BITS], k & low) for k in seen.dictionary.to_pylist()]
    return {"partition": seen.indices, "partitions": partitions}


def _lag(committed: Any, start: Any, end: Any) -> Any:
    """Count what is left to read, as ``admin.lag`` does: from the log start if that is later, null beyond the end."""
    import pyarrow.compute as pc

    behind = pc.subtract(end, pc.max_element_wise(committed, start, skip_nulls=False))
    return pc.if_else(pc.less_equal(committed, end), behind, None)
