"""Which broker coordinates a group, computed instead of asked.

A group lives in one partition of ``__consumer_offsets``, and that partition's leader coordinates it:
``abs(groupId.hashCode()) % partitions``. Kafka's own ``Utils.abs`` gives 0 for the smallest integer; it is not
``& 0x7fffffff`` (with that, half of 50,000 groups came back NOT_COORDINATOR).
Kafka-compatible brokers may hash otherwise, so an answer here is a guess that the broker confirms or refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from airflow_kafka_groups.cluster.java_hash import java_hash, java_hashes
from airflow_kafka_groups.models import BrokerId, GroupId

OFFSETS_TOPIC = "__consumer_offsets"
_MIN_INT = -(2**31)


def offsets_partition(group_id: GroupId, partitions: int) -> int:
    """Give the partition of ``__consumer_offsets`` that holds a group."""
    return partitions_of_hashes([java_hash(group_id)], partitions)[0]


def offsets_partitions(group_ids: Sequence[GroupId], partitions: int) -> list[int]:
    """Give the partition of each of many groups, in their order."""
    return partitions_of_hashes(java_hashes(group_ids), partitions)


def partitions_of_hashes(hashes: Iterable[int], partitions: int) -> list[int]:
    """Give the partition of each of many groups whose ids have been hashed (``java_hashes``)."""
    return [abs(value) % partitions if value != _MIN_INT else 0 for value in hashes]


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """Know the leader of each partition of ``__consumer_offsets``; ``None`` where there is none just now."""

    leaders: tuple[BrokerId | None, ...]

    def route(self, group_ids: Sequence[GroupId]) -> dict[GroupId, BrokerId]:
        """Guess the coordinators of many groups; those without a leader are left out (and asked for)."""
        return self.leaders_of(dict(zip(group_ids, offsets_partitions(group_ids, len(self.leaders)), strict=True)))

    def leaders_of(self, partitions: Mapping[GroupId, int]) -> dict[GroupId, BrokerId]:
        """Do so where the groups' partitions have been computed."""
        guesses = dict(zip(partitions, map(self.leaders.__getitem__, partitions.values()), strict=True))
        if None in self.leaders:
            return {group_id: leader for group_id, leader in guesses.items() if leader is not None}
        return cast("dict[GroupId, BrokerId]", guesses)
