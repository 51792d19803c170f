"""FindCoordinator: which broker coordinates a key.

v0 one group · v1 key type (transactions), error message, throttle time · v3 flexible · v4 many keys (KIP-699) ·
v5 TRANSACTION_ABORTABLE · v6 share keys (KIP-932)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import NoBatchedFindCoordinatorsError, UnsupportedVersionError
from airflow_kafka_groups.models import Broker, CoordinatorType
from airflow_kafka_groups.protocol.apis import FIND_COORDINATOR
from airflow_kafka_groups.protocol.codec import Message, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, texts

FIRST_BATCHED_VERSION = 4
_FIRST_VERSION = {CoordinatorType.GROUP: 0, CoordinatorType.TRANSACTION: 1, CoordinatorType.SHARE: 6}


@dataclass(frozen=True, slots=True)
class CoordinatorAnswer:
    """Be the answer for one key; ``broker`` counts only when ``error`` is ``none``."""

    key: str
    error: ErrorCode
    message: str | None
    broker: Broker


def build(keys: Sequence[str], key_type: CoordinatorType, version: int) -> Message:
    """Make a request.

    Raises ``NoBatchedFindCoordinatorsError`` for several keys below v4, and ``UnsupportedVersionError`` for a key type
    that the version does not know.
    """
    if version < _FIRST_VERSION[key_type]:
        raise UnsupportedVersionError(
            f"FindCoordinator v{version} cannot look up {key_type.name} keys; that takes v{_FIRST_VERSION[key_type]}"
        )
    if version >= FIRST_BATCHED_VERSION:
        return bytes([key_type]) + texts(keys) + NO_TAGS
    request = request_schema(FIND_COORDINATOR, version).FindCoordinatorRequest
    if len(keys) > 1:
        raise NoBatchedFindCoordinatorsError(
            f"FindCoordinator v{version} takes one key a request, not {len(keys)}; many take v{FIRST_BATCHED_VERSION}"
        )
    if version >= 1:
        return request(key=keys[0], key_type=key_type)
    return request(key=keys[0])


def parse(response: Message, version: int, keys: Sequence[str]) -> Iterator[CoordinatorAnswer]:
    """Give the answers, each with the key the broker named (v4+), so never by position."""
    if version >= FIRST_BATCHED_VERSION:
        for item in response.coordinators:
            broker = Broker(broker_id=item.node_id, host=item.host, port=item.port)
            yield CoordinatorAnswer(item.key, item.error_code, item.error_message, broker)
        return
    broker = Broker(broker_id=response.node_id, host=response.host, port=response.port)
    yield CoordinatorAnswer(keys[0], response.error_code, getattr(response, "error_message", None), broker)
