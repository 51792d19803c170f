"""Requests to bytes, bytes to responses: a thin wrapper over kio's native codec.

A frame is four bytes of length (written by the transport), a header and a body. Flexible versions have tagged fields in
both headers; ApiVersions answers always have the old header, so that a client can read them before it knows anything.
"""

from __future__ import annotations

from functools import cache, lru_cache
from io import BytesIO
from types import ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.protocol.apis import Api

Message = Any
"""A kio request or response: one class per API and version, so that only its own module knows its type."""


@cache
def request_schema(api: Api, version: int) -> ModuleType:
    """Give kio's module with the classes of a request."""
    return load_payload_module(api.key, version, EntityType.request)


@cache
def response_schema(api: Api, version: int) -> ModuleType:
    """Give kio's module with the classes of a response."""
    return load_payload_module(api.key, version, EntityType.response)


def encode_header(api: Api, version: int, correlation_id: int, client_id: str) -> bytes:
    """Write the header of a request."""
    before, after = _header_around(api, version, client_id)
    return before + correlation_id.to_bytes(4, "big") + after


@lru_cache(1000)
def _header_around(api: Api, version: int, client_id: str) -> tuple[bytes, bytes]:
    """Give what is before and after the correlation id: the only thing in which two headers of a client differ."""
    # By hand: for a message that is written and read by hand, too, kio's classes need not be loaded for its header.
    name = client_id.encode()
    return (
        api.key.to_bytes(2, "big") + version.to_bytes(2, "big"),
        len(name).to_bytes(2, "big") + name + (b"\x00" if api.is_flexible(version) else b""),
    )


def encode_body(message: Message) -> bytes:
    """Write the body of a request or response; bytes are a body already."""
    if isinstance(message, bytes):
        return message
    buffer = BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode_response(api: Api, version: int, frame: bytes) -> Message:
    """Read a response frame (without its length).

    Raises ``RemoteProtocolError`` when it cannot be read, or does not end where it should.
    """
    response = _response_class(api, version)
    try:
        _, header_size = entity_reader(response.__header_schema__)(frame, 0)
        message, body_size = entity_reader(response)(frame, header_size)
    except Exception as error:  # kio's own errors, ValueError, UnicodeDecodeError: all mean the same here
        raise RemoteProtocolError(f"the answer to {api.name} v{version} cannot be read: {error!r}") from error
    if header_size + body_size != len(frame):
        raise RemoteProtocolError(
            f"the answer to {api.name} v{version} has {len(frame) - header_size - body_size} bytes too many"
        )
    return message


@cache
def _response_class(api: Api, version: int) -> Any:
    return getattr(response_schema(api, version), f"{api.name}Response")
