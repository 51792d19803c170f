"""Read OffsetFetch v6-v9 answers straight into columns: the one message read by hand, because it is the hot path.

A generic codec makes an object of every partition, 200,000 of them for 10,000 groups, only for us to take them apart
again. Here the partitions of a topic are checked as they lie there: in a row without metadata and without tagged fields
every row has 20 bytes::

    partition int32 | offset int64 | leader epoch int32 | metadata 0x01 (empty) | error int16 | tags 0x00

The first row is where it should be; if it has the two marks and no error, so is the next, and so on: the check of the
marks is a proof. Such rows are kept as bytes. A topic with any other row is read row by row. A test holds every answer
against kio's reading of it.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from airflow_kafka_groups.models import TopicOffsets, TopicPartition
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader

FIRST_BATCHED_VERSION = 8

_ROW_SIZE = 20
_FIXED = struct.Struct(">iqi")
_NO_ERRORS: Mapping[TopicPartition, ErrorCode] = {}
_NONE = ErrorCode.none
_NO_ERROR_NO_TAGS = b"\x00\x00\x00"
_new = tuple.__new__  # what a named tuple's own constructor calls, at half the time for many


@lru_cache(1000)
def _marks(count: int) -> tuple[bytes, bytes]:
    """Give the bytes at the places of the marks in so many plain rows: ones for metadata, zeros for error and tags."""
    return b"\x01" * count, b"\x00" * count


def _are_plain(rows: bytes, count: int) -> bool:
    if len(rows) != count * _ROW_SIZE:
        return False
    ones, zeros = _marks(count)
    return (
        rows[16::_ROW_SIZE] == ones
        and rows[17::_ROW_SIZE] == zeros
        and rows[18::_ROW_SIZE] == zeros
        and rows[19::_ROW_SIZE] == zeros
    )


class OffsetsAnswer(NamedTuple):
    """Be the answer for one group: its own error, its readable partitions, and the errors of the others."""

    group_id: str
    error: ErrorCode
    topics: tuple[TopicOffsets, ...]
    partition_errors: Mapping[TopicPartition, ErrorCode] = _NO_ERRORS


@dataclass(frozen=True, slots=True)
class OffsetFetchAnswers:
    """Be a whole answer, read."""

    throttle_time: timedelta
    answers: tuple[OffsetsAnswer, ...]


def read(frame: bytes, version: int) -> OffsetFetchAnswers:
    """Read a response frame, from its correlation id to its end.

    An answer for one group (v6-v7) does not name it; it has no name here either.

    Raises ``ValueError``, ``IndexError``, ``struct.error`` or ``UnicodeDecodeError`` when it is not one.
    """
    reader = _Reader(frame)
    throttle = reader.milliseconds()
    if version >= FIRST_BATCHED_VERSION:
        answers = tuple([reader.plain_group() or reader.group() for _ in range(reader.length())])
        reader.skip_tags()
    else:
        answers = (reader.plain_body("", reader.position) or reader.body(""),)
    reader.end()
    return OffsetFetchAnswers(throttle, answers)


class _Reader(CompactReader):
    """Walk through a frame of offsets."""

    __slots__ = ("_names",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._names: dict[bytes, str] = {}

    def name(self) -> str:
        """Read a text that comes again and again; each is kept once."""
        raw = self.take(self.length())
        name = self._names.get(raw)
        if name is None:
            name = self._names[raw] = raw.decode()
        return name

    def plain_group(self) -> OffsetsAnswer | None:
        """Read a group as most are: short lists, plain rows, no error, no tags; ``None`` leaves any other to ``group``.

        This is ``group`` without a call for each field: the calls would be most of the time.
        """
        start = self.position
        size = self._data[start]
        if not 0 < size < 0x80:
            return None
        return self.plain_body(self._data[start + 1 : start + size].decode(), start + size)

    def plain_body(self, group_id: str, position: int) -> OffsetsAnswer | None:
        """Read what follows the id of such a group."""
        data = self._data
        many = data[position]
        if not 0 < many < 0x80:
            return None
        position += 1
        topics = []
        for _ in range(many - 1):
            start = position
            position += data[start]
            count = data[position] - 1
            if not 0 < data[start] < 0x80 or not 0 < count < 0x7F:
                return None
            raw = data[start + 1 : position]
            name = self._names.get(raw)
            if name is None:
                name = self._names[raw] = raw.decode()
            start = position + 1
            position = start + count * _ROW_SIZE
            rows = data[start:position]
            if data[position] or not _are_plain(rows, count):
                return None
            position += 1
            topics.append(TopicOffsets.packed(name, rows))
        if data[position : position + 3] != _NO_ERROR_NO_TAGS:
            return None
        self.position = position + 3
        return _new(OffsetsAnswer, (group_id, _NONE, tuple(topics), _NO_ERRORS))

    def group(self) -> OffsetsAnswer:
        return self.body(self.take(self.length()).decode())

    def body(self, group_id: str) -> OffsetsAnswer:
        errors = _NO_ERRORS
        topics = []
        for _ in range(self.length()):
            name = self.name()
            count = self.length()
            rows = self.plain_rows(count)
            if rows:
                topics.append(TopicOffsets.packed(name, rows))
            else:
                columns, codes = self.rows(name, count)
                topics.append(columns)
                if codes:
                    errors = {**errors, **{TopicPartition(name, part): ErrorCode(code) for part, code in codes.items()}}
            self.skip_tags()
        code = self.int16()
        self.skip_tags()
        return OffsetsAnswer(group_id, ErrorCode(code) if code else _NONE, tuple(topics), errors)

    def plain_rows(self, count: int) -> bytes:
        """Take the partitions of a topic if all of them are plain; nothing otherwise."""
        end = self.position + count * _ROW_SIZE
        rows = self._data[self.position : end]
        if not _are_plain(rows, count):
            return b""
        self.position = end
        return rows

    def rows(self, topic: str, count: int) -> tuple[TopicOffsets, dict[int, int]]:
        """Read the partitions of one topic row by row."""
        partitions, offsets, epochs = array("i"), array("q"), array("i")
        metadata: list[str] = []
        codes: dict[int, int] = {}
        for _ in range(count):
            partition, offset, epoch = _FIXED.unpack(self.take(_FIXED.size))
            size = self.uvarint()
            text = self.take(size - 1).decode() if size else ""
            code = self.int16()
            self.skip_tags()
            if code:
                codes[partition] = code
                continue
            partitions.append(partition)
            offsets.append(offset)
            epochs.append(epoch)
            metadata.append(text)
        return TopicOffsets(topic, partitions, offsets, epochs, tuple(metadata) if any(metadata) else None), codes
