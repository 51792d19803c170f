"""Log start, end, or the offset at a time (ListOffsets), and where readable records end (Fetch), asked of leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult, KeyedHandler, KeyStatus, V
from airflow_kafka_groups.kafka.models import Broker, BrokerId, ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import FetchedTail, MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import FETCH, LIST_OFFSETS, METADATA, Api
from airflow_kafka_groups.kafka.protocol.apis import list_offsets, metadata
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


class _PartitionsHandler(AdminHandler[TopicPartition, V]):
    __slots__ = ()

    def subject(self, key: TopicPartition) -> str:
        return f"{key.topic}[{key.partition}]"


@dataclass(frozen=True, slots=True)
class FindLeadersHandler(_PartitionsHandler[Broker]):
    """Metadata, asked of any broker for the leaders of partitions."""

    api: ClassVar[Api] = METADATA
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = {ErrorCode.leader_not_available: KeyStatus.RETRY}
    batch_size: ClassVar[int] = 1000

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        return metadata.build(list(dict.fromkeys(key.topic for key in keys)), version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[TopicPartition], version: int, response: MetadataAnswer
    ) -> HandlerResult[TopicPartition, Broker]:
        brokers = {broker.broker_id: broker for broker in response.brokers}
        completed: dict[TopicPartition, Broker] = {}
        result = HandlerResult(completed)
        for key in keys:
            leader = brokers.get(response.leaders.get(key, -1))
            code = response.errors.get(key.topic, ErrorCode.none)
            if leader is not None:
                completed[key] = leader
                continue
            if code is ErrorCode.none:
                exists = key.partition < response.partition_counts.get(key.topic, 0)
                code = ErrorCode.leader_not_available if exists else ErrorCode.unknown_topic_or_partition
            self.add_code(result, key, code, broker_id)
        return result


@dataclass(frozen=True, slots=True)
class ListOffsetsHandler(_PartitionsHandler[ListedOffset], KeyedHandler[TopicPartition, ListedOffset]):
    """ListOffsets, asked of partition leaders."""

    specs: Mapping[TopicPartition, OffsetSpec]
    api: ClassVar[Api] = LIST_OFFSETS
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = {
        # The leader has moved, or is about to.
        ErrorCode.not_leader_or_follower: KeyStatus.UNMAPPED,
        ErrorCode.leader_not_available: KeyStatus.UNMAPPED,
        ErrorCode.replica_not_available: KeyStatus.UNMAPPED,
        ErrorCode.fenced_leader_epoch: KeyStatus.UNMAPPED,
        ErrorCode.unknown_leader_epoch: KeyStatus.UNMAPPED,
        ErrorCode.kafka_storage_error: KeyStatus.UNMAPPED,
        # A new leader that does not know its high watermark yet, or a broker with too many such requests.
        ErrorCode.offset_not_available: KeyStatus.RETRY,
        ErrorCode.request_timed_out: KeyStatus.RETRY,
    }
    batch_size: ClassVar[int] = 5000

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        return list_offsets.build({key: self.specs[key] for key in keys}, version)


@dataclass(frozen=True, slots=True)
class FetchTailsHandler(_PartitionsHandler[FetchedTail], KeyedHandler[TopicPartition, FetchedTail]):
    """Fetch, asked of partition leaders. An error is not worth another try: the rest counts as lag."""

    offsets: Mapping[TopicPartition, int]
    api: ClassVar[Api] = FETCH
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = {}
    batch_size: ClassVar[int] = 100

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        return list_offsets.build_fetch({key: self.offsets[key] for key in keys}, version)
