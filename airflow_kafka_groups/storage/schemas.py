"""Columns of the stored tables, and Arrow's schemas made from them. docs/formats.md explains each column.

A type is written as on that page: ``"int32"`` is never null, ``"int32, null"`` may be.

A table grows by columns that may be null, written ``"int32, added"`` here. Whoever reads a file takes the columns that
it knows: an added one that an older file lacks is null there, and what a newer file has besides is ignored. One that
all files have is never taken for null: a flipped bit in its name would hide it. ``known_columns`` alone decides, and
``read_known`` reads by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple


class Column(NamedTuple):
    """One column.

    ``kind`` is ``string``, ``strings`` (a list), ``int32``, ``int64``, ``double``, ``boolean``, ``binary``,
    ``timestamp`` or ``headers`` (a list of key and value).

    Every timestamp is an instant in microseconds, in UTC.

    :param added: whether files that are older than the column lack it; its absence must not decide anything.
    """

    name: str
    kind: str
    nullable: bool
    added: bool = False


Columns = tuple[Column, ...]


def columns(types: Mapping[str, str]) -> Columns:
    """Read columns as docs/formats.md writes them."""
    parts = {name: text.partition(", ") for name, text in types.items()}
    return tuple(Column(name, kind, bool(suffix), suffix == "added") for name, (kind, _, suffix) in parts.items())


_GROUP = {"group_id": "string", "group_type": "string", "protocol_type": "string"}
_STATE_OF_GROUP = {"state": "string", "members": "int32, null", "coordinator": "int32, null"}

SNAPSHOT_COLUMNS = columns(
    {
        "cluster": "string",
        "run_id": "string",
        "observed_at": "timestamp",
        **_GROUP,
        **_STATE_OF_GROUP,
        "group_epoch": "int32, null",
        "topic": "string, null",
        "partition": "int32, null",
        "committed_offset": "int64, null",
        "leader_epoch": "int32, null",
        "metadata": "string, null",
        "log_start": "int64, null",
        "log_end": "int64, null",
        "error": "string, null",
    }
)
"""One row for each group, topic and partition of a snapshot."""

MEMBER_COLUMNS = columns(
    {
        "group_id": "string",
        "snapshot_id": "string",
        "seen_at": "timestamp",
        "members": "int32",
        "clients": "int32",
        "client_id": "string",
        "host": "string",
        "client_members": "int32",
        "topics": "strings",
    }
)
"""One row for each client id and host of the members that a group was last seen with."""

SUBSCRIPTION_COLUMNS = columns({"group_id": "string", "topics": "strings", "complete": "boolean"})
"""One row for each group of which a snapshot saw what members subscribe to, and whether that is all of it."""

BACKUP_COLUMNS = columns(
    {
        "cluster": "string",
        "kafka_cluster_id": "string",
        "plan_id": "string",
        "observed_at": "timestamp",
        **_GROUP,
        "topic": "string",
        "partition": "int32",
        "committed_offset": "int64",
        "leader_epoch": "int32, null",
        "metadata": "string",
        "log_start": "int64, null",
        "log_end": "int64, null",
        "fingerprint": "string",
    }
)
"""One row for each committed partition of a backup."""

FORECAST_COLUMNS = columns(
    {
        "lag_unknown": "int32",
        "lost": "int64, null",
        "lag_trend": "double, null",
        "lag_trend_since": "timestamp, null",
        "offsets_expire_by": "timestamp, null",
        "data_loss_not_before": "timestamp, null",
    }
)
"""The verdicts' columns for people, which decide nothing."""

_JUDGED_COLUMNS = columns(
    {
        **_GROUP,
        **_STATE_OF_GROUP,
        "partitions": "int32",
        "lag": "int64, null",
        "first_seen_at": "timestamp",
        "empty_since": "timestamp, null",
        "last_moved_at": "timestamp, null",
        "last_record_at": "timestamp, null",
        "idle_since": "timestamp, null",
        "idle_seconds": "double, null",
        "observations": "int32",
        "observed_at": "timestamp",
    }
)
PLAN_COLUMNS = columns(
    {
        "group_id": "string",
        "topic": "string, null",
        "place": "int32, null",
        "verdict": "string, null",
        "reason": "string",
        "group_type": "string, null",
        "protocol_type": "string, null",
        "state": "string, null",
        "partitions": "int32, null",
        "lag": "int64, null",
        "idle_since": "timestamp, null",
        "idle_seconds": "double, null",
        "fingerprint": "string, null",
        "group_epoch": "int32, null",
        "observations": "int32, null",
        **{column.name: f"{column.kind}, null" for column in FORECAST_COLUMNS},
        "rule": "string, null",
        "owner": "string, null",
        "family": "string, null",
    }
)
"""One row for each group, or topic of a group, of a plan, to be deleted or kept, sorted by id and topic.

``place``: the group's place in the order of the plan, from 0; null for a kept one. Of a kept group, only its verdict,
reason, rule, owner, family and, where it waits for its notice, ``idle_since`` and its fingerprint are known.
"""

_DECIDED_COLUMNS = columns({"verdict": "string", "reason": "string"})

VERDICT_COLUMNS = (*_JUDGED_COLUMNS, *FORECAST_COLUMNS, *_DECIDED_COLUMNS)
"""One row for each group of the judged snapshot."""

OBSERVATION_COLUMNS = columns(
    {
        "run_id": "string",
        "observed_at": "timestamp",
        **_GROUP,
        **_STATE_OF_GROUP,
        "error": "string, null",
        "partitions": "int64",
        "digest_xor": "int64",
        "digest_sum": "int64",
        "lag": "int64, null",
        "lag_unknown": "int64",
        "lost": "int64, null",
        "log_start": "int64, null",
        "nearest": "int64, null",
    }
)
"""A snapshot, reduced to one row for each group: what later judgements need of it."""

