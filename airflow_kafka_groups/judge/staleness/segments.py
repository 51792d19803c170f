"""Columns of rows as numpy's arrays, and their reduction to one value for each segment of rows. No I/O.

A segment is the rows of one group, beside one another. ``begins`` has the first row of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_kafka_groups.storage.arrow_values import fill_nulls, in_one_piece, of_numpy, to_numpy

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MAX = np.iinfo(np.int64).max


class Numbers(NamedTuple):
    """A column of numbers; without ``valid`` none is null."""

    values: Ints
    valid: Bools | None = None

    @classmethod
    def of(cls, column: pa.ChunkedArray, null: int = 0) -> Numbers:
        """Return a stored column; times as they are stored, in microseconds.

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
