"""Committed offsets of groups: OffsetFetch, many groups a request from v8 on (KIP-709).

Where Java's own handler leaves a partition out ("Skipping return offset"), here it has a status: an unstable one is
asked again, and a group with a partition that cannot be read fails with ``PartitionOffsetsError``, which carries the
rest. A group that succeeds has every partition that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.exceptions import KafkaGroupsError, PartitionOffsetsError
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult
from airflow_kafka_groups.kafka.models import (
    BrokerId,
    GroupOffsets,
    ListConsumerGroupOffsetsSpec,
    PackedGroups,
    ShareGroupOffsets,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.answers import NO_ERRORS, GroupOffsetsAnswer, OffsetFetchAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_SHARE_OFFSETS, OFFSET_FETCH, Api
from airflow_kafka_groups.kafka.protocol.apis import offset_fetch, share_offsets
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_UNSTABLE_TRIES = 8


@dataclass(frozen=True, slots=True)
class ListGroupOffsetsHandler(AdminHandler[str, GroupOffsets]):
    """OffsetFetch of these partitions (``specs``), or of all of a group that is not among them."""

    specs: Mapping[str, ListConsumerGroupOffsetsSpec]
    require_stable: bool = False
    batch_size: int = 200
    api: ClassVar[Api] = OFFSET_FETCH

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a group fails: some seconds for partitions with an open transaction."""
        return _UNSTABLE_TRIES if isinstance(error, PartitionOffsetsError) else None

    def build(self, keys: Sequence[str], version: int) -> Message:
        return offset_fetch.build(keys, self.specs, self.require_stable, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: OffsetFetchAnswer
    ) -> HandlerResult[str, GroupOffsets]:
        _, packed, groups = offset_fetch.named(response, keys, version)
        if not groups and not self.specs:  # as nearly always
            return HandlerResult(PackedGroups(packed))
        return self._sorted(PackedGroups(packed).values(), groups, broker_id)

    def _sorted(
        self, plain: Iterable[GroupOffsets], groups: Iterable[GroupOffsetsAnswer], broker_id: BrokerId
    ) -> HandlerResult[str, GroupOffsets]:
        completed: dict[str, GroupOffsets] = {}
        result = HandlerResult(completed)
        readable = [(offsets, NO_ERRORS) for offsets in plain]
        for group in groups:
            if group.error is ErrorCode.none:
                readable.append((self._offsets(group), group.partition_errors))
            else:
                self.add_code(result, group.group_id, group.error, broker_id)
        for offsets, partition_errors in readable:
            failure = self._failure(offsets, partition_errors, broker_id)
            if failure is None:
                completed[offsets.group_id] = offsets
            elif ErrorCode.unstable_offset_commit in partition_errors.values():
                # An open transaction decides soon, as a rule; what stays unstable fails with this very reason.
                result.retry[offsets.group_id] = failure
            else:
                result.failed[offsets.group_id] = failure
        return result

    def _offsets(self, group: GroupOffsetsAnswer) -> GroupOffsets:
        return GroupOffsets(group.group_id, group.topics)

    def _failure(
        self, offsets: GroupOffsets, partition_errors: Mapping[TopicPartition, ErrorCode], broker_id: BrokerId
    ) -> PartitionOffsetsError | None:
        group_id = offsets.group_id
        codes: dict[TopicPartition, ErrorCode | None] = {**partition_errors}
        for partition in self.specs.get(group_id, offset_fetch.ALL_PARTITIONS).topic_partitions or ():
            if partition not in offsets:
                codes.setdefault(partition, None)
        errors = {
            partition: self.error_of_part(code, broker_id, f"group {group_id!r}, {partition[0]}[{partition[1]}]")
            for partition, code in codes.items()
        }
        return PartitionOffsetsError(group_id, errors, offsets) if errors else None


class ListShareOffsetsHandler(ListGroupOffsetsHandler):
    """DescribeShareGroupOffsets: the start offsets of share groups, in the place of committed offsets."""

    __slots__ = ()
    api: ClassVar[Api] = DESCRIBE_SHARE_OFFSETS

    def build(self, keys: Sequence[str], version: int) -> Message:
        return share_offsets.build(keys, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: OffsetFetchAnswer
    ) -> HandlerResult[str, GroupOffsets]:
        result = self._sorted((), response.groups, broker_id)
        result.fail_repeated((group.group_id for group in response.groups), broker_id, self.api)
        return result

    def _offsets(self, group: GroupOffsetsAnswer) -> GroupOffsets:
        topics = group.topics
        asked = self.specs.get(group.group_id, offset_fetch.ALL_PARTITIONS).topic_partitions
        if asked is not None:
            found = GroupOffsets(group.group_id, topics)
            topics = GroupOffsets.from_mapping(group.group_id, {where: found.get(where) for where in asked}).topics
        return ShareGroupOffsets(group.group_id, topics)
