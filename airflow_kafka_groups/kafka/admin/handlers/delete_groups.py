"""Delete groups: DeleteGroups, many groups a request (KIP-229), grouped by coordinator (KIP-347).

A deletion whose answer was lost is never sent again by itself: by then the group may have come back to life. It fails
with ``OutcomeUnknownError``, and whoever asked looks again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import ClassVar

from airflow_kafka_groups.kafka.admin.engine.handler import ChangingHandler
from airflow_kafka_groups.kafka.admin.engine.handler_result import HandlerResult, coordinator_status
from airflow_kafka_groups.kafka.admin.handlers.tombstone_size import TombstoneSizes
from airflow_kafka_groups.kafka.models import BrokerId
from airflow_kafka_groups.kafka.protocol.answers import DeleteGroupsAnswer
from airflow_kafka_groups.kafka.protocol.apis import delete_groups
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error
from airflow_kafka_groups.kafka.protocol.protocol_apis import DELETE_GROUPS, Api

BATCHES_IN_ONE = 20
"""A broker works on one request of a connection at a time and waits for the replicas of each: two requests a broker
took a tenth longer than one, five half as long again. ``TombstoneSizes`` splits what is too large."""


@dataclass(frozen=True, slots=True)
class DeleteGroupsHandler(ChangingHandler[str, None]):
    """DeleteGroups.

    :param sizes: how much each group makes a broker write.
    :param batch_size: the most groups of one request.
    :param send_by: the time, on ``cluster.clock``, after which no request leaves. Default: any time.
    """

    sizes: TombstoneSizes = field(default_factory=TombstoneSizes)
    batch_size: int = BATCHES_IN_ONE * 200
    send_by: float = math.inf
    api: ClassVar[Api] = DELETE_GROUPS

    def build(self, keys: Sequence[str], version: int) -> Message:
        """Build one request for all the groups; every version takes many."""
        return delete_groups.build(keys, version)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: DeleteGroupsAnswer
    ) -> HandlerResult[str, None]:
        """Sort the groups. NON_EMPTY_GROUP and GROUP_ID_NOT_FOUND are final; the caller interprets them.

        UNKNOWN_SERVER_ERROR means more tombstones than one batch holds (tombstone_size.py), and all groups of a
        partition fail together: the engine asks again in halves.
        """
        result: HandlerResult[str, None] = HandlerResult(completed=dict.fromkeys(response.deleted))
        for group_id, code in response.failed:
            error = broker_error(code, self.api, broker_id=broker_id, subject=f"group {group_id!r}")
            result.add_error(coordinator_status(code), group_id, error)
        if response.failed:  # else a group can be named twice only as deleted
            said = {*zip(response.deleted, repeat(ErrorCode.none), strict=False), *response.failed}
            result.fail_repeated((group_id for group_id, _ in said), broker_id, self.api)
        return result
