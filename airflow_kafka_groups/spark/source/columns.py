"""The rows of a chunk as Arrow batches: all groups at once, never an object for a row."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.admin.arrow_values import as_column
from airflow_kafka_groups.maintenance.snapshot.group_rows import GatheredRows, GroupRows, LogEnds
from airflow_kafka_groups.models import GroupOffsets, TopicPartition
from airflow_kafka_groups.spark.source.groups import ListedGroups
from airflow_kafka_groups.spark.source.rows import SOURCE_NAMES, arrow_schema

_ROWS_PER_BATCH = 65_536


class ChunkRows:
    """The rows of the groups of a chunk.

    :param groups: the groups; they are added by their places among these.
    """

    def __init__(self, groups: ListedGroups, names: Sequence[str] = SOURCE_NAMES) -> None:
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

        kinds = self._groups.kinds
        place = as_column(pa.int32(), self._places)
        kind = as_column(pa.int32(), self._groups.codes).take(place)
        groups = {
            name: pa.array([getattr(each, name) for each in kinds], pa.string()).take(kind)
            for name in ("group_type", "protocol_type", "state")
        }
        groups["coordinator"] = pa.array([each.coordinator for each in kinds], pa.int32()).take(kind)
        groups["group_id"] = pa.array(self._groups.ids, pa.string()).take(place)
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
