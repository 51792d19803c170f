"""The lag of groups and its sums: messages by a snapshot's rows, seconds by records' timestamps. No I/O.

Messages are never negative and never guessed: the column ``flag`` explains a missing number.
Seconds are the age of the first unread record; ``lag_seconds_method`` names its clock: the producer's (``CreateTime``)
or the broker's (``LogAppendTime``). Tables of Arrow in, tables out, a part of the snapshot at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.counting import lag_and_lost
from airflow_kafka_groups.observe.offset_values import Partition, Timestamp
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.file_storage import Storage
from airflow_kafka_groups.storage.job_outputs import ReplacedFolder
from airflow_kafka_groups.storage.paths import TableName
from airflow_kafka_groups.storage.schemas import LAG_COLUMNS, unchecked_schema

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


_BEYOND = 2**63
_EXACT = pa.decimal128(38)  # has room for the sum of as many 64-bit numbers as fit into memory

_KEYS = ["group_id", "owner", "state", "topic"]
_OF_NONE = pc.ScalarAggregateOptions(min_count=0)
"""The sum of no number is 0."""

_SUMS: dict[str, tuple[str, pc.FunctionOptions | None]] = {
    "partitions": ("sum", _OF_NONE),
    "partitions_without_lag": ("sum", _OF_NONE),
    "partitions_without_seconds": ("sum", _OF_NONE),
    "lag": ("sum", _OF_NONE),
    "max_partition_lag": ("max", None),
    "lost": ("sum", None),
    "max_lag_seconds": ("max", None),
    "all_read": ("all", None),
}
"""How each number of a sum is added up, of partitions as of sums."""

SUM_NAMES = ("groups", *(name for name in _SUMS if name != "all_read"))
"""The columns that ``Sums.by`` adds to its keys."""


class Sums:
    """The sums of a report, from its parts. Memory holds a row or two for each group, owner, state and topic."""

    def __init__(self) -> None:
        self.flags, self.methods = Counter[str](), Counter[str]()
        self._parts = [_added(_measured(SCHEMA.empty_table()), _KEYS)]
        self._totals = Counter[str]()

    def add(self, lags: pa.Table) -> None:
        """Add a part.

        :param lags: rows of ``SCHEMA``.

        Raises ``JobError`` for a sum beyond 64 bits.
        """
        for counter, name in ((self.flags, "flag"), (self.methods, "lag_seconds_method")):
            counter.update({each["values"]: each["counts"] for each in pc.value_counts(lags[name]).to_pylist()})
        for name, said in (("lag", "the lag of all groups"), ("lost", "what all groups lost")):
            self._totals[name] += int(pc.sum(lags[name].cast(_EXACT), min_count=0).as_py())
            if self._totals[name] >= _BEYOND:
                raise JobError(f"{said} has more than 64 bits: the offsets of the snapshot cannot be right")
        self._parts.append(_added(_measured(lags), _KEYS))
        if sum(part.num_rows for part in self._parts) > 2 * self._parts[0].num_rows + lags.num_rows:
            self._parts = [_added(pa.concat_tables(self._parts), _KEYS)]

    def by(self, *names: str) -> pa.Table:
        """Sum up the lag, largest first; ``partitions_without_lag`` counts the partitions without a number.

        :param names: the columns to group by, e.g. ``"owner"``; none for one row over all.
        """
        sums = _added(pa.concat_tables(self._parts), names)
        columns = {
            **dict(zip(sums.column_names, sums.columns, strict=True)),
            # Zero only if nothing is unread for certain: partitions that are read do not hide others without a time.
            "max_lag_seconds": pc.if_else(sums["all_read"], 0.0, sums["max_lag_seconds"]),
        }
        shown = [*names, *SUM_NAMES]
        order = [("lag", "descending"), *((name, "ascending") for name in names)]
        return pa.table([columns[name] for name in shown], shown).sort_by(order)


def _measured(lags: pa.Table) -> pa.Table:
    """Return what a partition adds to each sum."""
    lag, one = lags["lag"], pa.array(np.ones(lags.num_rows, np.int64))
    is_behind = pc.fill_null(pc.greater(lag, 0), False)
    measures = {
        "partitions": one,
        "partitions_without_lag": lag.is_null().cast(pa.int64()),
        "partitions_without_seconds": pc.and_(is_behind, lags["lag_seconds"].is_null()).cast(pa.int64()),
        "lag": lag,
        "max_partition_lag": lag,
        "lost": lags["lost"],
        "max_lag_seconds": pc.if_else(is_behind, lags["lag_seconds"], NO_TIME),
        "all_read": pc.fill_null(pc.equal(lag, 0), False),
    }
    return pa.table({**{name: lags[name] for name in _KEYS}, **measures})


def _added(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Add up partitions or sums, by these columns; ``groups`` is the number of their groups."""
    wanted = [("group_id", "count_distinct", None), *((name, *how) for name, how in _SUMS.items())]
    found = table.group_by([*names]).aggregate(wanted)
    made = [f"{name}_{how}" for name, how, _ in wanted]
    return found.select([*names, *made]).rename_columns([*names, "groups", *_SUMS])


