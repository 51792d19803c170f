"""DeleteGroups: delete groups without members, offsets and all.

v0 many groups · v1 throttle before answer · v2 flexible
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from airflow_kafka_groups.protocol.apis import DELETE_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, texts

_NO_ERROR = b"\x00\x00" + NO_TAGS


class DeleteGroupsAnswer(NamedTuple):
    """Be an answer, read by hand: the groups that were deleted, and those that were not."""

    throttle_time: timedelta
    deleted: Sequence[str]
    failed: Sequence[tuple[str, ErrorCode]]


def build(group_ids: Sequence[str], version: int) -> Message:
    """Make a request."""
    if DELETE_GROUPS.is_flexible(version):
        return texts(group_ids) + NO_TAGS
    return request_schema(DELETE_GROUPS, version).DeleteGroupsRequest(groups_names=tuple(group_ids))


def read(frame: bytes, _version: int) -> DeleteGroupsAnswer:
    """Read a response frame of v2."""
    reader = CompactReader(frame)
    throttle = reader.milliseconds()
    deleted: list[str] = []
    failed: list[tuple[str, ErrorCode]] = []
    left = reader.length()
    while left:
        alike = reader.texts_before(_NO_ERROR, left)
        deleted += alike
        left -= len(alike)
        if left:
            _read_one(reader, deleted, failed)
            left -= 1
    reader.skip_tags()
    reader.end()
    return DeleteGroupsAnswer(throttle, deleted, failed)


def _read_one(reader: CompactReader, deleted: list[str], failed: list[tuple[str, ErrorCode]]) -> None:
    group_id, code = reader.text(), reader.int16()
    reader.skip_tags()
    if code:
        failed.append((group_id, ErrorCode(code)))
    else:
        deleted.append(group_id)


def parse(response: Message) -> tuple[Sequence[str], Sequence[tuple[str, ErrorCode]]]:
    """Give the groups that were deleted, and the others with what came of them."""
    if isinstance(response, DeleteGroupsAnswer):
        return response.deleted, response.failed
    answers = [(result.group_id, result.error_code) for result in response.results]
    return (
        [group_id for group_id, code in answers if code is ErrorCode.none],
        [(group_id, code) for group_id, code in answers if code is not ErrorCode.none],
    )
