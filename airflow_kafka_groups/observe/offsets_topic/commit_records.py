"""Decoding of ``__consumer_offsets`` records in Arrow batches. Bytes in, columns out: no Spark, no Kafka.

Nearly all records are commits, so one field after the other is taken of thousands of them at once. Key types 0 and 1:
group, topic, partition. Values: v0 offset, metadata, time; v1 also an expiry time; v2 as v0; v3 offset, leader epoch,
metadata, time; v4 the same with a compact string and tags. A record whose length does not match its fields, or whose
strings are not UTF-8, is *corrupt*; one of a later version is *future*. Both are counted and never guessed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COMMIT_TYPES = (0, 1)
MAX_COMMIT_VALUE = 4
_PADDING = 8  # bytes after the last record, so that a field that it lacks can be accessed
_MICROS = 1_000
MAX_MILLIS = 253_402_300_799_999  # the year 9999

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class StringSpans(NamedTuple):
    """The place and the length of one string in each value."""

    at: Ints
    lengths: Ints


class Fields:
    """The fields of a binary Arrow column, read one after the other, each in all values at once.

    A value that ends before a field has -1 there, and is not ``whole``.

    :param column: ``pyarrow.BinaryArray`` or ``LargeBinaryArray`` without chunks.
    """

    def __init__(self, column: Any) -> None:
        wide = pa.types.is_large_binary(column.type)
        _, offsets, data = column.buffers()
        places = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset : column.offset + len(column) + 1]
        places = places.astype(np.int64) if len(column) else np.zeros(1, np.int64)
        held = np.frombuffer(data, np.uint8)[places[0] : places[-1]] if data is not None else np.empty(0, np.uint8)
        self._data = np.concatenate([held, np.zeros(_PADDING, np.uint8)])
        self._at: Ints = places[:-1] - places[0]
        self._ends: Ints = places[1:] - places[0]
        self.whole: Bools = np.ones(len(column), np.bool_)

    def integer(self, size: int, where: Bools | None = None) -> Ints:
        """Read a signed big-endian integer.

        :param size: its bytes: 1, 2, 4 or 8.
        :param where: which values have the field; the others have -1. Default: all.
        """
        has = np.ones_like(self.whole) if where is None else where
        there = has & (self._at + size <= self._ends)
        self.whole &= there | ~has
        gathered = self._data[np.minimum(self._at, len(self._data) - size)[:, None] + np.arange(size)]
        found = np.ascontiguousarray(gathered).view(f">i{size}").ravel().astype(np.int64)
        self._at = self._at + np.where(has, size, 0)
        return np.where(there, found, -1)

    def text(self, compact: Bools | None = None) -> StringSpans:
        """Pass over a string; one without content, or longer than its value, is not ``whole``.

        :param compact: the values in which the length is a varint, and one more. Default: none, it is two bytes.
        """
        if compact is None:
            lengths = self.integer(2)
        else:
            lengths = np.where(compact, self._varint(compact) - 1, self.integer(2, ~compact))
        found = StringSpans(self._at, lengths)
        self._at = self._at + np.maximum(lengths, 0)
        self.whole &= (lengths >= 0) & (self._at <= self._ends)
        return found

    def ended(self, tagged: Bools | None = None) -> Bools:
        """Return which values are whole, and have nothing else.

        :param tagged: the values that end with tags: at least one byte with their number.
        """
        left = self._ends - self._at
        return self.whole & (left == 0 if tagged is None else np.where(tagged, left > 0, left == 0))

    def texts(self, text: StringSpans, chosen: Bools) -> Any:
        """Return strings of some values as a ``pyarrow.StringArray``, not yet checked for UTF-8."""
        at, lengths = text.at[chosen], text.lengths[chosen]
        ends = np.zeros(len(at) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        places = np.arange(ends[-1]) + np.repeat(at - ends[:-1], lengths)
        offsets = pa.py_buffer(ends.astype(np.int32))
        return pa.StringArray.from_buffers(len(at), offsets, pa.py_buffer(self._data[places]))

    def _varint(self, where: Bools) -> Ints:
        found = np.zeros(len(where), np.int64)
        for shift in (0, 7, 14):  # metadata has 32,767 bytes at most
            byte = self.integer(1, where) & 255
            found |= np.where(where, byte & 127, 0) << shift
            where = where & (byte >= 128)
        self.whole &= ~where
        return found


class Commits(NamedTuple):
    """Decoded commits as Arrow columns, and which records of the batch they are.

    :param columns: name -> array, in the order of ``COMMIT_COLUMNS``.
    :param good: for each record of the batch, whether it was decoded.
    :param future: for each record, whether its value has an unknown version.
    """

    columns: dict[str, Any]
    good: Bools
    future: Bools


def decode_commits(keys: Any, values: Any) -> Commits:
    """Decode offset commits.

    :param keys: binary Arrow array of keys of types 0 and 1.
    :param values: binary Arrow array of their values; none may be null (tombstones are not commits).
    """
    key, value = Fields(keys), Fields(values)
    key.integer(2)  # the record type
    group, topic, partition = key.text(), key.text(), key.integer(4)
    version, offset = value.integer(2), value.integer(8)
    compact = version == 4
    epoch = value.integer(4, version >= 3)
    metadata = value.text(compact)
    committed, expires = value.integer(8), value.integer(8, version == 1)
    key_is_good = key.ended() & (partition >= 0)
    good = key_is_good & value.ended(tagged=compact) & (version >= 0) & (version <= MAX_COMMIT_VALUE)
    texts = {"group_id": (key, group), "topic": (key, topic), "metadata": (value, metadata)}
    good, strings = valid_texts(texts, good)
    columns: dict[str, Any] = {
        "group_id": strings["group_id"],
        "topic": strings["topic"],
        "partition": pa.array(partition[good], pa.int32()),
        "committed_offset": pa.array(offset[good]),
        "leader_epoch": pa.array(epoch[good], pa.int32(), mask=epoch[good] < 0),
        "metadata": strings["metadata"],
        "committed_at": _times(committed[good]),
        "expires_at": _times(expires[good]),
        "value_version": pa.array(version[good], pa.int32()),
    }
    return Commits(columns, good, future=key_is_good & (version > MAX_COMMIT_VALUE))


def valid_texts(texts: dict[str, tuple[Fields, StringSpans]], good: Bools) -> tuple[Bools, dict[str, Any]]:
    """Gather the strings of good records. A record with a string that is not UTF-8 becomes corrupt."""
    strings = {name: fields.texts(text, good) for name, (fields, text) in texts.items()}
    if all(map(_is_utf8, strings.values())):
        return good, strings
    good = good.copy()
    for number, place in enumerate(np.flatnonzero(good)):
        good[place] = all(_is_utf8(column.slice(number, 1)) for column in strings.values())
    return good, {name: fields.texts(text, good) for name, (fields, text) in texts.items()}


def _is_utf8(column: Any) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _times(millis: Ints) -> Any:
    """Return times as instants; null for invalid ones (-1 means none)."""
    mask = (millis < 0) | (millis > MAX_MILLIS)
    return pa.array(np.where(mask, 0, millis) * _MICROS, mask=mask).cast(pa.timestamp("us", tz="UTC"))
