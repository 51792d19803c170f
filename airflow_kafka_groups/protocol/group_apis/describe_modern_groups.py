"""Describe groups of the newer protocols, empty ones too: one request shape, three APIs.

ConsumerGroupDescribe (KIP-848): v0 many groups · v1 member type. ShareGroupDescribe (KIP-932): v1. StreamsGroupDescribe
(KIP-1071): v0. Each answers GROUP_ID_NOT_FOUND for groups of another type, as DescribeGroups does for all of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_groups.models import (
    BrokerId,
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    TopicPartition,
)
from airflow_kafka_groups.protocol.apis import (
    CONSUMER_GROUP_DESCRIBE,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.group_apis.describe_groups import DescriptionAnswer
from airflow_kafka_groups.protocol.operations import operations

GROUP_TYPES: Mapping[Api, GroupType] = {
    CONSUMER_GROUP_DESCRIBE: GroupType.CONSUMER,
    SHARE_GROUP_DESCRIBE: GroupType.SHARE,
    STREAMS_GROUP_DESCRIBE: GroupType.STREAMS,
}


def build(api: Api, group_ids: Sequence[str], include_authorized_operations: bool, version: int) -> Message:
    """Make a request."""
    request = getattr(request_schema(api, version), f"{api.name}Request")
    return request(group_ids=tuple(group_ids), include_authorized_operations=include_authorized_operations)


def parse(api: Api, response: Message, broker_id: BrokerId) -> Iterator[DescriptionAnswer]:
    """Give each group's description. ListGroups' own name for the protocol type is that of the group type."""
    kind = GROUP_TYPES[api]
    for group in response.groups:
        description = GroupDescription(
            group_id=group.group_id,
            state=GroupState.parse(group.group_state),
            type=kind,
            protocol_type=kind.value,
            protocol=getattr(group, "assignor_name", ""),
            coordinator=broker_id,
            members=tuple(_member(member) for member in group.members),
            authorized_operations=operations(group.authorized_operations),
        )
        yield DescriptionAnswer(group.group_id, group.error_code, group.error_message, description)


def _member(member: Any) -> MemberDescription:
    # A streams member is assigned tasks of subtopologies, not partitions; those are not ours to translate.
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
    )
