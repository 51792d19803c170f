"""FindCoordinator: the broker that coordinates a key.

v0 one group · v1 key type (transactions), error message, throttle time · v3 flexible · v4 many keys (KIP-699) ·
v5 TRANSACTION_ABORTABLE · v6 share keys (KIP-932)
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_kafka_groups.exceptions import NoBatchedFindCoordinatorsError, UnsupportedVersionError
from airflow_kafka_groups.models import Broker, CoordinatorType
from airflow_kafka_groups.protocol.answers import NO_THROTTLE, FailedLookup, FindCoordinatorAnswer
from airflow_kafka_groups.protocol.apis import FIND_COORDINATOR
from airflow_kafka_groups.protocol.codec import Message, fitting, request_schema
from airflow_kafka_groups.protocol.error_codes import ErrorCode
from airflow_kafka_groups.protocol.hot_codecs.compact_writer import NO_TAGS, strings

FIRST_BATCHED_VERSION = 4
_FIRST_VERSION = {CoordinatorType.GROUP: 0, CoordinatorType.TRANSACTION: 1, CoordinatorType.SHARE: 6}


def build(keys: Sequence[str], key_type: CoordinatorType, version: int) -> Message:
    """Build a request.

    Raises ``NoBatchedFindCoordinatorsError`` for several keys below v4, and ``UnsupportedVersionError`` for a key type
    that the version does not know.
    """
    if version < _FIRST_VERSION[key_type]:
        raise UnsupportedVersionError(
            f"FindCoordinator v{version} cannot look up {key_type.name} keys; that takes v{_FIRST_VERSION[key_type]}"
        )
    if version >= FIRST_BATCHED_VERSION:
        return bytes([key_type]) + strings(keys) + NO_TAGS
    request = request_schema(FIND_COORDINATOR, version).FindCoordinatorRequest
    if len(keys) > 1:
        raise NoBatchedFindCoordinatorsError(
            f"FindCoordinator v{version} takes one key a request, not {len(keys)}; many take v{FIRST_BATCHED_VERSION}"
        )
    return fitting(request, key=keys[0], key_type=key_type)


def from_kio(response: Message) -> FindCoordinatorAnswer:
    """Convert a response that kio has read. Below v4 it does not name the key, which is then empty (see ``named``)."""
    found: dict[str, Broker] = {}
    failed = []
    for item in getattr(response, "coordinators", (response,)):
        key = getattr(item, "key", "")
        if item.error_code is ErrorCode.none:
            found[key] = Broker(broker_id=item.node_id, host=item.host, port=item.port)
        else:
            failed.append(FailedLookup(key, item.error_code, getattr(item, "error_message", None)))
    return FindCoordinatorAnswer(getattr(response, "throttle_time", NO_THROTTLE), found, failed)


def named(answer: FindCoordinatorAnswer, keys: Sequence[str], version: int) -> FindCoordinatorAnswer:
    """Fill in the key where the version has none; a version that has keys is never matched by position."""
    if version >= FIRST_BATCHED_VERSION:
        return answer
    (key,) = keys
    found = dict.fromkeys(keys, *answer.found.values()) if answer.found else {}
    return answer._replace(found=found, failed=[failure._replace(key=key) for failure in answer.failed])
