"""DescribeGroups v5 and v6 responses. Groups without members, which most are, cost next to nothing."""

from __future__ import annotations

from kio.serial.readers import (
    read_compact_string,
    read_compact_string_as_bytes,
    read_compact_string_nullable,
    read_error_code,
    read_int32,
    read_timedelta_i32,
)

from airflow_kafka_groups.models import GroupState, MemberDescription
from airflow_kafka_groups.protocol.answers import DescribedGroup, DescribeGroupsAnswer
from airflow_kafka_groups.protocol.consumer_protocol import assigned_partitions, subscribed_topics
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader
from airflow_kafka_groups.protocol.operations import operations

_FIRST_MESSAGE_VERSION = 6
_NO_ERROR = b"\x00\x00"
_NO_MESSAGE = b"\x00"
_new = tuple.__new__  # what a named tuple's own constructor calls, at half the time for many


def decode(frame: bytes, version: int) -> DescribeGroupsAnswer:
    """Decode a response frame."""
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
    metadata = read(read_compact_string_as_bytes)
    assignment = read(read_compact_string_as_bytes)
    reader.skip_tags()
    assigned = assigned_partitions(assignment) if is_consumer else None
    return MemberDescription(
        member_id=member_id,
        client_id=client_id,
        host=host,
        group_instance_id=instance_id,
        assignment=assigned or (),
        assignment_known=assigned is not None,
        subscribed_topics=subscribed_topics(metadata) if is_consumer else None,
        uses_classic_protocol=True,
    )
