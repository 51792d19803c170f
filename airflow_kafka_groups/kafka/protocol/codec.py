"""Requests to bytes, and bytes to messages, by kio's native codec; and the compact encoding for what kio is slow for.

A frame is four bytes of length (written by the transport), a header and a body. Hand-written codecs read single fields
of the compact encoding (KIP-482) by kio's native primitives. Most responses are arrays of rows that differ only in a
name, so ``named_rows`` looks for bytes that it has read before; and names of a request are written together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from io import BytesIO
from itertools import chain
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer, readers
from kio.serial.readers import Reader, read_compact_array_length, read_unsigned_varint
from kio.static.constants import EntityType

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

Message = Any
"""A body as bytes, or one of kio's messages: one class for each API and version, which only its own module knows."""


@cache
def request_schema(api: Api, version: int) -> ModuleType:
    """Return kio's module with the classes of a request."""
    return load_payload_module(api.key, version, EntityType.request)


@cache
def response_schema(api: Api, version: int) -> ModuleType:
    """Return kio's module with the classes of a response. Error codes are read as numbers (see ``ErrorCode``).

    As codes, kio refuses the complete response for one that it does not know.
    """
    module = load_payload_module(api.key, version, EntityType.response)
    for field in chain.from_iterable(map(fields, filter(is_dataclass, vars(module).values()))):
        if field.metadata.get("kafka_type") == "error_code":
            field.metadata = MappingProxyType({**field.metadata, "kafka_type": "int16"})
    return module


@lru_cache(1000)
def header_around(api: Api, version: int, client_id: str) -> tuple[bytes, bytes]:
    """Return what a request's header has before and after the correlation id.

    These four bytes, with which the response begins, are the only part in which two headers of a client differ.
    """
    # Without kio: a message with a hand-written codec needs none of its classes, which take 10 ms to load.
    name = client_id.encode()
    return (
        api.key.to_bytes(2, "big") + version.to_bytes(2, "big"),
        len(name).to_bytes(2, "big") + name + (b"\x00" if api.is_flexible(version) else b""),
    )


def fitting(kind: Any, **fields: object) -> Message:
    """Build one of kio's messages, or a part of one. A field that its version does not have is left out."""
    return kind(**{name: value for name, value in fields.items() if name in kind.__dataclass_fields__})


def by_topic(
    kind: Any, partitions: Iterable[TopicPartition], part: Callable[[TopicPartition], Any]
) -> tuple[Message, ...]:
    """Return a message of this kind for each topic, with what ``part`` makes of its partitions."""
    parts: dict[str, list[Any]] = {}
    for partition in partitions:
        parts.setdefault(partition.topic, []).append(part(partition))
    name, items, *_ = (field.name for field in fields(kind))  # in every API the topic, and its partitions
    return tuple(kind(**{name: topic, items: tuple(some)}) for topic, some in parts.items())


def encode_body(message: Message) -> bytes:
    """Write the body of a request or response; bytes are a body already."""
    if isinstance(message, bytes):
        return message
    buffer = BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode_message(api: Api, version: int, frame: bytes) -> Message:
    """Read a response frame (without its length) as one of kio's messages.

    Raises kio's ``SerialError`` or ``ValueError`` when it cannot be read, or does not end where it should.
    """
    response = getattr(response_schema(api, version), f"{api.name}Response")
    _, header_size = entity_reader(response.__header_schema__)(frame, 0)
    message, body_size = entity_reader(response)(frame, header_size)
    if header_size + body_size != len(frame):
        raise ValueError(f"{len(frame) - header_size - body_size} bytes too many")
    return message


T = TypeVar("T")

_KNOWN_TAILS = 8
_LONGEST_TAIL = 128
_RUN = 4
_CHUNK = 4096


def read_error_code(data: Buffer, position: int, /) -> tuple[ErrorCode, int]:
    """Read a code as kio's own reader does, which refuses the complete response for one that it does not know."""
    try:
        return readers.read_error_code(data, position)
    except ValueError:
        value, size = readers.read_int16(data, position)
        return ErrorCode(value), size


