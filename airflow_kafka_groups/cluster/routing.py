"""Which broker coordinates a group, computed instead of asked.

A group lives in one partition of ``__consumer_offsets``, and that partition's leader coordinates it:
``abs(groupId.hashCode()) % partitions``. Kafka's own ``Utils.abs`` gives 0 for the smallest integer; it is not
``& 0x7fffffff`` (with that, half of 50,000 groups came back NOT_COORDINATOR). hashCode runs over UTF-16 units.
Kafka-compatible brokers may hash otherwise, so an answer here is a guess that the broker confirms or refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import mul

from airflow_kafka_groups.models import BrokerId, GroupId

OFFSETS_TOPIC = "__consumer_offsets"
_MIN_INT = -(2**31)


@lru_cache(1000)
def _powers(count: int) -> tuple[int, ...]:
    """Give 31 to the power of each place, the last one's being 1."""
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


@lru_cache(100_000)  # whoever watches groups asks for the same ones again and again
def offsets_partition(group_id: GroupId, partitions: int) -> int:
    """Give the partition of ``__consumer_offsets`` that holds a group."""
    value = java_hash(group_id)
    return (0 if value == _MIN_INT else abs(value)) % partitions


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """Know the leader of each partition of ``__consumer_offsets``; ``None`` where there is none just now."""

    leaders: tuple[BrokerId | None, ...]

    def route(self, group_ids: Iterable[GroupId]) -> dict[GroupId, BrokerId]:
        """Guess the coordinators of many groups; those without a leader are left out (and asked for)."""
        leaders, count = self.leaders, len(self.leaders)
        return {
            group_id: leader
            for group_id in group_ids
            if (leader := leaders[offsets_partition(group_id, count)]) is not None
        }
