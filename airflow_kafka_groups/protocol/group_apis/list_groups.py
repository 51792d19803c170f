"""ListGroups: the groups one broker coordinates.

v0 group and protocol type · v1 throttle time · v3 flexible · v4 states (KIP-518) · v5 types (KIP-848)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from airflow_kafka_groups.models import BrokerId, GroupListing, GroupState, GroupType
from airflow_kafka_groups.protocol.apis import LIST_GROUPS
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, texts

FIRST_STATES_VERSION = 4
FIRST_TYPES_VERSION = 5


class ListedGroup(NamedTuple):
    """Be one group of an answer; state and type are empty where the version does not tell them."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class ListGroupsAnswer(NamedTuple):
    """Be an answer, read by hand."""

    throttle_time: timedelta
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]


def build(states: Sequence[GroupState], types: Sequence[GroupType], version: int) -> Message:
    """Make a request; a filter that the version does not know is left out, and applied by the caller."""
    if not LIST_GROUPS.is_flexible(version):
        return request_schema(LIST_GROUPS, version).ListGroupsRequest()
    of_states = texts(states) if version >= FIRST_STATES_VERSION else b""
    of_types = texts(types) if version >= FIRST_TYPES_VERSION else b""
    return of_states + of_types + NO_TAGS


def read(frame: bytes, version: int) -> ListGroupsAnswer:
    """Read a response frame of v3 to v5."""
    reader = CompactReader(frame)
    throttle, code = reader.milliseconds(), reader.int16()
    groups = []
    for _ in range(reader.length()):
        group_id, protocol_type = reader.text(), reader.text()
        state = reader.text() if version >= FIRST_STATES_VERSION else ""
        groups.append(
            ListedGroup(group_id, protocol_type, state, reader.text() if version >= FIRST_TYPES_VERSION else "")
        )
        reader.skip_tags()
    reader.skip_tags()
    reader.end()
    return ListGroupsAnswer(throttle, ErrorCode(code), tuple(groups))


def parse(response: Message, version: int, broker_id: BrokerId) -> Iterator[GroupListing]:
    """Give the groups listed; what the version does not tell is ``UNKNOWN``."""
    for group in response.groups:
        yield GroupListing(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            state=GroupState.parse(group.group_state if version >= FIRST_STATES_VERSION else None),
            type=GroupType.parse(group.group_type if version >= FIRST_TYPES_VERSION else None),
            coordinator=broker_id,
        )
