"""Bytes to an answer: kio reads them, but for the one message whose reading is most of the work (OffsetFetch v6-v9)."""

from __future__ import annotations

import struct

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.protocol import offset_fetch_reader
from airflow_kafka_groups.protocol.apis import OFFSET_FETCH, Api
from airflow_kafka_groups.protocol.codec import Message, decode_response


def read_response(api: Api, version: int, frame: bytes) -> Message:
    """Read a response frame (without its length).

    Raises ``RemoteProtocolError`` when it cannot be read, or does not end where it should.
    """
    if api is not OFFSET_FETCH or version < offset_fetch_reader.FIRST_VERSION_READ_BY_HAND:
        return decode_response(api, version, frame)
    try:
        return offset_fetch_reader.read(frame, version)
    except (ValueError, IndexError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise RemoteProtocolError(f"the answer to {api.name} v{version} cannot be read: {error!r}") from error
