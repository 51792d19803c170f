"""Describe groups: DescribeGroups for classic ones, and an API of its own with one request shape for each newer type.

DescribeGroups: v0 many groups · v3 authorized operations · v4 group.instance.id · v5 flexible · v6 GROUP_ID_NOT_FOUND
with a message instead of state Dead (KIP-1043)

ConsumerGroupDescribe (KIP-848): v0 many groups · v1 member type. ShareGroupDescribe (KIP-932): v1. StreamsGroupDescribe
(KIP-1071): v0. Each answers GROUP_ID_NOT_FOUND for groups of another type, as DescribeGroups does for all of these.

kio reads a group only where what follows its id is not what followed one of the last ones: most groups have no members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kio.serial import entity_reader
from kio.serial.readers import read_timedelta_i32

from airflow_kafka_groups.kafka.models import GroupState, GroupType, MemberDescription, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, DescribedGroup, DescribeGroupsAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    CompactReader,
    Message,
    boolean,
    fitting,
    request_schema,
    response_schema,
    strings,
)
from airflow_kafka_groups.kafka.protocol.consumer_protocol import read_assignment, subscribed_topics
from airflow_kafka_groups.kafka.protocol.error_codes import UNKNOWN_OPERATIONS, ErrorCode, operations

GROUP_TYPES: Mapping[Api, GroupType] = {
    CONSUMER_GROUP_DESCRIBE: GroupType.CONSUMER,
    SHARE_GROUP_DESCRIBE: GroupType.SHARE,
    STREAMS_GROUP_DESCRIBE: GroupType.STREAMS,
}
"""The APIs of the newer types. ListGroups calls the protocol type by the name of the group type, and so does this."""

LAST_VERSION_OF_ABSENT_GROUPS = 5
"""The last version that has the operations of a group that does not exist; brokers go on supporting it."""

_FIRST_MESSAGE_VERSION = 6
_NO_ERROR = b"\x00\x00"
_NO_MESSAGE = b"\x00"
_MEMBER_TYPES: Mapping[int | None, bool] = {0: True, 1: False}
"""ConsumerGroupDescribe v1: whether a member uses the classic protocol."""


def is_of_no_type(group_id: str, message: str | None) -> bool:
    """Return whether the message of a GROUP_ID_NOT_FOUND says that there is no such group of any type.

    Of a group of another type, Kafka 4 says that it is not a classic group. Any other text settles nothing.
    """
    return message == f"Group {group_id} not found."


def build(api: Api, group_ids: Sequence[str], include_authorized_operations: bool, version: int) -> Message:
    """Build a request; every flexible version of every API has the same fields."""
    if api.is_flexible(version):
        return strings(group_ids) + boolean(include_authorized_operations) + NO_TAGS
    request = request_schema(api, version).DescribeGroupsRequest
    return fitting(request, groups=tuple(group_ids), include_authorized_operations=include_authorized_operations)


def from_kio(response: Message) -> DescribeGroupsAnswer:
    """Convert a response of DescribeGroups that kio has read."""
    return DescribeGroupsAnswer(
        getattr(response, "throttle_time", NO_THROTTLE),
        [([group.group_id], _classic_group(group)) for group in response.groups],
    )


def decode(api: Api, frame: bytes, version: int) -> DescribeGroupsAnswer:
    """Decode a response frame: of DescribeGroups v5 or v6, or of an API of a newer type."""
    reader = CompactReader(frame)
    kind = GROUP_TYPES.get(api)
    read_group = entity_reader(response_schema(api, version).DescribedGroup)

    def read_row() -> tuple[str, DescribedGroup]:
        group = reader.read(read_group)
        return group.group_id, _classic_group(group) if kind is None else _modern_group(group, kind)

    throttle = reader.read(read_timedelta_i32)
    has_message = kind is not None or version >= _FIRST_MESSAGE_VERSION
    rows = reader.named_rows(read_row, _NO_ERROR + _NO_MESSAGE if has_message else _NO_ERROR)
    reader.end()
    return DescribeGroupsAnswer(throttle, rows)


def _classic_group(group: Any) -> DescribedGroup:
    is_consumer = group.protocol_type == "consumer"
    return DescribedGroup(
        ErrorCode(group.error_code),
        getattr(group, "error_message", None),
        GroupState.parse(group.group_state),
        group.protocol_type,
        group.protocol_data,
        tuple([_classic_member(member, is_consumer) for member in group.members]),
        operations(getattr(group, "authorized_operations", UNKNOWN_OPERATIONS)),
    )


def _classic_member(member: Any, is_consumer: bool) -> MemberDescription:
    """Convert a member of a classic group; only what a consumer has sent can be read."""
    assigned = read_assignment(member.member_assignment) if is_consumer else None
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=getattr(member, "group_instance_id", None),
        assignment=assigned.partitions if assigned else (),
        assignment_known=assigned is not None,
        subscribed_topics=subscribed_topics(member.member_metadata) if is_consumer else None,
        uses_classic_protocol=True,
    )


def _modern_group(group: Any, kind: GroupType) -> DescribedGroup:
    return DescribedGroup(
        ErrorCode(group.error_code),
        group.error_message,
        GroupState.parse(group.group_state),
        kind.value,
        getattr(group, "assignor_name", ""),
        tuple([_modern_member(member) for member in group.members]),
        operations(group.authorized_operations),
        group.group_epoch,
        _internal_topics(getattr(group, "topology", None)),
    )


def _internal_topics(topology: Any) -> tuple[str, ...]:
    """Return the topics that a Streams application makes for itself, by its topology."""
    parts = () if topology is None else topology.subtopologies or ()
    made = [(*part.state_changelog_topics, *part.repartition_source_topics) for part in parts]
    return tuple(sorted({topic.name for of_part in made for topic in of_part}))


def _modern_member(member: Any) -> MemberDescription:
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
