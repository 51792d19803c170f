"""Bytes to an answer: kio reads them, but for those by hand that every call begins with, or that have many parts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.protocol import delete_groups, list_groups, metadata_by_hand, offset_fetch_reader
from airflow_kafka_groups.protocol.apis import DELETE_GROUPS, LIST_GROUPS, METADATA, OFFSET_FETCH, Api
from airflow_kafka_groups.protocol.codec import Message, decode_response

_BY_HAND: Mapping[int, tuple[int, Callable[[bytes, int], Message]]] = {
    OFFSET_FETCH.key: (offset_fetch_reader.FIRST_VERSION_READ_BY_HAND, offset_fetch_reader.read),
    METADATA.key: (metadata_by_hand.FIRST_VERSION_BY_HAND, metadata_by_hand.read),
    LIST_GROUPS.key: (list_groups.FIRST_VERSION_BY_HAND, list_groups.read),
    DELETE_GROUPS.key: (delete_groups.FIRST_VERSION_BY_HAND, delete_groups.read),
}
"""The first version read by hand, and the function that reads it and all later ones that are used."""


def read_response(api: Api, version: int, frame: bytes) -> Message:
    """Read a response frame (without its length).

    Raises ``RemoteProtocolError`` when it cannot be read, or does not end where it should.
    """
    first, read = _BY_HAND.get(api.key, (None, None))
    if first is None or read is None or version < first:
        return decode_response(api, version, frame)
    try:
        return read(frame, version)
    except (ValueError, IndexError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise RemoteProtocolError(f"the answer to {api.name} v{version} cannot be read: {error!r}") from error
