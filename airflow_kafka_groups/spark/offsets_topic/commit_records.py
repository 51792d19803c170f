"""Decoding of ``__consumer_offsets`` records in Arrow batches. Bytes in, columns out: no Spark, no Kafka.

Theory of operation. A key begins with a record type (two bytes) and the group's name, a value with its version. Nearly
all records are commits, so they are decoded as columns: numpy computes the position of each field of each record, and
gathers the field for thousands of records at once. All other records are rare and decoded one by one
(``group_records.py``).

Offset commit, key types 0 and 1: group, topic, partition. Values: v0 offset, metadata, time; v1 also an expiry time; v2
as v0; v3 offset, leader epoch, metadata, time; v4 the same with a compact string and tags. A record whose length does
not match its fields, or whose strings are not UTF-8, is *corrupt*; one of a later version is *future*. Both are counted
and never guessed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

COMMIT_TYPES = (0, 1)
MAX_COMMIT_VALUE = 4
_PADDING = 64  # bytes after the last record, so that fields of a truncated record can be accessed
_MICROS = 1_000
_MAX_MILLIS = 253_402_300_799_999  # the year 9999

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Commits(NamedTuple):
    """Decoded commits as Arrow columns, and which records of the batch they are.

    :param columns: name -> array, in the order of ``COMMIT_COLUMNS``.
    :param good: for each record of the batch, whether it was decoded.
    :param future: for each record, whether its value has an unknown version.
    """

    columns: dict[str, Any]
    good: Bools
    future: Bools


class Blob:
    """A binary Arrow column as one array of bytes, with the start and length of each value.

    :param column: ``pyarrow.BinaryArray`` or ``LargeBinaryArray`` without chunks.
    """

    def __init__(self, column: Any) -> None:
        import pyarrow as pa

        wide = pa.types.is_large_binary(column.type)
        _, offsets, data = column.buffers()
        count = len(column)
        places = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset : column.offset + count + 1]
        self.starts: Ints = places[:-1].astype(np.int64)
        self.lengths: Ints = np.diff(places).astype(np.int64)
        begin = int(places[0]) if count else 0
        end = int(places[-1]) if count else 0
        held = np.frombuffer(data, np.uint8)[begin:end] if data is not None else np.empty(0, np.uint8)
        self.starts -= begin
        self.data = np.concatenate([held, np.zeros(_PADDING, np.uint8)])

    def integer(self, at: Ints, size: int) -> Ints:
        """Read signed big-endian integers, one at each position; a position outside reads padding.

        :param at: positions in ``data``.
        :param size: bytes of each: 2, 4 or 8.
        """
        inside = np.clip(at, 0, len(self.data) - size)
        gathered = self.data[inside[:, None] + np.arange(size)]
        return np.ascontiguousarray(gathered).view(f">i{size}").ravel().astype(np.int64)

    def byte(self, at: Ints) -> Ints:
        """Read unsigned bytes, one at each position."""
        return self.data[np.clip(at, 0, len(self.data) - 1)].astype(np.int64)

    def texts(self, at: Ints, lengths: Ints) -> Any:
        """Return the bytes at these positions as a ``pyarrow.StringArray``, not yet checked for UTF-8.

        :param lengths: the length of each string; all within the data.
        """
        import pyarrow as pa

        ends = np.zeros(len(at) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        places = np.arange(ends[-1]) + np.repeat(at - ends[:-1], lengths)
        offsets = pa.py_buffer(ends.astype(np.int32))
        return pa.StringArray.from_buffers(len(at), offsets, pa.py_buffer(self.data[places]))


def record_types(keys: Blob) -> Ints:
    """Return the type of each record, -1 if the key is too short."""
    return np.where(keys.lengths >= 2, keys.integer(keys.starts, 2), -1)


def decode_commits(keys: Any, values: Any) -> Commits:
    """Decode offset commits.

    :param keys: binary Arrow array of keys of types 0 and 1.
    :param values: binary Arrow array of their values; none may be null (tombstones are not commits).
    """
    key, value = Blob(keys), Blob(values)
    group, group_length, topic, topic_length, partition, whole_key = _key_fields(key)
    fields = _value_fields(value)
    future = whole_key & fields.future
    good = whole_key & fields.whole
    texts = {
        "group_id": (key, group, group_length),
        "topic": (key, topic, topic_length),
        "metadata": (value, fields.metadata, fields.metadata_length),
    }
    good, strings = _valid_texts(texts, good)
    columns: dict[str, Any] = {
        "group_id": strings["group_id"],
        "topic": strings["topic"],
        "partition": _array(partition[good], "int32"),
        "committed_offset": _array(fields.offset[good], "int64"),
        "leader_epoch": _array(fields.epoch[good], "int32", null_below=0),
        "metadata": strings["metadata"],
        "committed_at": _times(fields.committed[good]),
        "expires_at": _times(fields.expires[good]),
        "value_version": _array(fields.version[good], "int32"),
    }
    return Commits(columns, good, future)


class _Value(NamedTuple):
    version: Ints
    offset: Ints
    epoch: Ints
    metadata: Ints
    metadata_length: Ints
    committed: Ints
    expires: Ints
    whole: Bools
    future: Bools


def _key_fields(key: Blob) -> tuple[Ints, Ints, Ints, Ints, Ints, Bools]:
    start, length = key.starts, key.lengths
    group_length = key.integer(start + 2, 2)
    topic_length = key.integer(start + 4 + group_length, 2)
    partition = key.integer(start + 6 + group_length + topic_length, 4)
    whole = (length >= 10) & (group_length >= 0) & (topic_length >= 0)
    whole &= (length == 10 + group_length + topic_length) & (partition >= 0)
    return start + 4, group_length, start + 6 + group_length, topic_length, partition, whole


def _value_fields(value: Blob) -> _Value:
    start, length = value.starts, value.lengths
    version = np.where(length >= 2, value.integer(start, 2), -1)
    has_epoch, compact = version >= 3, version == 4
    at = start + np.where(has_epoch, 14, 10)
    first, second, third = (value.byte(at + place) for place in range(3))
    size = np.where(compact, np.where(first < 128, 1, np.where(second < 128, 2, 3)), 2)
    varint = (first & 127) | np.where(first >= 128, (second & 127) << 7, 0)
    varint |= np.where((first >= 128) & (second >= 128), (third & 127) << 14, 0)
    text_length = np.where(compact, varint - 1, value.integer(at, 2))
    metadata = at + size
    committed_at = metadata + text_length
    end = committed_at + 8 + np.where(version == 1, 8, 0) - start
    # v4 ends with tags: at least one byte with their number.
    whole = (text_length >= 0) & np.where(compact, length >= end + 1, length == end)
    whole &= (version >= 0) & (version <= MAX_COMMIT_VALUE) & ~(compact & (size == 3) & (third >= 128))
    return _Value(
        version=version,
        offset=value.integer(start + 2, 8),
        epoch=np.where(has_epoch, value.integer(start + 10, 4), -1),
        metadata=metadata,
        metadata_length=text_length,
        committed=value.integer(committed_at, 8),
        expires=np.where(version == 1, value.integer(committed_at + 8, 8), -1),
        whole=whole,
        future=version > MAX_COMMIT_VALUE,
    )


def _valid_texts(texts: dict[str, tuple[Blob, Ints, Ints]], good: Bools) -> tuple[Bools, dict[str, Any]]:
    """Gather the strings of good records. A record with a string that is not UTF-8 becomes corrupt."""
    strings = {name: blob.texts(at[good], lengths[good]) for name, (blob, at, lengths) in texts.items()}
    if all(map(_is_utf8, strings.values())):
        return good, strings
    places = np.flatnonzero(good)
    fine = np.ones(len(places), np.bool_)
    for column in strings.values():
        fine &= np.array([_is_utf8(column.slice(place, 1)) for place in range(len(places))], np.bool_)
    good = good.copy()
    good[places[~fine]] = False
    return good, {name: blob.texts(at[good], lengths[good]) for name, (blob, at, lengths) in texts.items()}


def _is_utf8(column: Any) -> bool:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _array(values: Ints, kind: str, *, null_below: int | None = None) -> Any:
    import pyarrow as pa

    mask = None if null_below is None else values < null_below
    return pa.array(values.astype(kind), mask=mask)


def _times(millis: Ints) -> Any:
    """Return times as instants; null for invalid ones (-1 means none)."""
    import pyarrow as pa

    mask = (millis < 0) | (millis > _MAX_MILLIS)
    return pa.array(np.where(mask, 0, millis) * _MICROS, mask=mask).cast(pa.timestamp("us", tz="UTC"))
