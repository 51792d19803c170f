"""Sums of the lag by group, topic, owner, or over all, from parts of a snapshot. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.arrow.errors import JobError
from airflow_kafka_groups.arrow.lag.partitions import NO_TIME, SCHEMA
from airflow_kafka_groups.arrow.values import column, empty_table, fill_nulls, in_one_piece, literal, of_numpy, to_numpy

_BEYOND = 2**63
_EXACT = pa.decimal128(38)  # has room for the sum of as many 64-bit numbers as fit into memory

_Numbers = npt.NDArray[np.int64]
_KEYS = ["group_id", "owner", "state", "topic"]
_SUMS: dict[str, np.ufunc] = {
    **dict.fromkeys(("partitions", "partitions_without_lag", "partitions_without_seconds", "lag"), np.add),
    **{"max_partition_lag": np.maximum, "lost": np.add, "max_lag_seconds": np.maximum, "all_read": np.logical_and},
}
"""How each number of a sum is added up, of partitions as of sums."""

SUM_NAMES = ("groups", *(name for name in _SUMS if name != "all_read"))
"""The columns that ``Sums.by`` adds to its keys."""

_NOTHING = dict.fromkeys(SUM_NAMES, 0) | dict.fromkeys(("max_partition_lag", "lost", "max_lag_seconds"))
"""The sums over all of no partition."""


class Sums:
    """The sums of a report, from its parts. Memory holds a row or two for each group, owner, state and topic."""

    def __init__(self) -> None:
        self.flags, self.methods = Counter[str](), Counter[str]()
        self._parts = [_added(_measured(empty_table(SCHEMA)), _KEYS)]
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
        if not (names or sums.num_rows):
            return pa.table({name: column([value], sums[name].type) for name, value in _NOTHING.items()})
        columns = {
            **dict(zip(sums.column_names, sums.columns, strict=True)),
            # Zero only if nothing is unread for certain: partitions that are read do not hide others without a time.
            "max_lag_seconds": pc.if_else(sums["all_read"], literal(0, pa.float64()), sums["max_lag_seconds"]),
        }
        shown = [*names, *SUM_NAMES]
        order = [("lag", "descending"), *((name, "ascending") for name in names)]
        return pa.table([columns[name] for name in shown], shown).sort_by(order)


def _measured(lags: pa.Table) -> pa.Table:
    """Return what a partition adds to each sum."""
    lag, one = lags["lag"], of_numpy(np.ones(lags.num_rows, np.int64))
    is_behind = fill_nulls(pc.greater(lag, literal(0)), False)
    measures = {
        "partitions": one,
        "partitions_without_lag": lag.is_null().cast(pa.int64()),
        "partitions_without_seconds": pc.and_(is_behind, lags["lag_seconds"].is_null()).cast(pa.int64()),
        "lag": lag,
        "max_partition_lag": lag,
        "lost": lags["lost"],
        "max_lag_seconds": pc.if_else(is_behind, lags["lag_seconds"], NO_TIME),
        "all_read": fill_nulls(pc.equal(lag, literal(0)), False),
    }
    return pa.table({**{name: lags[name] for name in _KEYS}, **measures})


def _added(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Add up partitions or sums, by these columns; ``groups`` is the number of their groups.

    Not by Arrow's ``group_by``, which imports pandas.
    """
    sums = np.zeros(table.num_rows, np.int64)
    for name in names:
        sums = _numbered(sums, table[name])
    order = np.argsort(sums, kind="stable")
    begins, firsts = np.flatnonzero(np.diff(sums[order], prepend=-1)), of_numpy(_firsts(sums))
    made = {name: table[name].take(firsts) for name in names}
    made["groups"] = of_numpy(np.bincount(sums[_firsts(_numbered(sums, table["group_id"]))], minlength=len(begins)))
    for name, how in _SUMS.items():
        of_none = -1 if how is np.maximum else 0  # no lag is below zero
        found = how.reduceat(to_numpy(fill_nulls(table[name], of_none))[order], begins)
        made[name] = of_numpy(found, found != of_none if how is np.maximum else None)
    return pa.table(made)


def _numbered(numbers: _Numbers, column: pa.ChunkedArray) -> _Numbers:
    """Number the pairs of a number and a string, from 0 on, as they first occur."""
    found = in_one_piece(column.dictionary_encode())
    strings = to_numpy(fill_nulls(found.indices, len(found.dictionary)))
    pairs = of_numpy(numbers * (len(found.dictionary) + 1) + strings).dictionary_encode()
    made: _Numbers = to_numpy(pairs.indices).astype(np.int64)
    return made


def _firsts(numbers: _Numbers) -> _Numbers:
    """Return where each of the numbers from 0 on occurs for the first time, as they do in this order."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))
