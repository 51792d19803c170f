"""Sums of the lag by group, topic, owner, or over all, from parts of a snapshot. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.judge.partitions import NO_TIME, SCHEMA

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
