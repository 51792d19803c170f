"""What deletion runs that ended amount to, in two tables of the folded log: few columns, however many runs there are.

Of each group there is the latest deletion, the latest proof of life, and the latest look that found it gone; of each
run, where its last entry is and which groups it dealt with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.ledger.outcomes import Outcome
from airflow_kafka_groups.ledger.run_records import RecordedOutcome, RunRecord, keep_latest
from airflow_kafka_groups.storage.arrow_values import (
    column,
    empty_table,
    fill_nulls,
    in_one_piece,
    literal,
    of_numpy,
    to_numpy,
)
from airflow_kafka_groups.storage.paths import parse_time

_FOUND = {
    "deletion": methodcaller("deletions"),
    "life": methodcaller("lives"),
    "gone": methodcaller("lives", gone=True),
}
GROUPS = pa.schema([("group_id", pa.string()), *((what, pa.list_(pa.string())) for what in _FOUND)])
"""A row for each group: when it was found so at the latest, by which run, and the outcome, its code and reason."""
RUNS = pa.schema(
    [
        *dict.fromkeys(("run", "end"), pa.int64()).items(),
        *dict.fromkeys(("sha256", "request_id", "plan_id", "lease", "begun_at"), pa.string()).items(),
        ("places", pa.binary()),
    ]
)
"""A row for each run: its first entry, its last one and its SHA-256, and the rows of its groups in the other table.

