"""The one parser of bootstrap servers."""

from __future__ import annotations

import re

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.transport.security import SECURITY_PROTOCOLS

DEFAULT_PORT = 9092
_OTHER_SEPARATOR = re.compile(r"[;\uff0c\u3001|\s]")  # also full-width commas
Servers = tuple[tuple[str, int], ...]
"""``(host, port)`` of each server."""


def parse_servers(value: object, *, field: str = "bootstrap.servers", default_port: int = DEFAULT_PORT) -> Servers:
    """Parse ``host:port,host:port``, without duplicates and in the order given.

    :param field: the name that the user knows the value by.
    :param default_port: the port of a server that names none.

    Raises ``ConfigurationError`` naming the server that cannot be read.
    """
    if value is None:
        raise ConfigurationError(field, None, "is missing; give at least one broker as host:port")
    if not isinstance(value, str):
        shown = None if "@" in str(value) else value  # a password may stand before it
        raise ConfigurationError(field, shown, "must be a string such as b1:9092,b2:9092")
    servers = tuple(_server(part.strip(), field, default_port) for part in value.split(",") if part.strip())
    if not servers:
        raise ConfigurationError(field, value, "give at least one broker as host:port")
    return tuple(dict.fromkeys(servers))


def format_servers(servers: Servers) -> str:
    """Write the servers as one string that ``parse_servers`` reads."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


def _server(text: str, field: str, default_port: int) -> tuple[str, int]:
    if "@" in text:  # a password may stand before it: the server is not shown
        raise ConfigurationError(field, None, "write host:port without a user: those go into login and password")
    if _OTHER_SEPARATOR.search(text):
        raise ConfigurationError(field, text, "write a comma between servers: b1:9092,b2:9092")
    scheme, _, address = text.rpartition("://")  # "PLAINTEXT://b1:9092" is accepted by librdkafka too
    if (scheme and scheme.upper() not in SECURITY_PROTOCOLS) or "/" in address:
        raise ConfigurationError(field, text, "write host:port without a scheme or a path")
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = address.partition(":")
    if not host:
        raise ConfigurationError(field, text, "the host is missing; give host:port")
    if not port:
        return host, default_port
    # Python refuses to read an integer of more than 4,300 digits.
    if not (port.isascii() and port.isdigit() and len(port) < 10 and 0 < int(port) < 65536):
        raise ConfigurationError(field, text, "the port must be a number from 1 to 65535")
    return host, int(port)
