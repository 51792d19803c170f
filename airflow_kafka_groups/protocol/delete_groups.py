"""DeleteGroups: delete groups without members, offsets and all.

v0 many groups · v1 throttle before answer · v2 flexible
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_kafka_groups.protocol.apis import DELETE_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.texts_writer import NO_TAGS, texts

_FIRST_FLEXIBLE_VERSION = 2


def build(group_ids: Sequence[str], version: int) -> Message:
    """Make a request."""
    if version >= _FIRST_FLEXIBLE_VERSION:
        return texts(group_ids) + NO_TAGS
    return request_schema(DELETE_GROUPS, version).DeleteGroupsRequest(groups_names=tuple(group_ids))


def parse(response: Message) -> Iterator[tuple[str, ErrorCode]]:
    """Give each group's outcome."""
    for result in response.results:
        yield result.group_id, result.error_code
