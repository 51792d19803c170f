"""Lag of groups: in messages from a snapshot's rows, and in seconds from the records' timestamps. No I/O.

Messages are never negative and never guessed: the column ``flag`` explains a missing number.
Seconds are the age of the first unread record; ``lag_seconds_method`` names its clock: the producer's (``CreateTime``)
or the broker's (``LogAppendTime``). Tables of Arrow in, tables out, a part of the snapshot at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.counting import lag_and_lost
from airflow_kafka_groups.observe.offset_values import Partition
from airflow_kafka_groups.storage.arrow_schema import unchecked_schema
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.columns import LAG_COLUMNS

UNOWNED = "unowned"
SCHEMA = unchecked_schema(LAG_COLUMNS)
"""The stored columns. Nobody has checked that a row with a topic has a partition."""

_PLACE = ["topic", "partition", "first_offset"]
TIMESTAMPS = pa.schema(
    {
        **{"topic": pa.string(), "partition": pa.int32(), "first_offset": pa.int64()},
        **{"timestamp_ms": pa.int64(), "clock": pa.string()},
    }
)
"""The timestamp of the first record at or after an offset; ``timestamp_ms`` is null if there is none."""

# A producer's clock may say anything, such as nanoseconds: what is beyond this counts as this.
_LATEST_MS = 9_000_000_000_000_000
_NO_NUMBER, NO_TIME = literal(None, pa.int64()), literal(None, pa.float64())


def partition_lag(rows: pa.Table, owners: Mapping[str, str] | None = None) -> pa.Table:
    """Return each committed partition of a part of a snapshot with its lag in messages.

    The columns are those of ``SCHEMA`` without the lag in seconds, and ``first_offset``, the first one unread.

    :param rows: as ``SnapshotRows`` has them.
    :param owners: the owners of groups. Default: none has one.

    Raises ``JobError`` for offsets that are further apart than 64 bits can say.
    """
    rows = rows.filter(rows["topic"].is_valid())
    group, known = rows["group_id"].combine_chunks(), owners or {}
    names = [known.get(name, UNOWNED) for name in group.dictionary.to_pylist()]
    offset, start, end = (rows[name] for name in ("committed_offset", "log_start", "log_end"))
    lag, lost = lag_and_lost(offset, start, end)
    is_unreadable = pc.or_(rows["error"].is_valid(), offset.is_null())
    no_end = pc.or_(start.is_null(), end.is_null())
    reasons = pc.make_struct(is_unreadable, no_end, lag.is_null(), pc.not_equal(lost, 0))
    found = {
        "owner": pa.array(names, pa.string()).take(group.indices),
        "flag": pc.case_when(reasons, "unreadable", "unknown", "beyond_end", "data_lost", "ok"),
        "lag": pc.if_else(is_unreadable, _NO_NUMBER, lag),
        "lost": pc.if_else(is_unreadable, 0, pc.fill_null(lost, 0)),
    }
    for name in ("lag", "lost"):  # neither is below zero, unless it wrapped
        for row in rows.filter(pc.less(found[name], 0)).slice(0, 1).to_pylist():
            where = f"group {row['group_id']!r}, {Partition(row['topic'], row['partition'])}"
            offsets = f"committed {row['committed_offset']}, log from {row['log_start']} to {row['log_end']}"
            raise JobError(f"{where} has offsets that cannot be right, more than 64 bits apart: {offsets}")
    kinds = {field.name: field.type for field in SCHEMA if not field.name.startswith("lag_seconds")}
    columns = {name: found[name] if name in found else rows[name].cast(kind) for name, kind in kinds.items()}
    return pa.table({**columns, "first_offset": pc.max_element_wise(offset, start)})


def largest(lags: pa.Table, count: int) -> pa.Table:
    """Return the places of the largest lags, each once: topic, partition, first offset and lag.

    :param lags: the result of ``partition_lag``, or of this function: those of parts come to the same as of all rows.
    """
    behind = lags.select([*_PLACE, "lag"]).filter(pc.greater(lags["lag"], 0))
    most = behind.group_by(_PLACE).aggregate([("lag", "max")]).rename_columns([*_PLACE, "lag"])
    return most.sort_by([("lag", "descending"), *((name, "ascending") for name in _PLACE)])[:count]


def with_seconds(lags: pa.Table, timestamps: pa.Table) -> pa.Table:
    """Add the lag in seconds: the age of the first unread record when the group was observed.

    :param lags: the result of ``partition_lag``.
    :param timestamps: rows of ``TIMESTAMPS``.
    """
    numbered = lags.select(_PLACE).append_column("row", pa.array(np.arange(lags.num_rows)))
    timed = numbered.join(timestamps, _PLACE).sort_by("row")
    time, clock, lag = timed["timestamp_ms"], timed["clock"], lags["lag"]
    micros = pc.multiply(pc.min_element_wise(time, _LATEST_MS, skip_nulls=False), 1_000)
    age = pc.divide(pc.subtract(lags["observed_at"].cast(pa.int64()), micros).cast(pa.float64(), safe=False), 1e6)
    age = pc.max_element_wise(age, 0.0, skip_nulls=False)
    reasons = pc.make_struct(lag.is_null(), pc.equal(lag, 0), clock.is_null(), time.is_null())
    found = pc.binary_join_element_wise("first_unread_record:", clock, "")
    columns = {
        **dict(zip(lags.column_names, lags.columns, strict=True)),
        "lag_seconds": pc.if_else(pc.equal(lag, 0), 0.0, pc.if_else(pc.greater(lag, 0), age, NO_TIME)),
        "lag_seconds_method": pc.case_when(reasons, lags["flag"], "no_lag", "not_looked_up", "no_record_found", found),
    }
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)
