"""FindCoordinator: the broker that coordinates a key.

v1 one key · v3 flexible · v4 many keys (KIP-699) ·
v5 TRANSACTION_ABORTABLE · v6 share keys (KIP-932)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from kio.serial.readers import read_compact_string, read_compact_string_nullable, read_int32, read_timedelta_i32

from airflow_kafka_groups.exceptions import NoBatchedFindCoordinatorsError, RemoteProtocolError, UnsupportedVersionError
from airflow_kafka_groups.kafka.models import Broker, CoordinatorType
from airflow_kafka_groups.kafka.protocol.answers import KeyedAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR
from airflow_kafka_groups.kafka.protocol.codec import (
    NO_TAGS,
    CompactReader,
    Message,
    read_error_code,
    request_schema,
    strings,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode

FIRST_BATCHED_VERSION = 4
_Tail = tuple[Broker, ErrorCode, "str | None"]
_FIRST_SHARE_VERSION = 6


def build(keys: Sequence[str], key_type: CoordinatorType, version: int) -> Message:
    """Build a request.

    Raises ``NoBatchedFindCoordinatorsError`` for several keys below v4, and ``UnsupportedVersionError`` for share keys
    below v6.
    """
    if key_type is CoordinatorType.SHARE and version < _FIRST_SHARE_VERSION:
        raise UnsupportedVersionError(f"FindCoordinator v{version} cannot look up SHARE keys; that takes v6")
    if version >= FIRST_BATCHED_VERSION:
        return bytes([key_type]) + strings(keys) + NO_TAGS
    request = request_schema(FIND_COORDINATOR, version).FindCoordinatorRequest
    if len(keys) > 1:
        raise NoBatchedFindCoordinatorsError(
            f"FindCoordinator v{version} takes one key a request, not {len(keys)}; many take v{FIRST_BATCHED_VERSION}"
        )
    return request(key=keys[0], key_type=key_type)


def from_kio(response: Message) -> KeyedAnswer[str, Broker]:
    """Convert a response that kio has read. Below v4 it does not name the key, which is then empty (see ``named``)."""
    rows = []
    for item in getattr(response, "coordinators", (response,)):
        broker, code = Broker(broker_id=item.node_id, host=item.host, port=item.port), ErrorCode(item.error_code)
        rows.append(([getattr(item, "key", "")], (broker, code, getattr(item, "error_message", None))))
    return _answer(response.throttle_time, rows)


def named(answer: KeyedAnswer[str, Broker], keys: Sequence[str], version: int) -> KeyedAnswer[str, Broker]:
    """Fill in the key where the version has none; a version that has keys is never matched by position."""
    if version >= FIRST_BATCHED_VERSION:
        return answer
    (key,) = keys
    found = dict.fromkeys(keys, *answer.found.values()) if answer.found else {}
    return answer._replace(found=found, failed=[(key, code, message) for _, code, message in answer.failed])


def decode(frame: bytes, version: int) -> KeyedAnswer[str, Broker]:
    """Decode a response frame of v4 to v6.

    Raises ``RemoteProtocolError`` also for an answer that names two coordinators of one group.
    """
    reader = CompactReader(frame)
    read = reader.read

    def read_row() -> tuple[str, _Tail]:
        key = read(read_compact_string)
        broker = Broker(broker_id=read(read_int32), host=read(read_compact_string), port=read(read_int32))
        tail = broker, read(read_error_code), read(read_compact_string_nullable)
        reader.skip_tags()
        return key, tail

    throttle = read(read_timedelta_i32)
    rows = reader.named_rows(read_row)
    reader.end()
    return _answer(throttle, rows)


def _answer(throttle: timedelta, rows: Sequence[tuple[Sequence[str], _Tail]]) -> KeyedAnswer[str, Broker]:
    answer = KeyedAnswer.of(throttle, [(keys, code, message, broker) for keys, (broker, code, message) in rows])
    if len(answer.found) < sum(len(set(keys)) for keys, (_, code, _) in rows if code is ErrorCode.none):
        raise RemoteProtocolError("a FindCoordinator response names two coordinators of one group")
    return answer
