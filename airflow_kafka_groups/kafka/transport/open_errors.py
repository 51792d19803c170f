"""What is said when a connection could not be opened: by the client library, or by what is no broker."""

from __future__ import annotations

import asyncio
import re
import ssl

from aiokafka.errors import KafkaConnectionError, UnsupportedSaslMechanismError

from airflow_kafka_groups.kafka.transport.security import SecurityConfig

HTTP_SERVER = "this is an HTTP server, not a Kafka broker; check the port"
_PROBE_SECONDS = 1.0
_OF_CERTIFICATE = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA)")
_CERTIFICATE = (
    "the broker asks for a client certificate that it trusts: set ssl_certificate and ssl_private_key in the "
    "connection (of librdkafka: ssl.certificate.location and ssl.key.location, in PEM)"
)


async def answers_http(host: str, port: int) -> bool:
    """Send an HTTP request: some HTTP servers do not answer Kafka's bytes, because they wait for the end of a line."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"HEAD / HTTP/1.0\r\n\r\n")
                return await reader.readexactly(5) == b"HTTP/"
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return False


def why(error: BaseException, *, tls: bool) -> str:
    """Return why a connection failed.

    :param tls: whether it was to be one by TLS.
    """
    cause = error.__cause__
    if tls and isinstance(error, ConnectionResetError):  # a handshake that a TLS server refuses ends with an alert
        return (
            "the server closed the connection instead of a TLS handshake; is this listener without TLS? "
            f"({type(error).__name__})"
        )
    if isinstance(error, KafkaConnectionError) and isinstance(cause, asyncio.IncompleteReadError):
        # The length of a frame is read first: of "HTTP/1.1 400" that leaves "/1.1 400" as what could be read of it.
        if cause.partial.startswith((b"/1.", b"/2")):
            return HTTP_SERVER
        return (
            "connected, but it hung up before it said which Kafka versions it speaks; is this a Kafka listener, and of "
            "this security protocol?"
        )
    return say(cause or error)


def refusal(error: BaseException, security: SecurityConfig) -> str:
    """Return why a login was refused."""
    if isinstance(error, UnsupportedSaslMechanismError) and security.sasl:  # its text is the connection's repr
        return f"the listener does not offer the mechanism {security.sasl.mechanism}: choose another sasl.mechanism"
    return say(error)


def unexpected(error: BaseException) -> str:
    """Return what else failed, e.g. an authenticator that cannot read an answer. Its text may quote a token."""
    return f"the connection could not be opened: {type(error).__name__}"


def say(error: BaseException) -> str:
    """Return the text of an error with its type."""
    text = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLError) and _OF_CERTIFICATE.search(error.reason or ""):
        text += f"; {_CERTIFICATE}"
    return f"{text} ({type(error).__name__})" if type(error).__name__ not in text else text
