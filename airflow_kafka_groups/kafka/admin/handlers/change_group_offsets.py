"""Change a group's committed offsets from outside: OffsetCommit sets some, OffsetDelete (KIP-496) forgets some.

Both take one group a request, and an answer that was lost is not sent again: meanwhile a consumer may have started, and
what was meant for an empty group would rewind a live one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from airflow_kafka_groups.exceptions import (
    ConnectionFailedError,
    KafkaGroupsError,
    MissingAnswerError,
    PartitionsFailedError,
)
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, ChangingHandler
from airflow_kafka_groups.kafka.admin.engine.handler_result import HandlerResult, KeyStatus, coordinator_status
from airflow_kafka_groups.kafka.models import BrokerId, GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import OffsetChangeAnswer
from airflow_kafka_groups.kafka.protocol.apis import offset_commit, offset_delete
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.kafka.protocol.protocol_apis import OFFSET_COMMIT, OFFSET_DELETE, Api

_TRIES = 3


@dataclass(frozen=True, slots=True)
class AlterGroupOffsetsHandler(ChangingHandler[str, None]):
    """OffsetCommit from outside a group.

    A broker works on one request of a connection at a time, and waits for the replicas of each commit. So commits of
    many groups go over several connections.

    :param connections: to each broker.
    :param send_by: the time, on ``cluster.clock``, after which no request leaves. Default: any time.
    :param gives_up: fail soon where a broker cannot be reached, as no other one is asked. Default false.
    :param turns: the number of the connection of each group. Default: the broker's own one.
    """

    offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    connections: int = 1
    send_by: float = math.inf
    gives_up: bool = False
    turns: Mapping[str, int] = field(default_factory=dict)
    api: ClassVar[Api] = OFFSET_COMMIT
    batch_size: ClassVar[int] = 1

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a group fails."""
        return _TRIES if self.gives_up and isinstance(error, ConnectionFailedError) else None

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Build a request for one group."""
        (group_id,) = keys
        return offset_commit.build(group_id, self.offsets[group_id], version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: OffsetChangeAnswer
    ) -> HandlerResult[str, None]:
        """Sort the group by status: by its partitions, since OffsetCommit has no error for the group."""
        (group_id,) = keys
        return _sort(self.api, broker_id, group_id, self.offsets[group_id], response)

    def parse_series(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, responses: Sequence[OffsetChangeAnswer]
    ) -> HandlerResult[str, None]:
        """Sort groups by status, those quickly whose offsets were all committed."""
        if all([_is_all_committed(self.offsets[key], answer) for key, answer in zip(keys, responses, strict=True)]):
            return HandlerResult(dict.fromkeys(keys))
        # Not ``super()``: a dataclass with slots is another class than the one in which this is written.
        return AdminHandler.parse_series(self, broker_id, keys, version, responses)


@dataclass(frozen=True, slots=True)
class DeleteGroupOffsetsHandler(ChangingHandler[str, None]):
    """OffsetDelete.

    :param send_by: the time, on ``cluster.clock``, after which no request leaves. Default: any time.
    """

    partitions: Mapping[str, Sequence[TopicPartition]]
    send_by: float = math.inf
    api: ClassVar[Api] = OFFSET_DELETE
    batch_size: ClassVar[int] = 1

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Build a request for one group."""
        (group_id,) = keys
        return offset_delete.build(group_id, self.partitions[group_id], version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: OffsetChangeAnswer
    ) -> HandlerResult[str, None]:
        """Sort the group by status: its own error first, then those of its partitions."""
        (group_id,) = keys
        status = coordinator_status(response.error)
        if status is KeyStatus.COMPLETED:
            return _sort(self.api, broker_id, group_id, self.partitions[group_id], response)
        result: HandlerResult[str, None] = HandlerResult()
        error = broker_error(response.error, self.api, broker_id=broker_id, subject=f"group {group_id!r}")
        result.add_error(status, group_id, error)
        return result


def _is_all_committed(asked: Iterable[TopicPartition], response: OffsetChangeAnswer) -> bool:
    """Return whether an answer says so of offsets in columns, without a look at each of them."""
    return isinstance(asked, GroupOffsets) and all(
        [topic.flat_rows()[0::3] == response.changed.get(topic.topic) for topic in asked.topics]
    )


def _sort(
    api: Api, broker_id: BrokerId, group_id: str, asked: Iterable[TopicPartition], response: OffsetChangeAnswer
) -> HandlerResult[str, None]:
    if _is_all_committed(asked, response):
        return HandlerResult({group_id: None})
    result: HandlerResult[str, None] = HandlerResult()
    changed = {TopicPartition(topic, partition) for topic, some in response.changed.items() for partition in some}
    errors: dict[TopicPartition, KafkaGroupsError] = {}
    whole: set[KeyStatus] = set()
    for partition in asked:
        code = response.partitions.get(partition)
        if code is ErrorCode.none or (code is None and partition in changed):
            continue
        subject = f"group {group_id!r}, {partition.topic}[{partition.partition}]"
        if code is None:
            errors[partition] = MissingAnswerError(f"broker {broker_id} left {subject} out of its answer to {api.name}")
            continue
        errors[partition] = broker_error(code, api, broker_id=broker_id, subject=subject)
        whole.add(coordinator_status(code))
    if not errors:
        result.completed[group_id] = None
    elif len(whole) == 1 and len(errors) == len(set(asked)) and whole != {KeyStatus.FAILED}:
        # The coordinator's own trouble: it says so for every partition, and nothing was changed.
        result.add_error(whole.pop(), group_id, next(iter(errors.values())))
    else:
        result.failed[group_id] = PartitionsFailedError(group_id, errors)
    return result
