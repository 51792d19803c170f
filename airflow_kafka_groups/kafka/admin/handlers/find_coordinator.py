"""The coordinators of groups, transactional ids and share keys: FindCoordinator, many keys from v4 on (KIP-699)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult
from airflow_kafka_groups.kafka.models import Broker, BrokerId, CoordinatorType
from airflow_kafka_groups.kafka.protocol.answers import FindCoordinatorAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, Api
from airflow_kafka_groups.kafka.protocol.apis import find_coordinator
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error


@dataclass(frozen=True, slots=True)
class FindCoordinatorHandler(AdminHandler[str, Broker]):
    """FindCoordinator, asked of any broker."""

    key_type: CoordinatorType = CoordinatorType.GROUP
    api: ClassVar[Api] = FIND_COORDINATOR
    batch_size: ClassVar[int] = 350  # so that a thousand keys keep three brokers busy instead of one

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Build one request for all the keys (``NoBatchedFindCoordinatorsError`` below v4)."""
        return find_coordinator.build(keys, self.key_type, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: FindCoordinatorAnswer
    ) -> HandlerResult[str, Broker]:
        """Sort the keys; completed means found."""
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