These are four bytes each: as a list of numbers, a million of them would take fifty times their size to read.
"""
_PLACE = np.dtype("<i4")
_FEW = 2_000
"""Rows that are objects at once: there may be those of years."""


@dataclass(frozen=True, slots=True)
class SettledRuns:
    """The runs that ended, by what decisions and pages ask of them."""

    groups: Any = field(default_factory=lambda: empty_table(GROUPS))
    runs: Any = field(default_factory=lambda: empty_table(RUNS))

    def add(self, ended: Sequence[tuple[RunRecord, tuple[int, str]]]) -> SettledRuns:
        """Return these runs and more, each with the number of its last entry and its SHA-256."""
        names = list(dict.fromkeys(chain.from_iterable(run.outcomes for run, _ in ended)))
        group_ids = column(names, pa.string())
        found = pc.index_in(group_ids, value_set=in_one_piece(self.groups["group_id"]))
        before = self.groups.take(found.drop_null())
        columns = [group_ids]
        for what, of_run in _FOUND.items():
            latest = {item.group_id: item for item in _recorded(before, what)}
            for run, _ in ended:
                keep_latest(latest, of_run(run))
            columns.append(column([_values(latest.get(name)) for name in names], GROUPS.field(what).type))
        # Each group keeps its row, by which runs know it:
        places, size = to_numpy(fill_nulls(found.cast(pa.int64()), -1)), len(self.groups)
        places = np.where(places < 0, size + np.cumsum(places < 0) - 1, places)
        left = np.ones(size, np.bool_)
        left[places[places < size]] = False
        rows = pa.concat_tables([self.groups.filter(of_numpy(left)), pa.table(columns, schema=GROUPS)])
        rows = rows.take(of_numpy(np.argsort(np.concatenate([np.flatnonzero(left), places]))))
        place_of = dict(zip(names, places.tolist(), strict=True))
        values = zip(*(_values_of_run(run, end, place_of) for run, end in ended), strict=True)
        more = pa.table([column(of, each.type) for of, each in zip(values, RUNS, strict=True)], schema=RUNS)
        return SettledRuns(_whole(rows), _whole(pa.concat_tables([self.runs, more])))

    def latest(self, what: str, request_id: str | None = None) -> Iterator[RecordedOutcome]:
        """Yield what was found at the latest: ``deletion``, ``life`` or ``gone``.

        :param request_id: only of groups that no other request dealt with. Default: of all.
        """
        if request_id is None:
            return _recorded(self.groups, what)
        alone, _ = self._dealt_with(request_id)
        return _recorded(self.groups.filter(of_numpy(alone)), what)

    def shared(self, request_id: str) -> list[int]:
        """Return the tries of a request whose groups others dealt with, too: a row does not say what was whose.

        A task that is mapped over a thousand groups is one request: each of them would read the tries of all.
        """
        _, tries = self._dealt_with(request_id)
        return self._numbers(tries)

    def of_group(self, group_id: str) -> list[int]:
        """Return the runs that dealt with a group."""
        of_run, places = self._places()
        row = pc.index(self.groups["group_id"], literal(group_id)).as_py()
        return self._numbers(of_run[places == row])

    def of_plan(self, plan_id: str) -> list[int]:
        """Return the runs of a plan."""
        found: list[int] = self.runs["run"].filter(pc.equal(self.runs["plan_id"], literal(plan_id))).to_pylist()
        return found

    def end_of(self, number: int) -> tuple[int, str]:
        """Return the number of a run's last entry, and its SHA-256."""
        (found,) = self.runs.select(["end", "sha256"]).filter(pc.equal(self.runs["run"], literal(number))).to_pylist()
        return found["end"], found["sha256"]

    def leases(self, since: datetime) -> Iterator[str]:
        """Yield the lease groups of runs that began since a time."""
        held = self.runs.filter(self.runs["lease"].is_valid())
        for lease, at in zip(held["lease"].to_pylist(), held["begun_at"].to_pylist(), strict=True):
            if parse_time(at) >= since:
                yield lease

    def _dealt_with(self, request_id: str) -> tuple[Any, Any]:
        """Return which groups only this request dealt with, and the places of its tries that dealt with others."""
        of_run, places = self._places()
        is_own = to_numpy(pc.equal(self.runs["request_id"], literal(request_id)))[of_run]
        told = to_numpy(pc.or_(self.groups["deletion"].is_valid(), self.groups["life"].is_valid()))
        own, others = np.zeros(len(told), np.bool_), np.zeros(len(told), np.bool_)
        own[places[is_own]], others[places[~is_own]] = True, True
        return own & ~others, of_run[is_own & (others & told)[places]]

    def _places(self) -> tuple[Any, Any]:
        """Return the rows of runs, and that of a group, of each group of each run."""
        places = self.runs["places"].to_pylist()
        counts = [len(each) // _PLACE.itemsize for each in places]
        return np.repeat(np.arange(len(counts), dtype=_PLACE), counts), np.frombuffer(b"".join(places), _PLACE)

    def _numbers(self, rows: Any) -> list[int]:
        found: list[int] = to_numpy(self.runs["run"])[np.unique(rows)].tolist()
        return found


def _whole(table: Any) -> Any:
    return pa.table([in_one_piece(each) for each in table.columns], schema=table.schema)


def _recorded(table: Any, what: str) -> Iterator[RecordedOutcome]:
    found = table.select(["group_id", what]).filter(table[what].is_valid())
    for some in found.to_batches(max_chunksize=_FEW):
        rows = zip(*(each.to_pylist() for each in some.columns), strict=True)
        for group_id, (at, run_id, outcome, code, reason) in rows:
            yield RecordedOutcome(
                group_id=group_id, outcome=Outcome(outcome), code=code, reason=reason, at=parse_time(at), run_id=run_id
            )


def _values(item: RecordedOutcome | None) -> list[str] | None:
    return None if item is None else [item.at.isoformat(), item.run_id, item.outcome.value, item.code, item.reason]


def _values_of_run(run: RunRecord, end: tuple[int, str], place_of: dict[str, int]) -> list[Any]:
    begun = run.begun
    lease = (begun.get("lease") or {}).get("group_id")
    facts = [run.request_id, begun.get("plan_id"), lease, begun["at"]]
    return [run.number, *end, *facts, np.array([place_of[id_] for id_ in run.outcomes], _PLACE).tobytes()]