LAG_COLUMNS = columns(
    {
        "group_id": "string",
        "state": "string",
        "topic": "string",
        "partition": "int32",
        "committed_offset": "int64, null",
        "log_start": "int64, null",
        "log_end": "int64, null",
        "observed_at": "timestamp",
        "flag": "string",
        "lag": "int64, null",
        "lost": "int64",
        "lag_seconds": "double, null",
        "lag_seconds_method": "string",
    }
)
"""One row for each group, topic and partition of a snapshot with a commit."""

COMMIT_COLUMNS = columns(
    {
        "group_id": "string",
        "topic": "string",
        "partition": "int32",
        "committed_offset": "int64",
        "leader_epoch": "int32, null",
        "metadata": "string, null",
        "committed_at": "timestamp",
        "expires_at": "timestamp, null",
        "recorded_at": "timestamp",
        "value_version": "int32",
    }
)
"""The newest commit of each group, topic and partition in ``__consumer_offsets`` that is not deleted."""

COMMIT_GROUP_COLUMNS = columns(
    {
        "group_id": "string",
        "group_type": "string, null",
        "protocol_type": "string, null",
        "protocol": "string, null",
        "generation": "int32, null",
        "leader": "string, null",
        "members": "int32, null",
        "state_changed_at": "timestamp, null",
        "partitions": "int64",
        "first_commit_at": "timestamp, null",
        "last_commit_at": "timestamp, null",
        "last_record_at": "timestamp, null",
        "quiet_since": "timestamp, null",
    }
)
"""One row for each group in ``__consumer_offsets``. ``group_type`` is null for a group without its own record."""

RECORDS, CORRUPT, FUTURE = "records", "corrupt", "future"
"""The names of the counts of records of ``__consumer_offsets``."""

ARCHIVE_COLUMNS = columns(
    {
        "group_id": "string",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp, null",
        "timestamp_type": "int32, null",
        "key": "binary, null",
        "value": "binary, null",
        "headers": "headers, null",
    }
)
"""One row for each group and each record that it had not read."""

ROLL_UP_COLUMNS = columns({"snapshot_id": "string", "verdict": "string", "groups": "int64", "lag": "int64"})
"""One row for each verdict of the last judgement of a day."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def arrow_schema(columns: Columns) -> Any:
    """Return the ``pyarrow.Schema`` of these columns."""
    import pyarrow as pa

    types = {
        **{name: getattr(pa, name)() for name in ("string", "int32", "int64", "binary")},
        "strings": pa.list_(pa.string()),
        **{"timestamp": pa.timestamp("us", tz="UTC"), "double": pa.float64(), "boolean": pa.bool_()},
    }
    return pa.schema([pa.field(column.name, types[column.kind], column.nullable) for column in columns])


def unchecked_schema(columns: Columns) -> Any:
    """Return the schema of rows with these columns that nobody has checked: one that is required may be null."""
    import pyarrow as pa

    return pa.schema([field.with_nullable(True) for field in arrow_schema(columns)])


def known_columns(found: Any, columns: Columns, *, of_any_type: bool = False) -> list[str]:
    """Return which of these columns a file has: it may be older or newer than they are.

    :param found: the ``pyarrow.Schema`` of the file.
    :param of_any_type: whether the reader converts values of another type. Default false: they mean something else.

    Raises ``ValueError`` for a column that is missing and was not added, or has another type.
    """
    known = []
    for column, field in zip(columns, arrow_schema(columns), strict=True):
        if (place := found.get_field_index(column.name)) < 0:
            if not column.added:
                raise ValueError(f"column {column.name} is missing, not {field.type}")
            continue
        if not of_any_type and (kind := found.field(place).type) != field.type:
            raise ValueError(f"column {column.name} is {kind}, not {field.type}")
        known.append(column.name)
    return known


def with_missing(rows: Any, columns: Columns) -> Any:
    """Return the rows of a file with these columns, in their order: those that it lacks are null.

    :param rows: a ``pyarrow.Table`` or ``pyarrow.RecordBatch`` with the columns that ``known_columns`` returned.
    """
    import pyarrow as pa

    there = rows.schema
    fields = [
        there.field(field.name) if field.name in there.names else field.with_nullable(True)
        for field in arrow_schema(columns)
    ]
    values = [
        rows[field.name] if field.name in there.names else pa.nulls(rows.num_rows, field.type) for field in fields
    ]
    return type(rows).from_arrays(values, schema=pa.schema(fields))


def read_known(parquet: Any, columns: Columns, *, of_any_type: bool = False) -> Any:
    """Read these columns of an open Parquet file as a ``pyarrow.Table``, whichever version of the table it has.

    :param of_any_type: as of ``known_columns``, which raises what this does.
    """
    known = known_columns(parquet.schema_arrow, columns, of_any_type=of_any_type)
    # More threads decode a small file no sooner, and each keeps memory of its own.
    return with_missing(parquet.read(columns=known, use_threads=False), columns)


def utc_times(column: Any) -> list[datetime | None]:
    """Return a column of stored times; pyarrow's own conversion takes several times as long.

    Many rows have the same time, that of a snapshot: each is converted once.
    """
    import pyarrow as pa

    micros = column.cast(pa.int64()).to_pylist()
    # Seconds and microseconds on their own take timedelta's short way.
    times = {value: _EPOCH + timedelta(0, value // 1_000_000, value % 1_000_000) for value in set(micros) - {None}}
    return list(map(times.get, micros))


def to_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table or batch; pyarrow's own conversion of a time imports pandas."""
    import pyarrow as pa

    columns = (utc_times(each) if pa.types.is_timestamp(each.type) else each.to_pylist() for each in table.columns)
    return [dict(zip(table.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]
