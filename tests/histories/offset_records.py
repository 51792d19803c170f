"""Write records of ``__consumer_offsets`` byte by byte, as Kafka's own schemas say, for every version there is."""

import struct


def text(value: str | bytes | None) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack(">h", -1) if raw is None else struct.pack(">h", len(raw)) + raw


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def compact(value: str | None) -> bytes:
    return varint(0) if value is None else varint(len(value.encode()) + 1) + value.encode()


def commit_key(group: str | bytes, topic: str, partition: int, *, kind: int = 1) -> bytes:
    return struct.pack(">h", kind) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(
    version: int,
    offset: int,
    *,
    metadata: str = "",
    at: int = 1_700_000_000_123,
    epoch: int = -1,
    topic_id: bool = False,
) -> bytes:
    head = struct.pack(">hq", version, offset)
    if version >= 3:
        head += struct.pack(">i", epoch)
    head += compact(metadata) if version >= 4 else text(metadata)
    head += struct.pack(">q", at)
    if version == 1:
        head += struct.pack(">q", at + 5_000)
    if version >= 4:
        head += varint(1) + varint(0) + varint(16) + bytes(range(16)) if topic_id else varint(0)
    return head


def group_key(group: str, *, kind: int = 2) -> bytes:
    return struct.pack(">h", kind) + text(group)


def group_value(
    version: int, *, members: int = 0, at: int = 1_700_000_000_123, protocol: str | None = "range"
) -> bytes:
    write = compact if version >= 4 else text
    head = struct.pack(">h", version) + write("consumer") + struct.pack(">i", 7) + write(protocol) + write("leader-1")
    if version >= 2:
        head += struct.pack(">q", at)
    head += varint(members + 1) if version >= 4 else struct.pack(">i", members)
    for number in range(members):
        head += write(f"member-{number}")
        if version >= 3:
            head += write(None)
        head += write("client") + write("/10.0.0.1")
        head += struct.pack(">i", 10_000) * (2 if version >= 1 else 1)
        for data in (b"subscription", b""):
            head += (varint(len(data) + 1) if version >= 4 else struct.pack(">i", len(data))) + data
        if version >= 4:
            head += varint(0)
    return head + (varint(0) if version >= 4 else b"")
