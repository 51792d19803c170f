"""ConsumerGroupDescribe: state and members of groups of the consumer protocol (KIP-848), empty ones too.

v0 many groups · v1 member type. A classic group answers GROUP_ID_NOT_FOUND here, as a KIP-848 group does in
DescribeGroups, so that both are asked before a group is called dead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from airflow_kafka_groups.models import (
    BrokerId,
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    TopicPartition,
)
from airflow_kafka_groups.protocol.apis import CONSUMER_GROUP_DESCRIBE
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.describe_groups import DescriptionAnswer, operations


def build(group_ids: Sequence[str], include_authorized_operations: bool, version: int) -> Message:
    """Make a request."""
    return request_schema(CONSUMER_GROUP_DESCRIBE, version).ConsumerGroupDescribeRequest(
        group_ids=tuple(group_ids), include_authorized_operations=include_authorized_operations
    )


def parse(response: Message, broker_id: BrokerId) -> Iterator[DescriptionAnswer]:
    """Give each group's description."""
    for group in response.groups:
        description = GroupDescription(
            group_id=group.group_id,
            state=GroupState.parse(group.group_state),
            type=GroupType.CONSUMER,
            protocol_type="consumer",
            protocol=group.assignor_name,
            coordinator=broker_id,
            members=tuple(_member(member) for member in group.members),
            authorized_operations=operations(group.authorized_operations),
        )
        yield DescriptionAnswer(group.group_id, group.error_code, group.error_message, description)


def _member(member: Any) -> MemberDescription:
    assigned = tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    )
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=member.instance_id,
        assignment=assigned,
    )
