"""The leaders of partitions: Metadata, all the topics in one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler
from airflow_kafka_groups.kafka.admin.engine.handler_result import HandlerResult
from airflow_kafka_groups.kafka.models import Broker, BrokerId, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.apis import metadata
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.kafka.protocol.protocol_apis import METADATA, Api


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
