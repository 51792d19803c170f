"""DescribeGroups: state and members of classic groups.

v0 many groups · v3 authorized operations · v4 group.instance.id · v5 flexible · v6 GROUP_ID_NOT_FOUND with a message
instead of state Dead (KIP-1043)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_entity_module
from kio.serial import entity_reader
from kio.static.constants import EntityType

from airflow_kafka_groups.models import (
    BrokerId,
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    TopicPartition,
)
from airflow_kafka_groups.protocol.apis import DESCRIBE_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, texts
from airflow_kafka_groups.protocol.operations import UNKNOWN_OPERATIONS, operations

LAST_VERSION_OF_ABSENT_GROUPS = 5
"""Up to it, the operations of a group that is not there are told, too; brokers go on answering it."""
_FIRST_OPERATIONS_VERSION = 3
_MAX_ASSIGNMENT_VERSION = 3


class DescriptionAnswer(NamedTuple):
    """Be the answer for one group."""

    group_id: str
    error: ErrorCode
    message: str | None
    description: GroupDescription


def build(group_ids: Sequence[str], include_authorized_operations: bool, version: int) -> Message:
    """Make a request."""
    if DESCRIBE_GROUPS.is_flexible(version):
        return texts(group_ids) + (b"\x01" if include_authorized_operations else b"\x00") + NO_TAGS
    request = request_schema(DESCRIBE_GROUPS, version).DescribeGroupsRequest
    if version >= _FIRST_OPERATIONS_VERSION:
        return request(groups=tuple(group_ids), include_authorized_operations=include_authorized_operations)
    return request(groups=tuple(group_ids))


def parse(response: Message, version: int, broker_id: BrokerId) -> Iterator[DescriptionAnswer]:
    """Give each group's description."""
    for group in response.groups:
        is_consumer = group.protocol_type == "consumer"
        description = GroupDescription(
            group_id=group.group_id,
            state=GroupState.parse(group.group_state),
            type=GroupType.CLASSIC,
            protocol_type=group.protocol_type,
            protocol=group.protocol_data,
            coordinator=broker_id,
            members=tuple(_member(member, is_consumer) for member in group.members) if group.members else (),
            authorized_operations=operations(getattr(group, "authorized_operations", UNKNOWN_OPERATIONS)),
        )
        yield DescriptionAnswer(group.group_id, group.error_code, getattr(group, "error_message", None), description)


def _member(member: Any, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=getattr(member, "group_instance_id", None),
        assignment=read_assignment(member.member_assignment) if is_consumer else (),
    )


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Read ConsumerProtocolAssignment; nothing where the client wrote something of its own."""
    if len(data) < 2:
        return ()
    version = min(max(int.from_bytes(data[:2], "big", signed=True), 0), _MAX_ASSIGNMENT_VERSION)
    try:
        assignment, _ = _assignment_reader(version)(data, 2)
    except Exception:  # noqa: BLE001  # the bytes are the client's own affair; whatever they do to the codec is not an error
        return ()
    return tuple(
        TopicPartition(item.topic, partition)
        for item in assignment.assigned_partitions
        for partition in item.partitions
    )


@cache
def _assignment_reader(version: int) -> Any:
    module = load_entity_module("consumer_protocol_assignment", version, EntityType.data)
    return entity_reader(module.ConsumerProtocolAssignment)
