"""Decoding of the group records of ``__consumer_offsets``, one by one because they are few.

Classic groups (key type 2) have one record each: protocol, generation, leader, members, and since v2 the time of the
last state change. Groups of the newer protocols consist of many records; the one with the group's epoch is decoded (key
types 3, 11, 17), the others are counted by type. Of all of them, the key names the group.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.observe.offsets_topic.commit_records import MAX_MILLIS

CLASSIC_GROUP = 2
MAX_GROUP_VALUE = 4
EPOCH_TYPES = {3: "consumer", 11: "share", 17: "streams"}
"""The key types of records with a group's epoch, and the group's type."""

MEMBER_TYPES = (5, 7, 8, 10, 13, 14, 19, 21, 22)
"""The key types of records of one member; their tombstones are written when it leaves or its session ends."""

OTHER_TYPES = (4, 6, 12, 15, 16, 20, 23, *MEMBER_TYPES)
"""The key types of Kafka 4.4 whose values are not decoded: they begin with a group, too."""


class CorruptRecordError(ValueError):
    """The bytes do not match their version."""


class FutureRecordError(ValueError):
    """A value has an unknown version."""


def decode_group(key: bytes, value: bytes) -> dict[str, Any]:
    """Decode a group record of key type 2, 3, 11 or 17; return the columns that it has, by name.

    ``generation`` is the epoch for newer protocols, ``state_changed_at`` a time in microseconds.

    :param value: its value; never a tombstone's.

    Raises ``CorruptRecordError`` or ``FutureRecordError``.
    """
    names = _Reader(key)
    kind, group_id = names.integer(2), names.text() or ""
    if names.left:
        raise CorruptRecordError("the key has more than a group's name")
    reader = _Reader(value)
    version = reader.integer(2)
    if not 0 <= version <= (MAX_GROUP_VALUE if kind == CLASSIC_GROUP else 0):
        raise FutureRecordError(f"version {version}")
    if kind != CLASSIC_GROUP:
        return {"group_id": group_id, "group_type": EPOCH_TYPES[kind], "generation": reader.integer(4)}
    return {"group_id": group_id, "group_type": "classic", **_classic(version, reader)}


def _classic(version: int, reader: _Reader) -> dict[str, Any]:
    reader.compact = version >= 4
    found: dict[str, Any] = {
        "protocol_type": reader.text(),
        "generation": reader.integer(4),
        "protocol": reader.text(),
        "leader": reader.text(),
    }
    changed = reader.integer(8) if version >= 2 else -1
    is_time = 0 <= changed <= MAX_MILLIS
    found |= {"state_changed_at": changed * 1_000 if is_time else None, "members": reader.count()}
    for _ in range(found["members"]):
        for _ in range(4 if version >= 3 else 3):  # member id, instance id since v3, client id, host
            reader.text()
        reader.skip(8 if version >= 1 else 4)  # time-outs of the rebalance, since v1, and of the session
        for _ in range(2):  # subscription, assignment
            reader.data(4)
        reader.tags()
    reader.tags()
    if reader.left:
        raise CorruptRecordError("there is more than its version has")
    return found


class _Reader:
    """A reader of consecutive fields. A missing field means a corrupt record.

    ``compact``: lengths are varints, and one more; lists and structures end with tags.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.compact = False

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

    def length(self, size: int) -> int:
        return self.varint() - 1 if self.compact else self.integer(size)

    def count(self) -> int:
        size = self.length(4)
        if not 0 <= size <= self.left:
            raise CorruptRecordError(f"a list of {size}")
        return size

    def data(self, size: int) -> bytes | None:
        length = self.length(size)
        return None if length == -1 else self.skip(length)

    def text(self) -> str | None:
        data = self.data(2)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as exc:
            raise CorruptRecordError("a string is not UTF-8") from exc

    def tags(self) -> None:
        for _ in range(self.varint() if self.compact else 0):
            self.varint()
            self.skip(self.varint())
