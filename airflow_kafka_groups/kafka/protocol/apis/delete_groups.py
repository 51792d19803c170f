"""DeleteGroups: delete groups that have no members, with their offsets.

v0 many groups · v1 throttle before response · v2 flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.serial.readers import read_compact_string, read_timedelta_i32

from airflow_kafka_groups.kafka.protocol.answers import NO_THROTTLE, KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import DELETE_GROUPS
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    CompactReader,
    Message,
    read_error_code,
    request_schema,
    strings,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode


def build(group_ids: Sequence[str], version: int) -> Message:
    if DELETE_GROUPS.is_flexible(version):
        return strings(group_ids) + NO_TAGS
    return request_schema(DELETE_GROUPS, version).DeleteGroupsRequest(groups_names=tuple(group_ids))


def from_kio(response: Message) -> KeyedAnswer[str, None]:
    rows = [([result.group_id], ErrorCode(result.error_code), None, None) for result in response.results]
    return KeyedAnswer.of(getattr(response, "throttle_time", NO_THROTTLE), rows)


def decode(frame: bytes, version: int) -> KeyedAnswer[str, None]:
    """Decode a response frame of v2."""
    reader = CompactReader(frame)
    read = reader.read

    def read_row() -> tuple[str, ErrorCode]:
        row = read(read_compact_string), read(read_error_code)
        reader.skip_tags()
        return row

    throttle = read(read_timedelta_i32)
    rows = reader.named_rows(read_row)
    reader.end()
    return KeyedAnswer.of(throttle, [(group_ids, code, None, None) for group_ids, code in rows])
