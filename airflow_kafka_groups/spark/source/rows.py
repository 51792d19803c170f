"""The rows of the source: their columns, and those of a chunk as Arrow batches, never an object for a row."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.admin.arrow_values import as_column
from airflow_kafka_groups.contracts.columns import Columns, columns
from airflow_kafka_groups.maintenance import arrow_schema as arrow
from airflow_kafka_groups.maintenance.snapshot.group_rows import GatheredRows, GroupRows, LogEnds
from airflow_kafka_groups.models import GroupOffsets, TopicPartition

SOURCE_COLUMNS = columns(
    {
        "cluster_id": "string, null",
        "observed_at": "timestamp",
        "group_id": "string",
        "group_type": "string",
        "protocol_type": "string",
        "state": "string",
        "coordinator": "int32, null",
        "topic": "string, null",
        "partition": "int32, null",
        "committed_offset": "int64, null",
        "leader_epoch": "int32, null",
        "metadata": "string, null",
        "log_start": "int64, null",
        "log_end": "int64, null",
        "lag": "int64, null",
        "error": "string, null",
    }
)
"""Columns named as in a snapshot; ``cluster_id`` is Kafka's own id of the cluster."""

SOURCE_NAMES = tuple(column.name for column in SOURCE_COLUMNS)
LOG_END_NAMES = frozenset({"log_start", "log_end", "lag"})
"""The columns for which the ends of the logs are requested."""

_ROWS_PER_BATCH = 65_536


def chosen(names: Sequence[str]) -> Columns:
    """Return some of the columns, in the order of their names."""
    return tuple(SOURCE_COLUMNS[SOURCE_NAMES.index(name)] for name in names)


def arrow_schema(names: Sequence[str] = SOURCE_NAMES) -> Any:
    """Return the columns as Arrow's; Spark compares them strictly, nullability included."""
    return arrow.arrow_schema(chosen(names))


class ChunkRows:
    """The rows of the groups of a chunk.

    :param groups: the groups, as ``groups.select`` returns them; they are added by their places among these.
    """

    def __init__(self, groups: Any, names: Sequence[str] = SOURCE_NAMES) -> None:
        self._groups = groups
        self._names = names
        self._places = array("i")
        self._rows = GroupRows()

    def add(
        self,
        group: int,
        offsets: GroupOffsets | None,
        *,
        error: str | None = None,
        partition_errors: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Add a group as it is observed now; see ``GroupRows.add``.

        :param group: its place, from 0.
        """
        self._places.append(group)
        self._rows.add(time.time_ns() // 1000, offsets, error=error, partition_errors=partition_errors)

    def end(self) -> GatheredRows:
        """Decode the rows."""
        return self._rows.end()

    def batches(self, rows: GatheredRows, cluster_id: str | None, log_ends: LogEnds | None = None) -> Iterator[Any]:
        """Return the rows as ``pyarrow.RecordBatch``.

        :param log_ends: those of the rows' partitions. Default: nobody asked.
        """
        import pyarrow as pa

        added = self._groups.take(as_column(pa.int32(), self._places))
        groups = dict(zip(added.schema.names, added.columns, strict=True))
        groups["observed_at"] = as_column(pa.timestamp("us", tz="UTC"), self._rows.observed)
        schema = arrow_schema(self._names)
        for named in rows.chunks(groups, log_ends, _ROWS_PER_BATCH):
            named["lag"] = _lag(named["committed_offset"], named["log_start"], named["log_end"])
            named["cluster_id"] = pa.repeat(pa.scalar(cluster_id, pa.string()), len(named["group_id"]))
            yield pa.record_batch([named[name] for name in schema.names], schema=schema)


def _lag(committed: Any, start: Any, end: Any) -> Any:
    """Count what is left to read, as ``admin.lag`` does: from the log start if that is later, null beyond the end."""
    import pyarrow.compute as pc

    behind = pc.subtract(end, pc.max_element_wise(committed, start, skip_nulls=False))
    return pc.if_else(pc.less_equal(committed, end), behind, None)
