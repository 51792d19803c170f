"""The coordinators of groups, transactional ids and share keys: FindCoordinator, many keys from v4 on (KIP-699)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.admin.engine.handler import HandlerResult, KeyedHandler, KeyStatus
from airflow_kafka_groups.kafka.models import Broker, BrokerId, CoordinatorType
from airflow_kafka_groups.kafka.protocol.answers import KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, Api
from airflow_kafka_groups.kafka.protocol.apis import find_coordinator
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class FindCoordinatorHandler(KeyedHandler[str, Broker]):
    """FindCoordinator, asked of any broker."""

    key_type: CoordinatorType = CoordinatorType.GROUP
    api: ClassVar[Api] = FIND_COORDINATOR
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = {
        # No leader yet: also the answer for a second or two while __consumer_offsets is being created.
        ErrorCode.coordinator_not_available: KeyStatus.RETRY,
        ErrorCode.coordinator_load_in_progress: KeyStatus.RETRY,
        ErrorCode.not_coordinator: KeyStatus.RETRY,
    }
    batch_size: ClassVar[int] = 350  # so that a thousand keys keep three brokers busy instead of one

    def build(self, keys: Sequence[str], version: int) -> Message:
        return find_coordinator.build(keys, self.key_type, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: KeyedAnswer[str, Broker]
    ) -> HandlerResult[str, Broker]:
        answer = find_coordinator.named(response, keys, version)
        found = {key: broker for key, broker in answer.found.items() if broker.broker_id >= 0 and broker.host}
        result = KeyedHandler.parse(self, broker_id, keys, version, answer._replace(found=found))
        for key in answer.found.keys() - found:
            result.failed[key] = RemoteProtocolError(f"broker {broker_id} named no coordinator for {key!r}")
        return result

    def subject(self, key: str) -> str:
        return f"{self.key_type.name.lower()} {key!r}"
