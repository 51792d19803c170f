"""aiokafka's connection, as long as it opens: TLS, SASL and ApiVersions.

Its class is semi-private, so everything that is used of it is in this module (``connect``, ``close``, ``connected``,
``_versions``, ``_reader``, ``_writer`` and ``_read_task``), and tests run it against real brokers.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator

from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions
from airflow_kafka_groups.kafka.transport.kerberos import KerberosAuthenticator, require_kerberos
from airflow_kafka_groups.kafka.transport.security import OAuthConfig, SecurityConfig

_LONGEST_MS = 600_000
"""The timeout of aiokafka's own; every request carries a shorter one."""

_SHARE_OF_LOGIN = 0.85
"""The share of a login's lifetime for which a connection is used. Then the broker closes it, unanswered (KIP-368)."""


def _without_credentials(record: logging.LogRecord) -> bool:
    """Replace what aiokafka logs of an authentication by its name.

    At the level DEBUG it logs each message, and these hold the password or token. Airflow masks neither a token, which
    it does not know, nor a password with characters that are escaped where bytes are shown.
    """
    if isinstance(record.args, tuple):
        names = ((type(part).__name__, part) for part in record.args)
        record.args = tuple(name if name.startswith("SaslAuthenticate") else part for name, part in names)
    return True


logging.getLogger(AIOKafkaConnection.__module__).addFilter(_without_credentials)


class OpeningConnection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no type information
    """A connection that logs in as the settings say.

    Raises ``ConfigurationError`` for Kerberos without the package or the keytab that it needs.
    """

    usable_until: float | None = None

    def __init__(
        self,
        host: str,
        port: int,
        security: SecurityConfig,
        *,
        client_id: str,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._sasl = security.sasl
        settings = {"client_id": client_id, "request_timeout_ms": _LONGEST_MS, "ssl_context": ssl_context}
        super().__init__(host, port, **settings, **_to_aiokafka(security))

    async def send(self, request: Any, expect_response: bool = True) -> Any:
        """Send one of the requests that open a connection, and note for how long the broker accepts a login."""
        sent_at = asyncio.get_running_loop().time()
        answer = await super().send(request, expect_response)
        if lifetime_ms := getattr(answer, "session_lifetime_ms", 0):
            self.usable_until = sent_at + _SHARE_OF_LOGIN * lifetime_ms / 1000
        return answer

    def detach(self) -> tuple[ApiVersions, asyncio.StreamWriter]:
        """Hand over the socket, and what the broker supports: aiokafka neither reads from it nor closes it any more."""
        self._read_task.cancel()
        writer: asyncio.StreamWriter = self._writer  # type: ignore[has-type]
        self._reader = self._writer = None
        return ApiVersions(dict(self._versions)), writer

    def authenticator_oauth(self) -> _TokenAuthenticator:
        """Return what logs in by a token."""
        return _TokenAuthenticator(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    def authenticator_gssapi(self) -> KerberosAuthenticator:
        """Return what logs in by Kerberos."""
        assert self._sasl is not None  # noqa: S101 - only called for a mechanism of SASL
        return KerberosAuthenticator(self._sasl, loop=self._loop, principal=self.sasl_principal)


def _to_aiokafka(security: SecurityConfig) -> dict[str, Any]:
    """Return the security settings as arguments, except for the TLS context, which many connections share."""
    arguments: dict[str, Any] = {"security_protocol": security.protocol}
    if (sasl := security.sasl) is not None and security.uses_sasl:
        if sasl.mechanism == "GSSAPI":
            require_kerberos(sasl)
        arguments |= {
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": sasl.username,
            "sasl_plain_password": sasl.password,
            "sasl_kerberos_service_name": sasl.kerberos_service,
        }
    if security.oauth is not None:
        arguments["sasl_oauth_token_provider"] = _TokenProvider(security.oauth)
    return arguments


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no type information
    def __init__(self, oauth: OAuthConfig) -> None:
        self._oauth = oauth

    async def token(self) -> str:
        token, _ = await asyncio.to_thread(self._oauth.token)
        return token

    def extensions(self) -> dict[str, str]:
        return dict(self._oauth.extensions)


class _TokenAuthenticator(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka has no type information
    """An authenticator that answers a broker which refuses the token, so that the broker reports it (RFC 7628, 3.2.3).

    The broker's first answer has no error code, only a message. aiokafka takes it for success, and the broker then
    answers the first request with what looks like a cluster without brokers.
    """

    _answered = False

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if self._token_sent and payload and not self._answered:
            self._answered = True
            return b"\x01", True
        found: tuple[bytes, bool] | None = await super().step(payload)
        return found
