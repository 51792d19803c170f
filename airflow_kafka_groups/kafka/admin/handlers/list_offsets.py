"""Log start, end, or the offset at a time (ListOffsets), and where readable records end (Fetch), asked of leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult
from airflow_kafka_groups.kafka.models import Broker, BrokerId, ListedOffset, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import FetchAnswer, FetchedTail, ListOffsetsAnswer, MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import FETCH, LIST_OFFSETS, METADATA, Api
from airflow_kafka_groups.kafka.protocol.apis import fetch, list_offsets, metadata
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error


@dataclass(frozen=True, slots=True)
class FindLeadersHandler(AdminHandler[TopicPartition, Broker]):
    """Metadata, asked of any broker for the leaders of partitions."""

    api: ClassVar[Api] = METADATA
    batch_size: ClassVar[int] = 1000

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        """Build one request for the topics of all the partitions."""
        return metadata.build(list(dict.fromkeys(key.topic for key in keys)), version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[TopicPartition], version: int, response: MetadataAnswer
    ) -> HandlerResult[TopicPartition, Broker]:
        """Sort the partitions; completed means that the leader is known."""
        brokers = {broker.broker_id: broker for broker in response.brokers}
        result: HandlerResult[TopicPartition, Broker] = HandlerResult()
        for key in keys:
            leader = brokers.get(response.leaders.get(key, -1))
            code = response.errors.get(key.topic, ErrorCode.none)
            if leader is not None:
                result.completed[key] = leader
                continue
            subject = f"{key.topic}[{key.partition}]"
            if code is ErrorCode.none:
                exists = key.partition < response.partition_counts.get(key.topic, 0)
                code = ErrorCode.leader_not_available if exists else ErrorCode.unknown_topic_or_partition
            error = broker_error(code, self.api, broker_id=broker_id, subject=subject)
            if code is ErrorCode.leader_not_available:
                result.retry[key] = error
            else:
                result.failed[key] = error
        return result


@dataclass(frozen=True, slots=True)
class ListOffsetsHandler(AdminHandler[TopicPartition, ListedOffset]):
    """ListOffsets, asked of partition leaders."""

    specs: Mapping[TopicPartition, OffsetSpec]
    api: ClassVar[Api] = LIST_OFFSETS
    batch_size: ClassVar[int] = 5000

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        """Build one request for all the partitions."""
        return list_offsets.build({key: self.specs[key] for key in keys}, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[TopicPartition], version: int, response: ListOffsetsAnswer
    ) -> HandlerResult[TopicPartition, ListedOffset]:
        """Sort the partitions by status."""
        result: HandlerResult[TopicPartition, ListedOffset] = HandlerResult()
        for answer in response.partitions:
            key = answer.partition
            if answer.error is ErrorCode.none:
                result.completed[key] = answer.offset
                continue
            error = broker_error(answer.error, self.api, broker_id=broker_id, subject=f"{key.topic}[{key.partition}]")
            match answer.error:
                case (
                    ErrorCode.not_leader_or_follower
                    | ErrorCode.leader_not_available
                    | ErrorCode.replica_not_available
                    | ErrorCode.fenced_leader_epoch
                    | ErrorCode.unknown_leader_epoch
                    | ErrorCode.kafka_storage_error
                ):
                    # The leader has moved, or is about to.
                    result.unmapped[key] = error
                case ErrorCode.offset_not_available | ErrorCode.request_timed_out:
                    # A new leader that does not know its high watermark yet, or a broker with too many such requests.
                    result.retry[key] = error
                case _:
                    result.failed[key] = error
        return result


@dataclass(frozen=True, slots=True)
class FetchTailsHandler(AdminHandler[TopicPartition, FetchedTail]):
    """Fetch, asked of partition leaders. An error is not worth another try: the rest counts as lag."""

    offsets: Mapping[TopicPartition, int]
    api: ClassVar[Api] = FETCH
    batch_size: ClassVar[int] = 100

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        """Build one request for all the partitions."""
        return fetch.build({key: self.offsets[key] for key in keys}, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[TopicPartition], version: int, response: FetchAnswer
    ) -> HandlerResult[TopicPartition, FetchedTail]:
        """Sort the partitions by status."""
        result: HandlerResult[TopicPartition, FetchedTail] = HandlerResult()
        for tail in response.partitions:
            key = tail.partition
            if tail.error is ErrorCode.none:
                result.completed[key] = tail
            else:
                subject = f"{key.topic}[{key.partition}]"
                result.failed[key] = broker_error(tail.error, self.api, broker_id=broker_id, subject=subject)
        return result