SUMMED_BY = {
    TableName.LAG_GROUPS: ("group_id", "owner", "state"),
    TableName.LAG_TOPICS: ("topic",),
    TableName.LAG_OWNERS: ("owner",),
}


class Seen(NamedTuple):
    """What the first reading finds.

    :param groups: the ids of all groups.
    :param unreadable: the ids of those that could not be read in full.
    :param behind: the first unread offsets of the largest lags.
    """

    groups: set[str]
    unreadable: set[str]
    behind: list[tuple[Partition, int]]


def look_through(rows: Iterable[pa.Table], count: int) -> Seen:
    """Read a snapshot for the first time, so that nothing is written of one that cannot be used.

    :param rows: its parts, as ``SnapshotRows`` has them.
    :param count: the number of first unread offsets to return.
    """
    groups, unreadable = set[str](), set[str]()
    behind: list[pa.Table] = []
    for part in rows:
        groups.update(pc.unique(part["group_id"]).to_pylist())
        unreadable.update(pc.unique(part["group_id"].filter(part["error"].is_valid())).to_pylist())
        if count:
            behind = [largest(pa.concat_tables([*behind, largest(partition_lag(part), count)]), count)]
    places = (row for table in behind for row in table.to_pylist())
    offsets = [(Partition(row["topic"], row["partition"]), row["first_offset"]) for row in places]
    return Seen(groups, unreadable, offsets)


def write_tables(
    storage: Storage,
    places: Mapping[TableName, str],
    rows: Iterable[pa.Table],
    owners: Mapping[str, str],
    found: Sequence[Timestamp],
) -> tuple[Sums, dict[TableName, pa.Table]]:
    """Write the lag of each partition and the tables of ``SUMMED_BY``; return all sums, and these tables.

    :param places: their folders, which are replaced.
    :param rows: the snapshot's, as ``SnapshotRows`` has them.

    Raises ``JobError`` if a folder has other files afterwards than were written.
    """
    sums = Sums()
    timestamps = pa.Table.from_pylist([dict(zip(TIMESTAMPS.names, each, strict=True)) for each in found], TIMESTAMPS)

    def lags() -> Iterator[pa.Table]:
        for part in rows:
            table = with_seconds(partition_lag(part, owners), timestamps)
            sums.add(table)
            yield table

    folders = {name: ReplacedFolder(storage, place) for name, place in places.items()}
    folders[TableName.LAG_PARTITIONS].write(SCHEMA, lags())
    tables = {name: sums.by(*names) for name, names in SUMMED_BY.items()}
    for name, table in tables.items():
        folders[name].write(table.schema, [table])
    for folder in folders.values():
        folder.verify("rows", "reported")
    return sums, tables
