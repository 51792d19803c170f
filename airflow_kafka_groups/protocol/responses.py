"""Bytes to an answer: kio reads them, but for those by hand that every call begins with, or that have many parts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.protocol.apis import DELETE_GROUPS, LIST_GROUPS, METADATA, OFFSET_FETCH, Api
from airflow_kafka_groups.protocol.codec import Message, decode_response
from airflow_kafka_groups.protocol.group_apis import delete_groups, list_groups
from airflow_kafka_groups.protocol.hot_codecs import metadata as metadata_by_hand
from airflow_kafka_groups.protocol.hot_codecs import offset_fetch as offset_fetch_reader

_BY_HAND: Mapping[Api, Callable[[bytes, int], Message]] = {
    OFFSET_FETCH: offset_fetch_reader.read,
    METADATA: metadata_by_hand.read,
    LIST_GROUPS: list_groups.read,
    DELETE_GROUPS: delete_groups.read,
}
"""What reads all versions in the compact encoding that are used."""


def read_response(api: Api, version: int, frame: bytes) -> Message:
    """Read a response frame (without its length).

    Raises ``RemoteProtocolError`` when it cannot be read, or does not end where it should.
    """
    read = _BY_HAND.get(api)
    if read is None or not api.is_flexible(version):
        return decode_response(api, version, frame)
    try:
        return read(frame, version)
    except (ValueError, IndexError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise RemoteProtocolError(f"the answer to {api.name} v{version} cannot be read: {error!r}") from error
