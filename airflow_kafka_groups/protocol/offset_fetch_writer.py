"""Write OffsetFetch v8-v9 requests for all topics of many groups: by hand, as their answers are read.

Such a group is its id and constants, so that a request is the ids between constants. Requests that name partitions go
through kio like all others. A test holds what is written here against kio's writing of the same request.
"""

from __future__ import annotations

from collections.abc import Iterable

_ALL_TOPICS = b"\x00"  # a null array
_NO_TAGS = b"\x00"
_NO_MEMBER = b"\x00\xff\xff\xff\xff"  # null member id, member epoch -1; since v9
_FIRST_MEMBER_VERSION = 9


def write(group_ids: Iterable[str], require_stable: bool, version: int) -> bytes:
    """Write the body of a request for all offsets of the groups."""
    member = _NO_MEMBER if version >= _FIRST_MEMBER_VERSION else b""
    after = member + _ALL_TOPICS + _NO_TAGS
    parts = []
    for group_id in group_ids:
        name = group_id.encode()
        parts.append(_uvarint(len(name) + 1) + name + after)
    return _uvarint(len(parts) + 1) + b"".join(parts) + (b"\x01" if require_stable else b"\x00") + _NO_TAGS


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]
