"""The lives of groups, from one snapshot's observations to the next: since when each has been idle. No I/O.

A group's *life* is its observations in the complete snapshots in a row up to the newest; a snapshot without it ends its
life. A *quiet* observation is read without error, ``Empty`` and without members. A *run* of quiet observations is ended
by every doubt: an observation that is not quiet, a gap longer than allowed, a clock that went backwards, another group
type or protocol type, and a sign of life in an incomplete snapshot, in which an error is none: the groups of a broker
that is down have one. A *stretch* is an idle time, or a single observation outside of one, named by its first snapshot.

Every doubt means keep. Any difference in the committed offsets of two observations is movement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.storage.arrow_values import fill_nulls, in_one_piece, literal, of_numpy, to_numpy

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MAX = np.iinfo(np.int64).max


class Numbers(NamedTuple):
    """A column of numbers; without ``valid`` none is null."""

    values: Ints
    valid: Bools | None = None

    @classmethod
    def of(cls, column: pa.ChunkedArray, null: int = 0) -> Numbers:
        """Return a stored column; times in microseconds.

        :param null: the value in the place of null.
        """
        found = column.cast(pa.int64())
        if not found.null_count:
            return cls(to_numpy(found))
        return cls(to_numpy(fill_nulls(found, null)), valid_of(column))

    @property
    def known(self) -> Bools:
        """Which values are not null."""
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid

    def take(self, order: Ints) -> Numbers:
        """Return the values in another order."""
        return Numbers(self.values[order], None if self.valid is None else self.valid[order])

    def sum(self, begins: Ints) -> Numbers:
        """Add up what is not null; a sum beyond 64 bits is the greatest number, of parts as of all of them."""
        values = self._or(0)
        total = np.add.reduceat(values, begins)
        if max(int(values.max()), -int(values.min())) > _MAX // len(values):
            about = np.add.reduceat(values.astype(np.float64), begins)
            wrong = np.abs(about - total) > 2.0**62
            total = np.where(wrong, np.where(about > 0, _MAX, -_MAX), total)
        return Numbers(total, self._known_in(begins))

    def xor(self, begins: Ints) -> Numbers:
        """Return the exclusive-or; null counts as 0."""
        return Numbers(np.bitwise_xor.reduceat(self._or(0), begins))

    def least(self, begins: Ints) -> Numbers:
        """Return the least value that is not null."""
        return Numbers(np.minimum.reduceat(self._or(_MAX), begins), self._known_in(begins))

    def most(self, begins: Ints) -> Numbers:
        """Return the greatest value that is not null."""
        return Numbers(np.maximum.reduceat(self._or(-_MAX), begins), self._known_in(begins))

    def stored(self, kind: pa.DataType) -> pa.Array:
        """Return the column as Arrow stores it."""
        return of_numpy(self.values, self.valid).cast(kind)

    def _or(self, null: int) -> Ints:
        return self.values if self.valid is None else np.where(self.valid, self.values, null)

    def _known_in(self, begins: Ints) -> Bools | None:
        return None if self.valid is None else np.logical_or.reduceat(self.valid, begins)


class Strings(NamedTuple):
    """A column of strings, as places in their sorted list. The place of null is behind its end."""

    places: Ints
    known: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Strings:
        """Return a stored column."""
        found = encoded(column)
        if len(found.dictionary) + bool(found.null_count) == 1:  # the same in all rows, as most of these columns
            return cls(np.zeros(len(found), np.int64), found.dictionary)
        order = pc.sort_indices(found.dictionary)
        place = np.empty(len(order) + 1, np.int64)
        place[to_numpy(order)] = np.arange(len(order))
        place[-1] = len(order)
        indices = to_numpy(fill_nulls(found.indices, len(order)))
        return cls(place[indices], found.dictionary.take(order))

    def take(self, order: Ints) -> Strings:
        """Return the strings in another order."""
        return Strings(self.places[order], self.known)

    def pick(self, of_two: np.ufunc, begins: Ints) -> pa.Array:
        """Return the first string of each segment by their order (``np.minimum``), or the last; null counts as last."""
        places = self.places if len(begins) == len(self.places) else of_two.reduceat(self.places, begins)
        return self.known.take(of_numpy(places, places != len(self.known)))

    def differ(self, begins: Ints) -> Bools:
        """Return which segments have several strings."""
        places = self.places
        if len(begins) == len(places) or (places[1:] == places[:-1]).all():
            return np.zeros(len(begins), np.bool_)
        differ: Bools = np.minimum.reduceat(places, begins) != np.maximum.reduceat(places, begins)
        return differ


def encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column of strings as one dictionary and places in it."""
    whole = in_one_piece(column)
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def valid_of(column: pa.ChunkedArray) -> Bools:
    """Return which values of a stored column are not null."""
    valid: Bools = to_numpy(column.is_valid())
    return valid


_NUMBERS = ("observed_at", "members", "partitions", "digest_xor", "digest_sum", "lag", "lag_unknown", "log_start")
READ = ("group_id", "group_type", "protocol_type", "state", "error", *_NUMBERS)
"""The columns of observations that decide."""

