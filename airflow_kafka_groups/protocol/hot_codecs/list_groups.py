"""ListGroups v3 to v5 responses."""

from __future__ import annotations

from kio.serial.readers import read_compact_string, read_error_code, read_timedelta_i32

from airflow_kafka_groups.models import GroupState, GroupType
from airflow_kafka_groups.protocol.answers import ListedGroup, ListGroupsAnswer
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader

FIRST_STATES_VERSION = 4
FIRST_TYPES_VERSION = 5


def decode(frame: bytes, version: int) -> ListGroupsAnswer:
    """Decode a response frame."""
    reader = CompactReader(frame)
    read = reader.read

    def read_tail() -> tuple[str, GroupState, GroupType]:
        protocol_type = read(read_compact_string)
        state = GroupState.parse(read(read_compact_string) if version >= FIRST_STATES_VERSION else None)
        kind = GroupType.parse(read(read_compact_string) if version >= FIRST_TYPES_VERSION else None)
        reader.skip_tags()
        return protocol_type, state, kind

    throttle, error = read(read_timedelta_i32), read(read_error_code)
    rows = reader.named_rows(lambda: (read(read_compact_string), read_tail()), read_tail)
    reader.skip_tags()
    reader.end()
    return ListGroupsAnswer(
        throttle, error, [ListedGroup(group_id, *tail) for group_ids, tail in rows for group_id in group_ids]
    )
