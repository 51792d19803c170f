"""Describe groups of the newer protocols: one request shape, three APIs.

ConsumerGroupDescribe (KIP-848): v0 many groups · v1 member type. ShareGroupDescribe (KIP-932): v1. StreamsGroupDescribe
(KIP-1071): v0. Each answers GROUP_ID_NOT_FOUND for groups of another type, as DescribeGroups does for all of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.serial import entity_reader
from kio.serial.readers import (
    read_compact_string,
    read_compact_string_nullable,
    read_timedelta_i32,
)

from airflow_kafka_groups.kafka.models import GroupState, GroupType, MemberDescription, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import DescribedGroup, DescribeGroupsAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from airflow_kafka_groups.kafka.protocol.codec import Message, response_schema
from airflow_kafka_groups.kafka.protocol.compact import NO_TAGS, CompactReader, boolean, read_error_code, strings
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, operations

GROUP_TYPES: Mapping[Api, GroupType] = {
    CONSUMER_GROUP_DESCRIBE: GroupType.CONSUMER,
    SHARE_GROUP_DESCRIBE: GroupType.SHARE,
    STREAMS_GROUP_DESCRIBE: GroupType.STREAMS,
}


def build(api: Api, group_ids: Sequence[str], include_authorized_operations: bool, version: int) -> Message:
    """Build a request; every version has the same fields."""
    return strings(group_ids) + boolean(include_authorized_operations) + NO_TAGS


def decode(api: Api, frame: bytes, version: int) -> DescribeGroupsAnswer:
    """Decode a response frame. ListGroups calls the protocol type by the name of the group type, and so does this.

    Most answers only report that there is no such group, with a message that names it. So kio reads a group only where
    what follows the id is not what followed the last one.
    """
    reader = CompactReader(frame)
    read, kind = reader.read, GROUP_TYPES[api]
    read_group = entity_reader(response_schema(api, version).DescribedGroup)
    start = 0

    def read_tail() -> DescribedGroup:
        group, size = read_group(frame, start)
        reader.position = start + size
        return _group(group, kind)

    throttle = read(read_timedelta_i32)
    groups: list[tuple[list[str], DescribedGroup]] = []
    for _ in range(reader.array_length()):
        start = reader.position
        error, message = read(read_error_code), read(read_compact_string_nullable)
        name, group = read(read_compact_string), reader.repeated(read_tail)
        groups.append(([name], _new(DescribedGroup, (error, message, *group[2:]))))
    reader.skip_tags()
    reader.end()
    return DescribeGroupsAnswer(throttle, groups)


_new = tuple.__new__  # what a named tuple's own constructor calls, at half the time for many
_MEMBER_TYPES: Mapping[int | None, bool] = {0: True, 1: False}
"""ConsumerGroupDescribe v1: whether a member uses the classic protocol."""


def _group(group: Any, kind: GroupType) -> DescribedGroup:
    return DescribedGroup(
        ErrorCode(group.error_code),
        group.error_message,
        GroupState.parse(group.group_state),
        kind.value,
        getattr(group, "assignor_name", ""),
        tuple([_member(member) for member in group.members]),
        operations(group.authorized_operations),
    )


def _member(member: Any) -> MemberDescription:
    # A streams member is assigned tasks of subtopologies instead of partitions; those are not translated.
    assigned = tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in getattr(member.assignment, "topic_partitions", ())
        for partition in topic.partitions
    )
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=getattr(member, "instance_id", None),
        assignment=assigned,
        subscribed_topics=getattr(member, "subscribed_topic_names", None),
        subscribed_pattern=getattr(member, "subscribed_topic_regex", None) or None,
        uses_classic_protocol=_MEMBER_TYPES.get(getattr(member, "member_type", None)),
    )
