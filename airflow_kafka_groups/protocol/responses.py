"""The decoder of every API. Each picks its codec by version: kio's, or a hand-written one (see ``hot_codecs``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.protocol import apis
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.cluster_apis import list_offsets, metadata
from airflow_kafka_groups.protocol.group_apis import (
    delete_groups,
    describe_groups,
    describe_modern_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from airflow_kafka_groups.protocol.membership_apis import heartbeat, join_group, leave_group, sync_group

_DECODERS: Mapping[Api, Callable[[bytes, int], Any]] = {
    apis.LIST_OFFSETS: list_offsets.decode,
    apis.METADATA: metadata.decode,
    apis.OFFSET_COMMIT: offset_commit.decode,
    apis.OFFSET_FETCH: offset_fetch.decode,
    apis.FIND_COORDINATOR: find_coordinator.decode,
    apis.JOIN_GROUP: join_group.decode,
    apis.HEARTBEAT: heartbeat.decode,
    apis.LEAVE_GROUP: leave_group.decode,
    apis.SYNC_GROUP: sync_group.decode,
    apis.DESCRIBE_GROUPS: describe_groups.decode,
    apis.LIST_GROUPS: list_groups.decode,
    apis.DELETE_GROUPS: delete_groups.decode,
    apis.OFFSET_DELETE: offset_delete.decode,
    **describe_modern_groups.DECODERS,
}


def decode_response(api: Api, version: int, frame: bytes) -> Any:
    """Decode a response frame (without its length) into the answer type of its API.

    Raises ``RemoteProtocolError`` when it cannot be read, or does not end where it should.
    """
    try:
        return _DECODERS[api](frame, version)
    except Exception as error:
        # SerialError, ValueError and IndexError as a rule, but kio raises KeyError for a tagged field that it does not
        # know. An error that got away from here would close the connection, and the call wait for its deadline.
        raise RemoteProtocolError(f"the response to {api.name} v{version} cannot be read: {error!r}") from error
