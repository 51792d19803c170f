"""DeleteGroups: delete groups without members, offsets and all.

v0 many groups · v1 throttle before answer · v2 flexible
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import repeat
from typing import NamedTuple

from airflow_kafka_groups.protocol.apis import DELETE_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.compact_reader import CompactReader
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.texts_writer import NO_TAGS, texts

_NO_ERROR = b"\x00\x00" + NO_TAGS


class DeletedGroup(NamedTuple):
    """Be what became of one group."""

    group_id: str
    error_code: ErrorCode


class DeleteGroupsAnswer(NamedTuple):
    """Be an answer, read by hand."""

    throttle_time: timedelta
    results: tuple[DeletedGroup, ...]


def build(group_ids: Sequence[str], version: int) -> Message:
    """Make a request."""
    if DELETE_GROUPS.is_flexible(version):
        return texts(group_ids) + NO_TAGS
    return request_schema(DELETE_GROUPS, version).DeleteGroupsRequest(groups_names=tuple(group_ids))


def read(frame: bytes, _version: int) -> DeleteGroupsAnswer:
    """Read a response frame of v2."""
    reader = CompactReader(frame)
    throttle = reader.milliseconds()
    count = reader.length()
    results: list[DeletedGroup] = []
    while len(results) < count:
        deleted = reader.texts_before(_NO_ERROR, count - len(results))
        # A named tuple's own constructor calls ``tuple.__new__``, too, and takes twice the time for many.
        results += map(tuple.__new__, repeat(DeletedGroup), zip(deleted, repeat(ErrorCode.none), strict=False))
        if len(results) < count:
            group_id, code = reader.text(), reader.int16()
            results.append(DeletedGroup(group_id, ErrorCode(code) if code else ErrorCode.none))
            reader.skip_tags()
    reader.skip_tags()
    reader.end()
    return DeleteGroupsAnswer(throttle, tuple(results))


def parse(response: Message) -> Sequence[tuple[str, ErrorCode]]:
    """Give each group's outcome."""
    if isinstance(response, DeleteGroupsAnswer):
        return response.results
    return [(result.group_id, result.error_code) for result in response.results]
