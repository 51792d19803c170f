"""The groups that a broker coordinates: ListGroups, asked of every broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.engine.handler import AdminHandler, HandlerResult, KeyStatus
from airflow_kafka_groups.kafka.models import BrokerId, GroupListing, GroupType
from airflow_kafka_groups.kafka.protocol.answers import ListGroupsAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import LIST_GROUPS, Api
from airflow_kafka_groups.kafka.protocol.apis import list_groups
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

_TRIES = 5


@dataclass(frozen=True, slots=True)
class ListGroupsHandler(AdminHandler[BrokerId, tuple[GroupListing, ...]]):
    """ListGroups. The keys are the brokers themselves, one a request.

    :param types: only groups of these types; all when empty. Filtered by the broker from v5 on.
    """

    types: tuple[GroupType, ...] = ()
    api: ClassVar[Api] = LIST_GROUPS
    codes: ClassVar[Mapping[ErrorCode, KeyStatus]] = {
        # The broker is still reading some of its partitions: its list is not complete yet.
        ErrorCode.coordinator_load_in_progress: KeyStatus.RETRY,
        ErrorCode.coordinator_not_available: KeyStatus.RETRY,
    }
    batch_size: ClassVar[int] = 1

    def max_tries(self, error: KafkaGroupsError) -> int | None:
        """Return after how many failures a broker is left out: the listing is marked incomplete then."""
        return _TRIES

    def build(self, keys: Sequence[BrokerId], version: int) -> Message:
        return list_groups.build((), self.types, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[BrokerId], version: int, response: ListGroupsAnswer
    ) -> HandlerResult[BrokerId, tuple[GroupListing, ...]]:
        """Return the broker's groups, or why there are none: a partial list is never read as a complete one."""
        if response.error is ErrorCode.none:
            return HandlerResult({broker_id: tuple([GroupListing(*group, broker_id) for group in response.groups])})
        result: HandlerResult[BrokerId, tuple[GroupListing, ...]] = HandlerResult()
        self.add_code(result, broker_id, response.error, broker_id)
        return result

    def subject(self, key: BrokerId) -> str:
        return ""
