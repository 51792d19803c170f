"""Remove members from a group: LeaveGroup, many members of one group a request (KIP-345).

An answer that was lost is not sent again: meanwhile a static member may have joined again under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.admin.engine.handler import ChangingHandler, HandlerResult
from airflow_kafka_groups.kafka.models import BrokerId, MemberToRemove
from airflow_kafka_groups.kafka.protocol.answers import LeaveAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import LEAVE_GROUP, Api
from airflow_kafka_groups.kafka.protocol.apis import membership
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

MemberErrors: TypeAlias = dict[MemberToRemove, KafkaGroupsError | None]


@dataclass(frozen=True, slots=True)
class RemoveMembersHandler(ChangingHandler[str, MemberErrors]):
    """LeaveGroup from outside a group.

    :param members: the members of each group.
    :param reason: what brokers log.
    """

    members: Mapping[str, Sequence[MemberToRemove]]
    reason: str = ""
    api: ClassVar[Api] = LEAVE_GROUP
    batch_size: ClassVar[int] = 1

    def build(self, keys: Sequence[str], version: int) -> Message:
        (group_id,) = keys
        return membership.build_leave(group_id, self.members[group_id], version, self.reason)

    def parse(
        self, broker_id: BrokerId, keys: Sequence[str], version: int, response: LeaveAnswer
    ) -> HandlerResult[str, MemberErrors]:
        """Return the error of each member, or that of the group."""
        (group_id,) = keys
        asked, errors = self.members[group_id], MemberErrors()
        result = HandlerResult({group_id: errors})
        batched, code = version >= membership.FIRST_BATCHED_LEAVE_VERSION, response.group_error
        is_members_own = not batched and code is ErrorCode.unknown_member_id
        if not is_members_own and code is not ErrorCode.none:
            result = HandlerResult()
            self.add_code(result, group_id, code, broker_id)
            return result
        codes = dict(response.members) if batched else dict.fromkeys(asked, code)
        for member in asked:
            shown = f"member {member.group_instance_id or member.member_id!r} of {self.subject(group_id)}"
            found = codes.get(member)
            errors[member] = None if found is ErrorCode.none else self.error_of_part(found, broker_id, shown)
        return result
