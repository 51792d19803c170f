"""FindCoordinator v4 to v6 responses."""

from __future__ import annotations

from kio.serial.readers import (
    read_compact_string,
    read_compact_string_nullable,
    read_error_code,
    read_int32,
    read_timedelta_i32,
)

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.models import Broker
from airflow_kafka_groups.protocol.answers import FailedLookup, FindCoordinatorAnswer
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_reader import CompactReader


def decode(frame: bytes, version: int) -> FindCoordinatorAnswer:
    """Decode a response frame.

    Raises ``RemoteProtocolError`` also for an answer that names two coordinators of one group.
    """
    reader = CompactReader(frame)
    read = reader.read

    def read_tail() -> tuple[Broker, ErrorCode, str | None]:
        broker = Broker(broker_id=read(read_int32), host=read(read_compact_string), port=read(read_int32))
        tail = broker, read(read_error_code), read(read_compact_string_nullable)
        reader.skip_tags()
        return tail

    throttle = read(read_timedelta_i32)
    rows = reader.named_rows(lambda: (read(read_compact_string), read_tail()), read_tail)
    reader.skip_tags()
    reader.end()
    none = ErrorCode.none
    found = {key: broker for keys, (broker, code, _) in rows if code is none for key in keys}
    if len(found) < sum(len(set(keys)) for keys, (_, code, _) in rows if code is none):
        raise RemoteProtocolError("a FindCoordinator response names two coordinators of one group")
    return FindCoordinatorAnswer(
        throttle,
        found,
        [FailedLookup(key, code, message) for keys, (_, code, message) in rows if code is not none for key in keys],
    )
