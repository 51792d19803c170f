"""DescribeGroups: state and members of classic groups.

v0 many groups · v3 authorized operations · v4 group.instance.id · v5 flexible · v6 GROUP_ID_NOT_FOUND with a message
instead of state Dead (KIP-1043)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.serial.readers import (
    read_compact_string,
    read_compact_string_as_bytes,
    read_compact_string_nullable,
    read_int32,
    read_timedelta_i32,
)

from airflow_kafka_groups.kafka.models import GroupState, MemberDescription
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, DescribedGroup, DescribeGroupsAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_GROUPS
from airflow_kafka_groups.kafka.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.kafka.protocol.compact import NO_TAGS, CompactReader, boolean, read_error_code, strings
from airflow_kafka_groups.kafka.protocol.consumer_protocol import read_assignment, subscribed_topics
from airflow_kafka_groups.kafka.protocol.error_codes import UNKNOWN_OPERATIONS, ErrorCode, operations

LAST_VERSION_OF_ABSENT_GROUPS = 5
"""The last version that has the operations of a group that does not exist; brokers go on supporting it."""

_FIRST_MESSAGE_VERSION = 6
_NO_ERROR = b"\x00\x00"
_NO_MESSAGE = b"\x00"
_new = tuple.__new__  # what a named tuple's own constructor calls, at half the time for many


def is_of_no_type(group_id: str, message: str | None) -> bool:
    """Return whether the message of a GROUP_ID_NOT_FOUND says that there is no such group of any type.

    Of a group of another type, Kafka 4 says that it is not a classic group. Any other text settles nothing.
    """
    return message == f"Group {group_id} not found."


def build(group_ids: Sequence[str], include_authorized_operations: bool, version: int) -> Message:
    """Build a request."""
    if DESCRIBE_GROUPS.is_flexible(version):
        return strings(group_ids) + boolean(include_authorized_operations) + NO_TAGS
    request = request_schema(DESCRIBE_GROUPS, version).DescribeGroupsRequest
    return fitting(request, groups=tuple(group_ids), include_authorized_operations=include_authorized_operations)


def from_kio(response: Message) -> DescribeGroupsAnswer:
    """Convert a response that kio has read."""
    return DescribeGroupsAnswer(
        getattr(response, "throttle_time", NO_THROTTLE),
        [([group.group_id], _group(group)) for group in response.groups],
    )


def _group(group: Any) -> DescribedGroup:
    is_consumer = group.protocol_type == "consumer"
    return DescribedGroup(
        ErrorCode(group.error_code),
        getattr(group, "error_message", None),
        GroupState.parse(group.group_state),
        group.protocol_type,
        group.protocol_data,
        tuple([_member(member, is_consumer) for member in group.members]),
        operations(getattr(group, "authorized_operations", UNKNOWN_OPERATIONS)),
    )


def _member(member: Any, is_consumer: bool) -> MemberDescription:
    names = member.member_id, getattr(member, "group_instance_id", None), member.client_id, member.client_host
    return _new_member(*names, member.member_metadata, member.member_assignment, is_consumer)


def decode(frame: bytes, version: int) -> DescribeGroupsAnswer:
    """Decode a response frame of v5 or v6. Groups without members, which most are, cost next to nothing."""
    reader = CompactReader(frame)
    read = reader.read
    has_message = version >= _FIRST_MESSAGE_VERSION

    no_error = ErrorCode.none

    def read_tail() -> DescribedGroup:
        state, protocol_type = GroupState.parse(read(read_compact_string)), read(read_compact_string)
        protocol = read(read_compact_string)
        is_consumer = protocol_type == "consumer"
        members = tuple([_read_member(reader, is_consumer) for _ in range(reader.array_length())])
        allowed = operations(read(read_int32))
        reader.skip_tags()
        return DescribedGroup(no_error, None, state, protocol_type, protocol, members, allowed)

    def read_row() -> tuple[str, DescribedGroup]:
        error, message = read(read_error_code), read(read_compact_string_nullable) if has_message else None
        name, tail = read(read_compact_string), reader.repeated(read_tail)
        return name, _new(DescribedGroup, (error, message, *tail[2:]))

    throttle = read(read_timedelta_i32)
    rows = reader.named_rows(read_row, read_tail, _NO_ERROR + _NO_MESSAGE if has_message else _NO_ERROR)
    reader.skip_tags()
    reader.end()
    return DescribeGroupsAnswer(throttle, rows)


def _read_member(reader: CompactReader, is_consumer: bool) -> MemberDescription:
    read = reader.read
    member_id, instance_id = read(read_compact_string), read(read_compact_string_nullable)
    client_id, host = read(read_compact_string), read(read_compact_string)
    metadata, assignment = read(read_compact_string_as_bytes), read(read_compact_string_as_bytes)
    reader.skip_tags()
    return _new_member(member_id, instance_id, client_id, host, metadata, assignment, is_consumer)


def _new_member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    host: str,
    metadata: bytes,
    assignment: bytes,
    is_consumer: bool,
) -> MemberDescription:
    assigned = read_assignment(assignment) if is_consumer else None
    return MemberDescription(
        member_id=member_id,
        client_id=client_id,
        host=host,
        group_instance_id=instance_id,
        assignment=assigned.partitions if assigned else (),
        assignment_known=assigned is not None,
        assigned_with_user_data=bool(assigned and assigned.user_data),
        subscribed_topics=subscribed_topics(metadata) if is_consumer else None,
        uses_classic_protocol=True,
    )
