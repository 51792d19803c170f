"""Hand-written decoders of responses in the compact encoding (KIP-482), for two reasons.

kio builds classes for a message when it first meets it, which takes 10 ms: too long for the messages that every call
begins with. And it makes an object of every row: too slow for responses with thousands of rows. Property tests compare
every decoder with kio's, byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_groups.protocol import apis
from airflow_kafka_groups.protocol.apis import Api
from airflow_kafka_groups.protocol.hot_codecs import (
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    metadata,
    offset_commit,
    offset_fetch,
)

DECODERS: Mapping[Api, tuple[int, Callable[[bytes, int], Any]]] = {
    apis.METADATA: (9, metadata.decode),
    apis.OFFSET_COMMIT: (8, offset_commit.decode),
    apis.OFFSET_FETCH: (6, offset_fetch.decode),
    apis.FIND_COORDINATOR: (4, find_coordinator.decode),
    apis.DESCRIBE_GROUPS: (5, describe_groups.decode),
    apis.LIST_GROUPS: (3, list_groups.decode),
    apis.DELETE_GROUPS: (2, delete_groups.decode),
}
"""The first version that a decoder reads, and the decoder."""
