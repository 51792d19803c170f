"""Where the readable records of logs end: Fetch, a few bytes of each partition, asked of their leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult
from airflow_kafka_groups.kafka.models import BrokerId, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import FetchAnswer, FetchedTail
from airflow_kafka_groups.kafka.protocol.api_versions import FETCH, Api
from airflow_kafka_groups.kafka.protocol.apis import fetch
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error


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
