"""Read OffsetFetch v8-v9 answers straight into columns: the one message read by hand, because it is the hot path.

A generic codec makes an object of every partition, 200,000 of them for 10,000 groups, only for us to take them apart
again. Here a topic's partitions are read with one ``struct`` call: in a row without metadata and without tagged fields
every row has 20 bytes::

    partition int32 | offset int64 | leader epoch int32 | metadata 0x01 (empty) | error int16 | tags 0x00

The first row is where it should be; if it has the two marks, so is the next, and so on: the check of the marks is a
proof. A topic with any other row is read row by row. A test holds every answer against kio's reading of it.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache

from airflow_kafka_groups.models import TopicOffsets, TopicPartition
from airflow_kafka_groups.protocol.error_codes import ErrorCode

_ROW = struct.Struct(">iqiBhB")
_FIXED = struct.Struct(">iqi")
_NO_ERRORS: dict[TopicPartition, ErrorCode] = {}


@lru_cache(1000)
def _plain_rows(count: int) -> tuple[struct.Struct, tuple[int, ...], tuple[int, ...]]:
    """Give what reads so many rows at once, and the marks that they must have if they are plain."""
    return struct.Struct(">" + _ROW.format.lstrip(">") * count), (1,) * count, (0,) * count


@dataclass(frozen=True, slots=True)
class OffsetsAnswer:
    """Be the answer for one group: its own error, its readable partitions, and the errors of the others."""

    group_id: str
    error: ErrorCode
    topics: tuple[TopicOffsets, ...]
    partition_errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetFetchAnswers:
    """Be a whole answer, read."""

    throttle_time: timedelta
    answers: tuple[OffsetsAnswer, ...]


def read(frame: bytes) -> OffsetFetchAnswers:
    """Read a response frame, from its correlation id to its end.

    Raises ``ValueError``, ``IndexError``, ``struct.error`` or ``UnicodeDecodeError`` when it is not one.
    """
    reader = _Reader(frame, 4)
    reader.skip_tags()
    throttle = reader.int32()
    groups = tuple([reader.group() for _ in range(reader.length())])
    reader.skip_tags()
    if reader.position != len(frame):
        raise ValueError(f"{len(frame) - reader.position} bytes too many")
    return OffsetFetchAnswers(timedelta(milliseconds=throttle), groups)


class _Reader:
    """Walk through a frame."""

    __slots__ = ("_data", "_names", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position
        self._names: dict[bytes, str] = {}

    def uvarint(self) -> int:
        byte = self._data[self.position]
        self.position += 1
        if byte < 0x80:
            return byte
        value, shift = byte & 0x7F, 7
        while byte >= 0x80:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 35:
                raise ValueError("a length of more than five bytes")
        return value

    def length(self) -> int:
        """Read the length of an array; null is refused, since these arrays may not be."""
        value = self._data[self.position]
        if value < 0x80:
            self.position += 1
        else:
            value = self.uvarint()
        if value == 0:
            raise ValueError("null where a list has to be")
        return value - 1

    def take(self, size: int) -> bytes:
        end = self.position + size
        data = self._data[self.position : end]
        if len(data) != size:
            raise ValueError("the answer ends too early")
        self.position = end
        return data

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def skip_tags(self) -> None:
        if self._data[self.position] == 0:  # as good as always; the calls below would be a tenth of all the time
            self.position += 1
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())

    def name(self) -> str:
        """Read a text that comes again and again; each is kept once."""
        raw = self.take(self.length())
        name = self._names.get(raw)
        if name is None:
            name = self._names[raw] = raw.decode()
        return name

    def group(self) -> OffsetsAnswer:
        group_id = self.take(self.length()).decode()
        errors = _NO_ERRORS
        topics = []
        for _ in range(self.length()):
            name = self.name()
            columns, codes = self.columns(name)
            topics.append(columns)
            if codes:
                errors = errors | {TopicPartition(name, part): ErrorCode(code) for part, code in codes.items()}
            self.skip_tags()
        error = ErrorCode(self.int16())
        self.skip_tags()
        return OffsetsAnswer(group_id, error, tuple(topics), errors)

    def columns(self, topic: str) -> tuple[TopicOffsets, dict[int, int]]:
        """Read the partitions of one topic; those with an error are apart."""
        count = self.length()
        block = self._data[self.position : self.position + count * _ROW.size]
        if len(block) == count * _ROW.size:
            table, empty_texts, zeros = _plain_rows(count)
            flat = table.unpack(block)
            if flat[3::6] == empty_texts and flat[5::6] == zeros and flat[4::6] == zeros:
                self.position += len(block)
                return TopicOffsets(topic, array("i", flat[0::6]), array("q", flat[1::6]), array("i", flat[2::6])), {}
        return self.rows(topic, count)

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