class CompactReader:
    """The cursor. It begins at the body.

    A frame that is malformed raises ``IndexError``, ``ValueError`` or kio's ``SerialError``.
    """

    __slots__ = ("data", "position")

    def __init__(self, frame: bytes) -> None:
        self.data = frame
        self.position = 4  # after the correlation id
        self.skip_tags()

    def read(self, primitive: Reader[T]) -> T:
        """Read one field.

        :param primitive: one of ``kio.serial.readers``.
        """
        value, size = primitive(self.data, self.position)
        self.position += size
        return value

    def array_length(self) -> int:
        """Read the length of an array; null is refused."""
        length = self.read(read_compact_array_length)
        if length is None:
            raise ValueError("null in place of an array")
        return length

    def named_rows(self, read_row: Callable[[], tuple[str, T]], head: bytes = b"") -> list[tuple[list[str], T]]:
        """Read an array of rows, each of a name and what follows it; names that the same follows come together.

        Bytes that were read once mean the same again at the same place. So a row is read field by field only when what
        follows its name is not among the last that were.

        :param read_row: reads a complete row: its name, and what follows.
        :param head: what comes before the name in most rows. Default: nothing.
        """
        data, before = self.data, len(head)
        rows: list[tuple[list[str], T]] = []
        known: list[tuple[bytes, list[str]]] = []
        last, run = b"", 0
        left = self.array_length()
        position = self.position
        while left:
            left -= 1
            start = position + before
            size = data[start]
            end = start + size
            is_short = 0 < size < 0x80 and data.startswith(head, position)
            for tail, names in known if is_short else ():
                if data.startswith(tail, end):
                    names.append(data[start + 1 : end].decode())
                    position = end + len(tail)
                    run = run + 1 if tail is last else 0
                    last = tail
                    if run >= _RUN and data.startswith(head, position):
                        more, size = _alike(data, position + before, tail + head, left)
                        names += more
                        left -= len(more)
                        position += size
                        run = _RUN if more else 0
                    break
            else:
                self.position = position
                name, value = read_row()
                rows.append(([name], value))
                position = self.position
                if is_short and position - end <= _LONGEST_TAIL:
                    known = [(data[end:position], rows[-1][0]), *known[: _KNOWN_TAILS - 1]]
        self.position = position
        return rows

    def skip_tags(self) -> None:
        """Skip tagged fields; there are hardly ever any."""
        if self.data[self.position] == 0:
            self.position += 1
            return
        for _ in range(self.read(read_unsigned_varint)):
            self.read(read_unsigned_varint)
            self.skip(self.read(read_unsigned_varint))

    def skip(self, size: int) -> None:
        """Skip so many bytes."""
        self.position += size
        if self.position > len(self.data):
            raise ValueError("the response ends too early")

    def end(self, *, after_tags: bool = True) -> None:
        """Raise ``ValueError`` unless the frame ends here, as a rule with tagged fields."""
        if after_tags:
            self.skip_tags()
        if self.position != len(self.data):
            raise ValueError(f"{len(self.data) - self.position} bytes too many")


def _alike(data: bytes, start: int, separator: bytes, most: int) -> tuple[list[str], int]:
    """Return the short names from ``start`` on that the separator follows each time, and the size of it all.

    The separator may be part of a name: then the length of what is before it is wrong, and the names end there.
    """
    names: list[str] = []
    size = 0
    for part in data[start : start + _CHUNK].split(separator, most)[:-1]:
        if not part or part[0] != len(part) or part[0] >= 0x80:
            break
        names.append(part[1:].decode())
        size += len(part) + len(separator)
    return names, size


NO_TAGS = b"\x00"
_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def uvarint(value: int) -> bytes:
    """Write an unsigned number, seven bits a byte."""
    if value < 0x80:
        return _ONE_BYTE[value]
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def boolean(value: bool) -> bytes:
    """Write a boolean."""
    return _ONE_BYTE[value]


def string(text: str) -> bytes:
    """Write a compact string."""
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def strings(texts: Iterable[str], after_each: bytes = b"") -> bytes:
    """Write a compact array of compact strings.

    :param after_each: what follows each string, where the elements have more fields. Default: nothing.
    """
    encoded = list(map(str.encode, texts))
    try:  # short ones, as nearly always
        written = [_ONE_BYTE[len(text) + 1] + text + after_each for text in encoded]
    except IndexError:
        written = [uvarint(len(text) + 1) + text + after_each for text in encoded]
    return uvarint(len(written) + 1) + b"".join(written)
