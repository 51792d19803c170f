"""Committed offsets of groups: OffsetFetch, many groups a request from v8 on (KIP-709).

Where Java's own handler leaves a partition out ("Skipping return offset"), here it has a status: an unstable one is
asked again, and a group with a partition that cannot be read fails with ``PartitionOffsetsError``, which carries the
rest. A group that succeeds has every partition that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.admin.engine.handler import ReadingHandler
from airflow_kafka_groups.admin.engine.handler_result import HandlerResult, KeyStatus, coordinator_status
from airflow_kafka_groups.exceptions import KafkaGroupsError, MissingAnswerError, PartitionOffsetsError
from airflow_kafka_groups.models import BrokerId, GroupOffsets, ListConsumerGroupOffsetsSpec, TopicPartition
from airflow_kafka_groups.protocol.answers import GroupOffsetsAnswer, OffsetFetchAnswer
from airflow_kafka_groups.protocol.apis import OFFSET_FETCH, Api
from airflow_kafka_groups.protocol.codec import Message
from airflow_kafka_groups.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.protocol.group_apis import offset_fetch

ALL_PARTITIONS = ListConsumerGroupOffsetsSpec()
_UNSTABLE_TRIES = 8


@dataclass(frozen=True, slots=True)
class ListGroupOffsetsHandler(ReadingHandler):
    """OffsetFetch.

    :param specs: which partitions of which group; a group that is not in it is asked for all.
    :param require_stable: hold back offsets with an open transaction (KIP-447).
    :param batch_size: the most groups of one request.
    """

    specs: Mapping[str, ListConsumerGroupOffsetsSpec]
    require_stable: bool = False
    batch_size: int = 200
    api: ClassVar[Api] = OFFSET_FETCH

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a group fails: some seconds for partitions with an open transaction."""
        return _UNSTABLE_TRIES if isinstance(error, PartitionOffsetsError) else None

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Build one request for all the groups (``NoBatchedOffsetFetchError`` below v8)."""
        specs = {group_id: self.specs.get(group_id, ALL_PARTITIONS) for group_id in keys}
        return offset_fetch.build(specs, self.require_stable, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: OffsetFetchAnswer
    ) -> HandlerResult[str, GroupOffsets]:
        """Sort the groups by status."""
        result: HandlerResult[str, GroupOffsets] = HandlerResult()
        all_wanted = not self.specs
        for answer in offset_fetch.named(response, keys, version).groups:
            group_id = answer.group_id
            if all_wanted and answer.error is ErrorCode.none and not answer.partition_errors:  # as nearly always
                result.completed[group_id] = GroupOffsets(group_id, answer.topics)
                continue
            status = coordinator_status(answer.error)
            if status is KeyStatus.COMPLETED:
                self._sort_partitions(answer, broker_id, result)
                continue
            error = broker_error(answer.error, self.api, broker_id=broker_id, subject=f"group {group_id!r}")
            result.add_error(status, group_id, error)
        return result

    def _sort_partitions(
        self, answer: GroupOffsetsAnswer, broker_id: BrokerId, result: HandlerResult[str, GroupOffsets]
    ) -> None:
        group_id = answer.group_id
        offsets = GroupOffsets(group_id, answer.topics)
        errors: dict[TopicPartition, KafkaGroupsError] = {}
        for partition, code in answer.partition_errors.items():
            subject = f"group {group_id!r}, {partition.topic}[{partition.partition}]"
            errors[partition] = broker_error(code, self.api, broker_id=broker_id, subject=subject)
        asked = self.specs.get(group_id, ALL_PARTITIONS).topic_partitions
        if asked is not None:
            for partition in asked:
                if partition not in offsets and partition not in errors:
                    errors[partition] = MissingAnswerError(
                        f"broker {broker_id} left {partition.topic}[{partition.partition}] of group {group_id!r} out"
                    )
        if not errors:
            result.completed[group_id] = offsets
            return
        failure = PartitionOffsetsError(group_id, errors, offsets)
        if ErrorCode.unstable_offset_commit in answer.partition_errors.values():
            # An open transaction decides soon, as a rule; what stays unstable fails with this very reason.
            result.retry[group_id] = failure
        else:
            result.failed[group_id] = failure
