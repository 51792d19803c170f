"""Rows of very many groups, gathered as their answers come and then turned into Arrow columns.

A million committed offsets kept as Python objects take a gigabyte. Here they stay the bytes that a broker sent until
all are there (see ``admin.arrow``). Snapshots, backups and the Spark data source share this.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.exceptions import PartitionOffsetsError
from airflow_kafka_groups.kafka.admin.arrow import OffsetColumns, OffsetRows, null_if_negative
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicOffsets, TopicPartition
from airflow_kafka_groups.storage.arrow_values import as_column, column, literal

LogEnds = tuple["array[int]", "array[int]"]
"""Where the log of each partition starts, and where it ends; -1 for one that is not known."""

_PARTITION_BITS = 32


class GroupRows:
    """A row for each committed offset and each partition that cannot be read, and at least one for each group."""

    def __init__(self) -> None:
        self.observed = array("q")
        self._rows = OffsetRows()
        self._errors: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        observed_at: int,
        offsets: GroupOffsets | None,
        *,
        error: str | None = None,
        partition_errors: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Add the next group.

        :param observed_at: when its answer came, in microseconds since 1970.
        :param offsets: its committed offsets; ``None`` where there are none to ask for.
        :param error: why it could not be read. Default: it could.
        :param partition_errors: why some of its partitions could not be read. Default: all could.
        """
        rows, group, before = self._rows, len(self.observed), len(self._rows)
        self.observed.append(observed_at)
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
        """Decode the rows, and let go of the bytes they came as. No group may be added afterwards."""
        return GatheredRows(self._rows.columns(), self._errors)


class GatheredRows:
    """The rows of all groups in columns, with each partition that they name numbered once.

    :param columns: the rows.
    :param errors: the rows that could not be read, and why.
    """

    def __init__(self, columns: OffsetColumns, errors: Sequence[tuple[int, str]]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._columns = columns
        self.group = columns.group
        topic = pc.shift_left(columns.topic.cast(pa.int64()), literal(_PARTITION_BITS))
        seen = null_if_negative(pc.add(topic, columns.partition.cast(pa.int64()))).dictionary_encode()
        self._partition = seen.indices
        low = (1 << _PARTITION_BITS) - 1
        self.partitions = [
            TopicPartition(columns.topics[key >> _PARTITION_BITS], key & low) for key in seen.dictionary.to_pylist()
        ]
        self._error_texts = column([text for _, text in errors], pa.string())
        codes = array("i", [-1]) * len(columns.group)
        for number, (row, _) in enumerate(errors):
            codes[row] = number
        self._error = null_if_negative(as_column(pa.int32(), codes))

    def chunks(
        self, groups: Mapping[str, Any], log_ends: LogEnds | None, rows: int, order: Any = None
    ) -> Iterator[dict[str, Any]]:
        """Return the rows as named Arrow arrays of equal length.

        :param groups: further columns, with an entry for each group in the order in which they were added.
        :param log_ends: those of ``partitions``. ``None``: nobody asked.
        :param rows: the most rows in a chunk.
        :param order: indices of the rows. Default: the order in which they were added.
        """
        import pyarrow as pa

        unknown = array("q", [-1]) * len(self.partitions)
        starts, ends = log_ends or (unknown, unknown)
        if not len(starts) == len(ends) == len(self.partitions):
            raise ValueError("give one log start and one log end for each partition")
        start, end = (null_if_negative(as_column(pa.int64(), values)) for values in (starts, ends))
        topics = column(self._columns.topics, pa.string())
        for first in range(0, len(self.group), rows):
            chosen = _chooser(order, first, rows)
            group, partition, error = chosen(self.group), chosen(self._partition), chosen(self._error)
            yield {name: values.take(group) for name, values in groups.items()} | {
                **self._offsets(chosen, topics),
                "log_start": start.take(partition),
                "log_end": end.take(partition),
                "error": self._error_texts.take(error),
            }

    def _offsets(self, chosen: Callable[[Any], Any], topics: Any) -> dict[str, Any]:
        import pyarrow.compute as pc

        columns = self._columns
        offset = null_if_negative(chosen(columns.committed_offset))
        metadata = chosen(columns.metadata)
        return {
            "topic": topics.take(null_if_negative(chosen(columns.topic))),
            "partition": null_if_negative(chosen(columns.partition)),
            "committed_offset": offset,
            "leader_epoch": null_if_negative(chosen(columns.leader_epoch)),
            "metadata": pc.if_else(pc.is_valid(offset), metadata, literal(None, metadata.type)),
        }


def readable_part(result: GroupResult[GroupOffsets]) -> tuple[GroupOffsets | None, dict[str, Any]]:
    """Return what a group has committed, and what could not be read of it, as ``GroupRows.add`` takes it."""
    error = result.error
    if isinstance(error, PartitionOffsetsError):
        return error.partial, {"partition_errors": {key: str(why) for key, why in error.partition_errors.items()}}
    return result.value, {} if error is None else {"error": str(error) or type(error).__name__}


def _chooser(order: Any, first: int, rows: int) -> Callable[[Any], Any]:
    """Return what picks the next rows out of a column."""
    if order is None:
        return lambda column: column.slice(first, rows)
    indices = order.slice(first, rows)
    return lambda column: column.take(indices)


def _committed(topic: TopicOffsets) -> TopicOffsets:
    """Leave out partitions that have no commit, which brokers name only when they are asked for them."""
    if topic.committed == len(topic):
        return topic
    return TopicOffsets.of_rows(topic.topic, [row for row in topic.rows() if row[1] >= 0])
