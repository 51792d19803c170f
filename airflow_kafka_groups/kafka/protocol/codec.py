"""Requests to bytes, and bytes to messages, by kio's native codec.

A frame is four bytes of length (written by the transport), a header and a body. Flexible versions have tagged fields in
both headers. The response to ApiVersions always has the old header, so that a client can read it before it knows
anything about the broker.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from io import BytesIO
from itertools import chain
from types import MappingProxyType, ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from airflow_kafka_groups.kafka.protocol.api_versions import Api

Message = Any
"""A body as bytes, or one of kio's messages: one class for each API and version, which only its own module knows."""


@cache
def request_schema(api: Api, version: int) -> ModuleType:
    """Return kio's module with the classes of a request."""
    return load_payload_module(api.key, version, EntityType.request)


@cache
def response_schema(api: Api, version: int) -> ModuleType:
    """Return kio's module with the classes of a response. Error codes are read as numbers (see ``ErrorCode``).

    As codes, kio refuses the complete response for one that it does not know.
    """
    module = load_payload_module(api.key, version, EntityType.response)
    for field in chain.from_iterable(map(fields, filter(is_dataclass, vars(module).values()))):
        if field.metadata.get("kafka_type") == "error_code":
            field.metadata = MappingProxyType({**field.metadata, "kafka_type": "int16"})
    return module


@lru_cache(1000)
def header_around(api: Api, version: int, client_id: str) -> tuple[bytes, bytes]:
    """Return what a request's header has before and after the correlation id.

    These four bytes, with which the response begins, are the only part in which two headers of a client differ.
    """
    # Without kio: a message with a hand-written codec needs none of its classes, which take 10 ms to load.
    name = client_id.encode()
    return (
        api.key.to_bytes(2, "big") + version.to_bytes(2, "big"),
        len(name).to_bytes(2, "big") + name + (b"\x00" if api.is_flexible(version) else b""),
    )


def fitting(kind: Any, **fields: object) -> Message:
    """Build one of kio's messages, or a part of one. A field that its version does not have is left out."""
    return kind(**{name: value for name, value in fields.items() if name in kind.__dataclass_fields__})


def encode_body(message: Message) -> bytes:
    """Write the body of a request or response; bytes are a body already."""
    if isinstance(message, bytes):
        return message
    buffer = BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode_message(api: Api, version: int, frame: bytes) -> Message:
    """Read a response frame (without its length) as one of kio's messages.

    Raises kio's ``SerialError`` or ``ValueError`` when it cannot be read, or does not end where it should.
    """
    response = getattr(response_schema(api, version), f"{api.name}Response")
    _, header_size = entity_reader(response.__header_schema__)(frame, 0)
    message, body_size = entity_reader(response)(frame, header_size)
    if header_size + body_size != len(frame):
        raise ValueError(f"{len(frame) - header_size - body_size} bytes too many")
    return message
