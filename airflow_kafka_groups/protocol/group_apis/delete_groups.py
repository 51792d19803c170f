"""DeleteGroups: delete groups that have no members, with their offsets.

v0 many groups · v1 throttle before response · v2 flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_groups.protocol.answers import NO_THROTTLE, DeleteGroupsAnswer
from airflow_kafka_groups.protocol.apis import DELETE_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, strings


def build(group_ids: Sequence[str], version: int) -> Message:
    """Build a request."""
    if DELETE_GROUPS.is_flexible(version):
        return strings(group_ids) + NO_TAGS
    return request_schema(DELETE_GROUPS, version).DeleteGroupsRequest(groups_names=tuple(group_ids))


def from_kio(response: Message) -> DeleteGroupsAnswer:
    """Convert a response that kio has read."""
    results = [(result.group_id, result.error_code) for result in response.results]
    return DeleteGroupsAnswer(
        getattr(response, "throttle_time", NO_THROTTLE),
        [group_id for group_id, code in results if code is ErrorCode.none],
        [result for result in results if result[1] is not ErrorCode.none],
    )
