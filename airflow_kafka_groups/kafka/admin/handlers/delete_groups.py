"""Delete groups: DeleteGroups, many groups a request (KIP-229), grouped by coordinator (KIP-347).

A deletion whose answer was lost is never sent again by itself: by then the group may have come back to life.

Kafka 4.x writes the tombstones of one DeleteGroups request as ONE atomic batch for each partition of
``__consumer_offsets``: 120 groups with 200 offsets each in one request all failed with UNKNOWN_SERVER_ERROR (in the
log: RecordTooLargeException), nothing was deleted. So a request is cut by the bytes it makes each partition write, to
at most half of what a batch may hold. What is not known is estimated, and what was still too much is asked in halves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, TypeVar

from airflow_kafka_groups.kafka.admin.engine.handler import ChangingHandler, HandlerResult, KeyedHandler
from airflow_kafka_groups.kafka.models import BrokerId, GroupOffsets, ShareGroupOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DELETE_GROUPS, Api
from airflow_kafka_groups.kafka.protocol.apis import delete_groups
from airflow_kafka_groups.kafka.protocol.codec import Message

T = TypeVar("T")

MAX_BATCH_BYTES = 1_048_588  # max.message.bytes, as brokers have it unless told otherwise
BUDGET_BYTES = MAX_BATCH_BYTES // 2
_TOMBSTONE_BYTES = 24  # measured: about 18, and a little for the varints of a long batch
_GROUP_TOMBSTONE_BYTES = 16
_DEFAULT_OFFSETS = 30
_DEFAULT_TOPIC_BYTES = 30
DEFAULT_PARTITIONS = 50  # offsets.topic.num.partitions


@dataclass(frozen=True, slots=True)
class TombstoneSizes:
    """The tombstones of groups: which partition each group's go to, and how many bytes they are.

    :param known: the offsets of groups that have been read; others are estimated.
    :param buckets: the partition of ``__consumer_offsets`` of each group.
    :param budget: bytes that one request may make one partition write.
    """

    known: Mapping[str, GroupOffsets] = field(default_factory=dict)
    buckets: Mapping[str, int] = field(default_factory=dict)
    budget: int = BUDGET_BYTES

    def fit(self, group_ids: Sequence[str]) -> int:
        """Return how many of these groups, from the first on, fit into one request; at least one."""
        buckets = list(map(self.buckets.__getitem__, group_ids))
        if not self.known:
            longest = max(map(len, map(str.encode, group_ids)))
            if max(Counter(buckets).values()) * _estimate(longest) <= self.budget:  # as mostly
                return len(group_ids)
        filled: dict[int, int] = {}
        for position, (bucket, size) in enumerate(zip(buckets, map(self.size, group_ids), strict=True)):
            filled[bucket] = content = filled.get(bucket, 0) + size
            if content > self.budget:
                return max(position, 1)
        return len(group_ids)

    def size(self, group_id: str) -> int:
        """Return the bytes of the group's tombstones."""
        size = len(group_id.encode())
        offsets = self.known.get(group_id)
        if offsets is None or isinstance(offsets, ShareGroupOffsets):  # those are not in ``__consumer_offsets``
            return _estimate(size)
        tombstones = [len(topic) * (_TOMBSTONE_BYTES + size + len(topic.topic.encode())) for topic in offsets.topics]
        return size + _GROUP_TOMBSTONE_BYTES + sum(tombstones)


@cache
def _estimate(size: int) -> int:
    return size + _GROUP_TOMBSTONE_BYTES + _DEFAULT_OFFSETS * (_TOMBSTONE_BYTES + size + _DEFAULT_TOPIC_BYTES)


def slices_of(
    group_id: str, partitions: Iterable[TopicPartition], budget: int = BUDGET_BYTES
) -> list[list[TopicPartition]]:
    """Split partitions of a group into parts whose tombstones each fit into one request."""
    size = _TOMBSTONE_BYTES + len(group_id.encode())
    return cut(partitions, lambda partition: size + len(partition.topic.encode()), budget)


def cut(items: Iterable[T], size_of: Callable[[T], int], budget: int) -> list[list[T]]:
    """Split items into parts of at most so many bytes, or of one item."""
    parts: list[list[T]] = []
    filled = 0
    for item in items:
        size = size_of(item)
        if not parts or filled + size > budget:
            parts.append([])
            filled = 0
        parts[-1].append(item)
        filled += size
    return parts


BATCHES_IN_ONE = 20
"""A broker works on one request of a connection at a time and waits for the replicas of each: two requests a broker
took a tenth longer than one, five half as long again. ``TombstoneSizes`` splits what is too large."""


@dataclass(frozen=True, slots=True)
class DeleteGroupsHandler(KeyedHandler[str, None], ChangingHandler[str, None]):
    """DeleteGroups of at most ``batch_size`` groups, and of no more than fit by their ``sizes``."""

    sizes: TombstoneSizes = field(default_factory=TombstoneSizes)
    batch_size: int = BATCHES_IN_ONE * 200
    api: ClassVar[Api] = DELETE_GROUPS

    def fit(self, keys: Sequence[str]) -> int:
        return self.sizes.fit(keys)

    def build(self, keys: Sequence[str], version: int) -> Message:
        return delete_groups.build(keys, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: KeyedAnswer[str, None]
    ) -> HandlerResult[str, None]:
        result = KeyedHandler.parse(self, broker_id, keys, version, response)
        if response.failed:  # else a group can be named twice only as deleted
            failed = {(group_id, code) for group_id, code, _ in response.failed}
            result.fail_repeated([*response.found, *(group_id for group_id, _ in failed)], broker_id, self.api)
        return result
