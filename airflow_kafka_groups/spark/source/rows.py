"""The rows of the source: their columns, and those of a chunk as Arrow batches, never an object for a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_kafka_groups.observe.counting import lag_and_lost
from airflow_kafka_groups.observe.snapshot.group_rows import GatheredRows, LogEnds
from airflow_kafka_groups.storage.arrow_schema import arrow_schema
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.columns import SNAPSHOT_COLUMNS, Columns, columns

SOURCE_COLUMNS = (
    *columns({"cluster_id": "string, null"}),
    *(column for column in SNAPSHOT_COLUMNS if column.name not in ("cluster", "run_id", "members", "error")),
    *columns({"lag": "int64, null", "error": "string, null"}),
)
"""Columns as in a snapshot; ``cluster_id`` is Kafka's own id of the cluster."""

CHANGE_COLUMNS = (*columns({"change": "string", "previous_offset": "int64, null"}), *SOURCE_COLUMNS)
"""``change`` is ``new``, ``moved`` or ``removed``; a removed commit has its last observed columns."""

KEYS = ["group_id", "topic", "partition"]
VALUES = {"committed_offset": -1, "leader_epoch": -1, "metadata": ""}
"""What the changes of a stream compare, with what counts as none."""

LOG_END_NAMES = frozenset({"log_start", "log_end", "lag"})
"""The columns for which the ends of the logs are requested."""

_ROWS_PER_BATCH = 65_536


def batches(
    rows: GatheredRows, groups: Mapping[str, Any], cluster_id: str | None, log_ends: LogEnds | None, columns: Columns
) -> Iterator[Any]:
    """Return rows as ``pyarrow.RecordBatch``. Spark compares their columns strictly, nullability included.

    :param groups: the columns of their groups, with an entry for each group in the order in which they were added.
    :param log_ends: those of the rows' partitions; ``None``: nobody asked.
    """
    import pyarrow as pa

    schema = arrow_schema(columns)
    for named in rows.chunks(groups, log_ends, _ROWS_PER_BATCH):
        named["lag"], _ = lag_and_lost(*(named[name] for name in ("committed_offset", "log_start", "log_end")))
        named["cluster_id"] = pa.repeat(literal(cluster_id, pa.string()), len(named["group_id"]))
        yield pa.record_batch([named[name] for name in schema.names], schema=schema)
