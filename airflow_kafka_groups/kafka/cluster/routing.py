"""The coordinator of a group, computed instead of looked up.

A group lives in one partition of ``__consumer_offsets``, and that partition's leader coordinates it:
``abs(groupId.hashCode()) % partitions``. Kafka's own ``Utils.abs`` gives 0 for the smallest integer; it is not ``&
0x7fffffff``. Kafka-compatible brokers may use another hash, so a result is a guess that the broker confirms or rejects.

The hash is ``hash * 31 + unit`` over the UTF-16 units of an id, in 32 bits. Many ids are hashed side by side, in a
quarter of the time: each has a lane of five bytes in one long integer, and one operation advances all of them by a
unit. 32 bits times 31, plus a unit, fit into 40 bits; a mask then cuts each lane back to 32.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import cast

from airflow_kafka_groups.kafka.models import BrokerId, GroupId

OFFSETS_TOPIC = "__consumer_offsets"
_MIN_INT = -(2**31)


def offsets_partitions(group_ids: Sequence[GroupId], partitions: int) -> list[int]:
    """Return the partition of each group, in their order."""
    return partitions_of_hashes(java_hashes(group_ids), partitions)


def partitions_of_hashes(hashes: Iterable[int], partitions: int) -> list[int]:
    """Return the partition for each hash of a group id (``java_hashes``)."""
    return [abs(value) % partitions if value != _MIN_INT else 0 for value in hashes]


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """The leader of each partition of ``__consumer_offsets``; ``None`` where there is none."""

    leaders: tuple[BrokerId | None, ...]

    def route(self, group_ids: Sequence[GroupId]) -> dict[GroupId, BrokerId]:
        """Guess the coordinators of groups; groups whose partition has no leader are left out, to be looked up."""
        return self._guess(group_ids, offsets_partitions(group_ids, len(self.leaders)))

    def leaders_of(self, partitions: Mapping[GroupId, int]) -> dict[GroupId, BrokerId]:
        """Guess the coordinators of groups whose partitions have been computed."""
        return self._guess(partitions, partitions.values())

    def _guess(self, group_ids: Iterable[GroupId], partitions: Iterable[int]) -> dict[GroupId, BrokerId]:
        guesses = dict(zip(group_ids, map(self.leaders.__getitem__, partitions), strict=True))
        if None in self.leaders:
            return {group_id: leader for group_id, leader in guesses.items() if leader is not None}
        return cast("dict[GroupId, BrokerId]", guesses)


_LANE = 5
_LANES = 8192
"""Strings hashed side by side: the integers stay in the processor's nearer caches."""

_FEW = 8
_WIDEST = 96
"""Longer ids are hashed on their own: all others beside them would be padded to their length."""


@lru_cache(1000)
def _powers(count: int) -> tuple[int, ...]:
    """Return the powers of 31 for an id of so many units, the last one being 1."""
    return tuple(pow(31, place, 2**32) for place in reversed(range(count)))


def java_hash(text: str) -> int:
    """Compute Java's ``String.hashCode``."""
    if text.isascii():
        units: bytes | memoryview = text.encode("ascii")
    else:
        units = memoryview(text.encode("utf-16-" + sys.byteorder[0] + "e", "surrogatepass")).cast("H")
    # The powers of 31 come from a table: one call of C for a whole name instead of a step of Python for each letter.
    value: int = sum(map(mul, units, _powers(len(units)))) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def java_hashes(texts: Sequence[str]) -> list[int]:
    """Compute Java's ``String.hashCode`` of each string, in their order."""
    if len(texts) < _FEW:
        return [java_hash(text) for text in texts]
    found: list[int] = []
    for start in range(0, len(texts), _LANES):
        found += _side_by_side(tuple(texts[start : start + _LANES]))
    return found


@lru_cache(16)
def _side_by_side(some: tuple[str, ...]) -> Sequence[int]:
    texts: Sequence[str] = some
    alone = [place for place, text in enumerate(texts) if len(text) > _WIDEST or not text.isascii()]
    if alone:
        texts = list(texts)
        others = {place: java_hash(texts[place]) for place in alone}
        for place in alone:
            texts[place] = ""
    width = max(map(len, texts))
    # Filled up on the left with zeros, which a hash passes over.
    units = "".join([text.rjust(width, "\0") for text in texts]).encode("ascii")
    size = _LANE * len(texts)
    mask = int.from_bytes(b"\xff\xff\xff\xff\0" * len(texts), "little")
    hashes = 0
    for place in range(width):
        lanes = bytearray(size)
        lanes[::_LANE] = units[place::width]
        hashes = (hashes & mask) * 31 + int.from_bytes(lanes, "little")
    found = _signed((hashes & mask).to_bytes(size, "little"))
    if alone:
        for place, value in others.items():
            found[place] = value
    return found


def _signed(lanes: bytes) -> list[int]:
    """Read the lower four bytes of each lane as a signed number."""
    packed = bytearray(len(lanes) // _LANE * 4)
    for byte in range(4):
        packed[byte::4] = lanes[byte::_LANE]
    numbers = array("i", bytes(packed))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
