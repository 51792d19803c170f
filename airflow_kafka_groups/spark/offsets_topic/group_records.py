"""Decoding of the group records of ``__consumer_offsets``, one by one because they are few.

Classic groups (key type 2) have one record each: protocol, generation, leader, members, and since v2 the time of the
last state change. Groups of the newer protocols consist of many records; the one with the group's epoch is decoded (key
types 3, 11, 17), the others are counted by name.
"""

from __future__ import annotations

from dataclasses import dataclass

CLASSIC_GROUP = 2
MAX_GROUP_VALUE = 4
EPOCH_TYPES = {3: "consumer", 11: "share", 17: "streams"}
"""The key types of records with a group's epoch, and the group's type."""

RECORD_NAMES = {
    4: "consumer group partition metadata",
    5: "consumer group member",
    6: "consumer group target assignment",
    7: "consumer group target assignment of a member",
    8: "consumer group assignment of a member",
    10: "share group member",
    12: "share group target assignment",
    13: "share group target assignment of a member",
    14: "share group assignment of a member",
    15: "share group state",
    16: "consumer group regular expression",
    19: "streams group member",
    20: "streams group target assignment",
    21: "streams group target assignment of a member",
    22: "streams group assignment of a member",
    23: "streams group topology",
}
"""The key types of Kafka 4.3 that are counted only."""


class CorruptRecordError(ValueError):
    """The bytes do not match their version."""


class FutureRecordError(ValueError):
    """A value has an unknown version."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The content of a group record.

    :param generation: the generation; for newer protocols, the epoch.
    :param state_changed: time of the last state change in milliseconds; ``None`` if not in the record.
    :param members: the number of members; ``None`` if not in the record.
    """

    group_id: str
    group_type: str
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int | None = None
    leader: str | None = None
    state_changed: int | None = None
    members: int | None = None


def decode_group(key: bytes, value: bytes) -> GroupRecord:
    """Decode a group record of key type 2, 3, 11 or 17.

    :param value: its value; never a tombstone's.

    Raises ``CorruptRecordError`` or ``FutureRecordError``.
    """
    names = _Reader(key)
    kind = names.integer(2)
    group_id = names.text(compact=False) or ""
    if names.left:
        raise CorruptRecordError("the key has more than a group's name")
    reader = _Reader(value)
    version = reader.integer(2)
    if kind != CLASSIC_GROUP:
        if version != 0:
            raise FutureRecordError(f"version {version}")
        return GroupRecord(group_id, EPOCH_TYPES[kind], generation=reader.integer(4))
    if not 0 <= version <= MAX_GROUP_VALUE:
        raise FutureRecordError(f"version {version}")
    return _classic(group_id, version, reader)


def _classic(group_id: str, version: int, reader: _Reader) -> GroupRecord:
    compact = version >= 4
    protocol_type = reader.text(compact=compact)
    generation = reader.integer(4)
    protocol, leader = reader.text(compact=compact), reader.text(compact=compact)
    changed = reader.integer(8) if version >= 2 else -1
    members = reader.count(compact=compact)
    for _ in range(members):
        _skip_member(reader, version, compact)
    if compact:
        reader.tags()
    if reader.left:
        raise CorruptRecordError("there is more than its version has")
    return GroupRecord(
        group_id,
        "classic",
        protocol_type=protocol_type,
        protocol=protocol,
        generation=generation,
        leader=leader,
        state_changed=changed if changed >= 0 else None,
        members=members,
    )


def _skip_member(reader: _Reader, version: int, compact: bool) -> None:
    for _ in range(4 if version >= 3 else 3):  # member id, instance id since v3, client id, host
        reader.text(compact=compact)
    reader.integer(4)
    if version >= 1:
        reader.integer(4)
    for _ in range(2):  # subscription, assignment
        reader.skip(reader.count(compact=compact) if compact else max(reader.integer(4), 0))
    if compact:
        reader.tags()


class _Reader:
    """A reader of consecutive fields. A missing field means a corrupt record."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def skip(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise CorruptRecordError("it ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.skip(size), "big", signed=True)

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.skip(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise CorruptRecordError("a number does not end")

    def count(self, *, compact: bool) -> int:
        size = self.varint() - 1 if compact else self.integer(4)
        if size < 0 or size > self.left:
            raise CorruptRecordError(f"a list of {size}")
        return size

    def text(self, *, compact: bool) -> str | None:
        size = self.varint() - 1 if compact else self.integer(2)
        if size == -1:
            return None
        try:
            return self.skip(size).decode()
        except UnicodeDecodeError as exc:
            raise CorruptRecordError("a string is not UTF-8") from exc

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())
