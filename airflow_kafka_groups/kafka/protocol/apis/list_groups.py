"""ListGroups: the groups that one broker coordinates.

v3 flexible · v4 states (KIP-518) · v5 types (KIP-848)
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.serial.readers import read_compact_string, read_timedelta_i32

from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.kafka.protocol.answers import ListedGroup, ListGroupsAnswer
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    CompactReader,
    Message,
    read_error_code,
    strings,
)

FIRST_STATES_VERSION = 4
FIRST_TYPES_VERSION = 5


def build(types: Sequence[GroupType], version: int) -> Message:
    """Build a request for groups in every state. A filter that the version does not know is applied by the caller."""
    of_states = strings(()) if version >= FIRST_STATES_VERSION else b""
    of_types = strings(types) if version >= FIRST_TYPES_VERSION else b""
    return of_states + of_types + NO_TAGS


def decode(frame: bytes, version: int) -> ListGroupsAnswer:
    """Decode a response frame."""
    reader = CompactReader(frame)
    read = reader.read

    def read_row() -> tuple[str, tuple[str, GroupState, GroupType]]:
        group_id, protocol_type = read(read_compact_string), read(read_compact_string)
        state = GroupState.parse(read(read_compact_string) if version >= FIRST_STATES_VERSION else None)
        kind = GroupType.parse(read(read_compact_string) if version >= FIRST_TYPES_VERSION else None)
        reader.skip_tags()
        return group_id, (protocol_type, state, kind)

    throttle, error = read(read_timedelta_i32), read(read_error_code)
    rows = reader.named_rows(read_row)
    reader.end()
    return ListGroupsAnswer(
        throttle, error, [ListedGroup(group_id, *tail) for group_ids, tail in rows for group_id in group_ids]
    )