NEVER = int(np.iinfo(np.int64).min)
"""A time that is not known: earlier than any."""
_NO_PLACE = -2  # not one before the first
_AT_ONCE = 20_000
"""Of more, the reasons of the verdicts would take tens of megabytes."""


class LivesPart(NamedTuple):
    """The lives of some groups, sorted by id, as columns. Times are in microseconds since 1970; ``NEVER``: not known.

    :param newest: the newest observation of each.
    :param observed_at: when that was.
    :param empty_since: when its present run of quiet observations began; ``NEVER`` if it is not quiet.
    :param observations: the observations in its present idle time, in which nothing moved either.
    :param last_moved_at: the first observation after its last movement, or its last known commit.
    :param last_record_at: when a member joined or left last by the log of commits.
    :param life_lag_at: the first observation of its life with known log ends, with its ``life_lag``.
    :param idle_lag_at: the same of its idle time, with ``idle_lag`` and ``idle_log_start``.
    """

    newest: pa.Table
    observed_at: Ints
    first_seen_at: Ints
    empty_since: Ints
    last_moved_at: Ints
    observations: Ints
    life_lag_at: Ints
    life_lag: Ints
    idle_lag_at: Ints
    idle_lag: Ints
    idle_log_start: Ints
    last_record_at: Ints

    @property
    def group_ids(self) -> list[str]:
        """The ids of the groups."""
        ids: list[str] = self.newest["group_id"].to_pylist()
        return ids

    def with_last_records(self, committed_at: Ints, recorded_at: Ints, observed_from: Ints) -> LivesPart:
        """Add when each group committed last, and when its last group record was written. No group becomes older by it.

        :param observed_from: when the observations of each complete snapshot begin, sorted: there may be thousands.
        """
        last = np.maximum(committed_at, recorded_at)
        counted = np.minimum(self.observations, len(observed_from) - np.searchsorted(observed_from, last))
        is_later = last > np.maximum(np.maximum(self.empty_since, self.last_moved_at), 0)
        return self._replace(
            observations=np.where(is_later, counted, self.observations),
            last_moved_at=np.maximum(self.last_moved_at, committed_at),
            last_record_at=recorded_at,
        )


class _Seen(NamedTuple):
    group: Ints
    at: Ints
    readable: Bools
    empty: Bools
    unknown: Bools
    members: Ints
    kind: Ints
    committed: Ints
    known: Bools
    lag: Ints
    log_start: Ints


