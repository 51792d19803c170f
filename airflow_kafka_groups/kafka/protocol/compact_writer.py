"""Writers of the compact encoding (KIP-482) for lists of names, which batched requests mostly consist of.

kio checks and writes each name by itself; for 10,000 names that takes longer than everything else in a call.
"""

from __future__ import annotations

from collections.abc import Iterable

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
