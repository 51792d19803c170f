"""One module for each Kafka API, and the decoders: kio reads a response, or a hand-written codec its later versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.protocol import api_versions
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.apis import (
    delete_groups,
    describe_configs,
    describe_groups,
    find_coordinator,
    list_groups,
    list_offsets,
    membership,
    metadata,
    offset_commit,
    offset_fetch,
    share_offsets,
)
from airflow_kafka_groups.kafka.protocol.codec import Message, decode_message

_FROM_KIO: Mapping[Api, Callable[[Message], Any]] = {
    api_versions.FETCH: list_offsets.fetched_from_kio,
    api_versions.LIST_OFFSETS: list_offsets.from_kio,
    api_versions.METADATA: metadata.from_kio,
    api_versions.OFFSET_COMMIT: offset_commit.from_kio,
    api_versions.FIND_COORDINATOR: find_coordinator.from_kio,
    api_versions.JOIN_GROUP: membership.join_from_kio,
    api_versions.HEARTBEAT: membership.heartbeat_from_kio,
    api_versions.LEAVE_GROUP: membership.leave_from_kio,
    api_versions.SYNC_GROUP: membership.sync_from_kio,
    api_versions.DESCRIBE_GROUPS: describe_groups.from_kio,
    api_versions.DESCRIBE_CONFIGS: describe_configs.from_kio,
    api_versions.DELETE_GROUPS: delete_groups.from_kio,
    api_versions.OFFSET_DELETE: offset_commit.from_kio,
    api_versions.DESCRIBE_SHARE_OFFSETS: share_offsets.from_kio,
    api_versions.ALTER_SHARE_OFFSETS: share_offsets.altered_from_kio,
}
_BY_HAND: Mapping[Api, tuple[int, Callable[[bytes, int], Any]]] = {
    api_versions.METADATA: (9, metadata.decode),
    api_versions.OFFSET_COMMIT: (8, offset_commit.decode),
    api_versions.OFFSET_FETCH: (6, offset_fetch.decode),
    api_versions.FIND_COORDINATOR: (4, find_coordinator.decode),
    api_versions.DESCRIBE_GROUPS: (5, partial(describe_groups.decode, api_versions.DESCRIBE_GROUPS)),
    api_versions.LIST_GROUPS: (3, list_groups.decode),
    api_versions.DELETE_GROUPS: (2, delete_groups.decode),
    **{api: (0, partial(describe_groups.decode, api)) for api in describe_groups.GROUP_TYPES},
}
"""The first version that a hand-written decoder reads, and the decoder."""


def decode_response(api: Api, version: int, frame: bytes) -> Any:
    """Decode a response frame (without its length) into the answer type of its API.

    Raises ``RemoteProtocolError`` when it cannot be read, or does not end where it should.
    """
    try:
        if (hot := _BY_HAND.get(api)) is not None and version >= hot[0]:
            return hot[1](frame, version)
        return _FROM_KIO[api](decode_message(api, version, frame))
    except Exception as error:
        # SerialError, ValueError and IndexError as a rule, but kio raises KeyError for a tagged field that it does not
        # know. An error that got away from here would close the connection, and the call wait for its deadline.
        raise RemoteProtocolError(f"the response to {api.name} v{version} cannot be read: {error!r}") from error
