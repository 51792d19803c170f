"""DeleteGroups v2 responses."""

from __future__ import annotations

from kio.serial.readers import read_compact_string, read_error_code, read_timedelta_i32

from airflow_kafka_groups.protocol.answers import DeleteGroupsAnswer
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader


def decode(frame: bytes, version: int) -> DeleteGroupsAnswer:
    """Decode a response frame."""
    reader = CompactReader(frame)
    read = reader.read

    def read_tail() -> ErrorCode:
        code = read(read_error_code)
        reader.skip_tags()
        return code

    throttle = read(read_timedelta_i32)
    rows = reader.named_rows(lambda: (read(read_compact_string), read_tail()), read_tail)
    reader.skip_tags()
    reader.end()
    none = ErrorCode.none
    return DeleteGroupsAnswer(
        throttle,
        [group_id for group_ids, code in rows if code is none for group_id in group_ids],
        [(group_id, code) for group_ids, code in rows if code is not none for group_id in group_ids],
    )
