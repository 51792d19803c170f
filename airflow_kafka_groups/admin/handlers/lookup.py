"""Who owns the key? Strategies that find the broker to ask: the lookup stage of the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.admin.engine.handler_result import HandlerResult
from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.models import Broker, BrokerId, CoordinatorType, TopicPartition
from airflow_kafka_groups.protocol.answers import FindCoordinatorAnswer, MetadataAnswer
from airflow_kafka_groups.protocol.apis import FIND_COORDINATOR, METADATA, Api
from airflow_kafka_groups.protocol.cluster_apis import metadata
from airflow_kafka_groups.protocol.codec import Message
from airflow_kafka_groups.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.protocol.group_apis import find_coordinator


@dataclass(frozen=True, slots=True)
class CoordinatorStrategy:
    """Ask FindCoordinator: many keys from v4 on (KIP-699), one below."""

    key_type: CoordinatorType = CoordinatorType.GROUP
    api: ClassVar[Api] = FIND_COORDINATOR
    resend_after_loss: ClassVar[bool] = True

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Make one request for all the keys (``NoBatchedFindCoordinatorsError`` below v4)."""
        return find_coordinator.build(keys, self.key_type, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: FindCoordinatorAnswer
    ) -> HandlerResult[str, Broker]:
        """Sort the keys by status: completed means found."""
        result: HandlerResult[str, Broker] = HandlerResult()
        answer = find_coordinator.named(response, keys, version)
        for key, broker in answer.found.items():
            if broker.broker_id >= 0 and broker.host:
                result.completed[key] = broker
            else:
                result.failed[key] = RemoteProtocolError(f"broker {broker_id} named no coordinator for {key!r}")
        for key, code, message in answer.failed:
            subject = f"{self.key_type.name.lower()} {key!r}"
            error = broker_error(code, self.api, broker_id=broker_id, subject=subject, message=message)
            match code:
                case (
                    ErrorCode.coordinator_not_available
                    | ErrorCode.coordinator_load_in_progress
                    | ErrorCode.not_coordinator
                ):
                    # No leader yet: also the answer for a second or two while __consumer_offsets is being created.
                    result.retry[key] = error
                case _:
                    result.failed[key] = error
        return result


@dataclass(frozen=True, slots=True)
class PartitionLeaderStrategy:
    """Ask Metadata for the leaders of partitions, all the topics in one request."""

    api: ClassVar[Api] = METADATA
    resend_after_loss: ClassVar[bool] = True

    def build(self, keys: Sequence[TopicPartition], version: int) -> Message:
        """Make one request for the topics of all the partitions."""
        return metadata.build(list(dict.fromkeys(key.topic for key in keys)), version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[TopicPartition], version: int, response: MetadataAnswer
    ) -> HandlerResult[TopicPartition, Broker]:
        """Sort the partitions by status: completed means that the leader is known."""
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