class Lives:
    """The lives of the groups of a snapshot.

    :param newest: its observations, which are judged.
    :param policy: its ``max_gap_seconds`` decides which observations are consecutive.
    """

    def __init__(self, newest: pa.Table, policy: StalenessPolicy) -> None:
        self._newest = newest
        self._ids = in_one_piece(newest["group_id"])
        self._gap = round(policy.max_gap_seconds * 1_000_000)
        self._place = 0
        self._names: dict[str, int] = {}
        size = len(self._ids)
        never, nowhere, zero = np.full(size, NEVER), np.full(size, _NO_PLACE), np.zeros(size, np.int64)
        # Of the observation before, and of the last readable one:
        self._seen_in, self._at, self._kind = nowhere.copy(), never.copy(), nowhere.copy()
        self._readable, self._quiet = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        self._committed, self._has_committed = np.zeros((3, size), np.int64), np.zeros(size, np.bool_)
        # Of the life:
        self._first_at, self._run_at, self._moved_at = never.copy(), never.copy(), never.copy()
        self._sign, self._latest_sign = never.copy(), never.copy()
        # The present stretch, and the first observations with known log ends, in the last one that has some and in the
        # life:
        self._stretch, self._known_in, self._known_at = nowhere.copy(), nowhere.copy(), never.copy()
        self._known_lag, self._known_log_start = zero.copy(), zero.copy()
        self._life_lag_at, self._life_lag = never.copy(), zero.copy()

    def add_incomplete(self, table: pa.Table) -> None:
        """Look for signs of life in an incomplete snapshot, whose successor is the next complete one."""
        seen = self._seen(table)
        group = seen.group
        before = self._seen_in[group] == self._place - 1
        other = before & (self._kind[group] != seen.kind)
        other |= before & self._readable[group] & (self._committed[:, group] != seen.committed).any(axis=0)
        alive = (seen.members != 0) | ~(seen.empty | seen.unknown) | (seen.readable & (seen.unknown | other))
        shown = group[alive]
        self._sign[shown] = np.maximum(self._sign[shown], seen.at[alive])

    def add(self, table: pa.Table) -> None:
        """Continue with the next complete snapshot."""
        seen, place = self._seen(table), self._place
        group, at, quiet = seen.group, seen.at, seen.readable & seen.empty & (seen.members == 0)
        born = self._seen_in[group] != place - 1
        self._first_at[group[born]], self._has_committed[group[born]] = at[born], False
        for times in (self._moved_at, self._latest_sign, self._life_lag_at):
            times[group[born]] = NEVER
        elapsed = at - self._at[group]
        watched = ~born & (elapsed >= 0)
        if self._gap:
            watched &= elapsed <= self._gap
        # Signs are compared by time too: an incomplete snapshot may overlap a complete one that began later.
        watched &= (self._sign[group] == NEVER) & (self._latest_sign[group] < self._at[group])
        self._latest_sign[group] = np.maximum(self._latest_sign[group], self._sign[group])
        self._sign[:] = NEVER
        starts = quiet & ~(watched & self._quiet[group] & (self._kind[group] == seen.kind))
        differs = (self._committed[:, group] != seen.committed).any(axis=0)
        moved = seen.readable & self._has_committed[group] & differs
        self._run_at[group[starts]], self._moved_at[group[moved]] = at[starts], at[moved]
        self._stretch[group[~quiet | starts | moved]] = place
        self._measure(seen)
        self._committed[:, group[seen.readable]] = seen.committed[:, seen.readable]
        self._has_committed[group[seen.readable]] = True
        self._seen_in[group], self._at[group], self._kind[group] = place, at, seen.kind
        self._readable[group], self._quiet[group] = seen.readable, quiet
        self._place += 1

    def _measure(self, seen: _Seen) -> None:
        fresh = seen.known & (self._known_in[seen.group] != self._stretch[seen.group])
        group = seen.group[fresh]
        self._known_in[group], self._known_at[group] = self._stretch[group], seen.at[fresh]
        self._known_lag[group], self._known_log_start[group] = seen.lag[fresh], seen.log_start[fresh]
        first = seen.known & (self._life_lag_at[seen.group] == NEVER)
        group = seen.group[first]
        self._life_lag_at[group], self._life_lag[group] = seen.at[first], seen.lag[first]

    def _seen(self, table: pa.Table) -> _Seen:
        places = pc.index_in(table["group_id"], self._ids)
        if places.null_count:
            table, places = table.filter(places.is_valid()), places.drop_null()
        of = {name: Numbers.of(table[name]) for name in _NUMBERS}
        readable = ~valid_of(table["error"])
        known = readable & (of["partitions"].values > 0) & (of["lag_unknown"].values == 0)
        return _Seen(
            group=Numbers.of(places).values,
            at=of["observed_at"].values,
            readable=readable,
            empty=_is(table["state"], GroupState.EMPTY),
            unknown=_is(table["state"], GroupState.UNKNOWN),
            members=of["members"].values,
            kind=self._kind_of(table),
            committed=np.stack([of[name].values for name in ("partitions", "digest_xor", "digest_sum")]),
            known=known & of["lag"].known & of["log_start"].known,
            lag=of["lag"].values,
            log_start=of["log_start"].values,
        )

    def _kind_of(self, table: pa.Table) -> Ints:
        """Number what groups are: another group type or protocol type means another group of the same name."""
        kinds: Ints = np.zeros(table.num_rows, np.int64)
        for column in (table["group_type"], table["protocol_type"]):
            found = encoded(column)
            numbers = [self._names.setdefault(name, len(self._names)) for name in found.dictionary.to_pylist()]
            kinds = kinds << 32 | np.array(numbers, np.int64)[Numbers.of(found.indices).values]
        return kinds

    def judged(self) -> Iterator[LivesPart]:
        """Return the lives of the groups, by id, some at a time: at least one part, which may be empty.

        Call it after the snapshot that is judged was added, as the last one.
        """
        last, quiet = self._place - 1, self._quiet
        if not (self._seen_in == last).all():
            raise ValueError("the snapshot that is judged is not the last one that was added")
        every = LivesPart(
            newest=self._newest,
            observed_at=self._at,
            first_seen_at=self._first_at,
            empty_since=np.where(quiet, self._run_at, NEVER),
            last_moved_at=self._moved_at,
            observations=np.where(quiet, last - self._stretch + 1, 0),
            life_lag_at=self._life_lag_at,
            life_lag=self._life_lag,
            idle_lag_at=np.where(quiet & (self._known_in == self._stretch), self._known_at, NEVER),
            idle_lag=self._known_lag,
            idle_log_start=self._known_log_start,
            last_record_at=np.full(len(self._ids), NEVER),
        )
        order = pc.sort_indices(self._ids)
        for begin in range(0, max(len(order), 1), _AT_ONCE):
            part = order.slice(begin, _AT_ONCE)
            places = to_numpy(part)
            yield LivesPart(every.newest.take(part), *(each[places] for each in every[1:]))


def lives_of(newest: pa.Table, earlier: Iterable[tuple[bool, pa.Table]], policy: StalenessPolicy) -> Lives:
    """Return the lives of the groups of a snapshot.

    :param newest: the observations that are judged.
    :param earlier: those of all snapshots before it, oldest first, and whether each is complete.
    """
    lives = Lives(newest, policy)
    for is_complete, table in earlier:
        (lives.add if is_complete else lives.add_incomplete)(table)
    lives.add(newest)
    return lives


def _is(column: pa.ChunkedArray, value: str) -> Bools:
    same: Bools = to_numpy(pc.equal(column, literal(str(value))))
    return same
