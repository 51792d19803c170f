"""Read the compact encoding (KIP-482) field by field: for the messages that are read by hand.

kio makes classes and a reader for each message when it is first met. For the few that every call begins with, this took
longer than the rest of a first call; in the answers of which there are many, an object for each field takes long.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID


class CompactReader:
    """Walk through a response frame, from its body on.

    ``ValueError`` (``UnicodeDecodeError`` too) and ``IndexError`` mean that it is none.
    """

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 4  # after the correlation id
        self.skip_tags()

    def uvarint(self) -> int:
        """Read an unsigned number, seven bits a byte."""
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
        """Read the length of an array or text; null is refused."""
        value = self._data[self.position]
        if value < 0x80:
            self.position += 1
        else:
            value = self.uvarint()
        if value == 0:
            raise ValueError("null where a list has to be")
        return value - 1

    def take(self, size: int) -> bytes:
        """Take so many bytes."""
        end = self.position + size
        data = self._data[self.position : end]
        if len(data) != size:
            raise ValueError("the answer ends too early")
        self.position = end
        return data

    def boolean(self) -> bool:
        """Read one byte that says yes or no; any other is refused."""
        data = self.take(1)
        if data not in (b"\x00", b"\x01"):
            raise ValueError("neither yes nor no")
        return data == b"\x01"

    def int16(self) -> int:
        """Read a signed number of two bytes."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """Read a signed number of four bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def milliseconds(self) -> timedelta:
        """Read a time of four bytes."""
        return timedelta(milliseconds=self.int32())

    def uuid(self) -> UUID | None:
        """Read an id; zeros are none."""
        data = self.take(16)
        return UUID(bytes=data) if any(data) else None

    def text(self) -> str:
        """Read a text that may not be null."""
        return self.take(self.length()).decode()

    def texts_before(self, tail: bytes, most: int) -> list[str]:
        """Read texts as long as exactly these bytes follow each: elements that are all alike but for a name.

        Stops before the first that is otherwise, or not short, and leaves it to be read field by field.

        :param most: how many to read at most.
        """
        data, position, extra = self._data, self.position, len(tail)
        found = []
        for _ in range(most):
            end = position + data[position]
            after = end + extra
            if not position < end < position + 0x80 or data[end:after] != tail:
                break
            found.append(data[position + 1 : end].decode())
            position = after
        self.position = position
        return found

    def optional_text(self) -> str | None:
        """Read a text that may be null."""
        size = self.uvarint()
        return self.take(size - 1).decode() if size else None

    def skip_int32s(self) -> None:
        """Pass over an array of such numbers."""
        self.take(4 * self.length())

    def skip_tags(self) -> None:
        """Pass over tagged fields; as good as always there are none."""
        if self._data[self.position] == 0:
            self.position += 1
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())

    def end(self) -> None:
        """Raise ``ValueError`` unless this is the end."""
        if self.position != len(self._data):
            raise ValueError(f"{len(self._data) - self.position} bytes too many")
