"""Delete groups: DeleteGroups, many groups a request (KIP-229), grouped by coordinator (KIP-347).

A deletion whose answer was lost is never sent again by itself: by then the group may have come back to life. It fails
with ``OutcomeUnknownError``, and whoever asked looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from airflow_kafka_groups.admin.engine.handler_result import HandlerResult, coordinator_status
from airflow_kafka_groups.models import BrokerId
from airflow_kafka_groups.protocol.answers import DeleteGroupsAnswer
from airflow_kafka_groups.protocol.apis import DELETE_GROUPS, Api
from airflow_kafka_groups.protocol.codec import Message
from airflow_kafka_groups.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.protocol.group_apis import delete_groups


@dataclass(frozen=True, slots=True)
class DeleteGroupsHandler:
    """Ask coordinators to delete groups."""

    api: ClassVar[Api] = DELETE_GROUPS
    resend_after_loss: ClassVar[bool] = False

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Make one request for all the groups; every version takes many."""
        return delete_groups.build(keys, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: DeleteGroupsAnswer
    ) -> HandlerResult[str, None]:
        """Sort the groups by status. NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND are final; the caller interprets them."""
        result: HandlerResult[str, None] = HandlerResult(completed=dict.fromkeys(response.deleted))
        for group_id, code in response.failed:
            error = broker_error(code, self.api, broker_id=broker_id, subject=f"group {group_id!r}")
            if code is ErrorCode.unknown_server_error:
                # More tombstones than one batch holds (tombstone_size.py): all groups of a partition fail together.
                result.split[group_id] = error
            else:
                result.add_error(coordinator_status(code), group_id, error)
        return result
