"""DescribeGroups: state and members of classic groups.

v0 many groups · v3 authorized operations · v4 group.instance.id · v5 flexible · v6 GROUP_ID_NOT_FOUND with a message
instead of state Dead (KIP-1043)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_kafka_groups.models import GroupState, MemberDescription
from airflow_kafka_groups.protocol.answers import NO_THROTTLE, DescribedGroup, DescribeGroupsAnswer
from airflow_kafka_groups.protocol.apis import DESCRIBE_GROUPS
from airflow_kafka_groups.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.protocol.consumer_protocol import assigned_partitions, subscribed_topics
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, boolean, strings
from airflow_kafka_groups.protocol.operations import UNKNOWN_OPERATIONS, operations

LAST_VERSION_OF_ABSENT_GROUPS = 5
"""The last version that has the operations of a group that does not exist; brokers go on supporting it."""


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
        group.error_code,
        getattr(group, "error_message", None),
        GroupState.parse(group.group_state),
        group.protocol_type,
        group.protocol_data,
        tuple([_member(member, is_consumer) for member in group.members]),
        operations(getattr(group, "authorized_operations", UNKNOWN_OPERATIONS)),
    )


def _member(member: Any, is_consumer: bool) -> MemberDescription:
    assigned = assigned_partitions(member.member_assignment) if is_consumer else None
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        group_instance_id=getattr(member, "group_instance_id", None),
        assignment=assigned or (),
        assignment_known=assigned is not None,
        subscribed_topics=subscribed_topics(member.member_metadata) if is_consumer else None,
        uses_classic_protocol=True,
    )
