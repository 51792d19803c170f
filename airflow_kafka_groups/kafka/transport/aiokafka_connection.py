"""aiokafka's connection, as long as it opens: TLS, SASL, Kerberos, ApiVersions, and what is said when that fails.

Its class is semi-private, so everything that is used of it is in this module (``connect``, ``close``, ``connected``,
``_versions``, ``_reader``, ``_writer`` and ``_read_task``), and tests run it against real brokers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import time
from collections.abc import Generator
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator, SaslGSSAPIAuthenticator
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
)
from airflow_kafka_groups.kafka.protocol.api_versions import ApiVersions
from airflow_kafka_groups.kafka.transport.security import OAuthConfig, SecurityConfig

_NO_LAYER = b"\x01"
"""The security layer that is chosen: none, since TLS protects the connection where that is wanted (RFC 4752, 3.1)."""


def require_kerberos(security: SecurityConfig) -> None:
    """Raise ``ConfigurationError`` if this process lacks the package or the keytab for a Kerberos login."""
    if find_spec("gssapi") is None:
        raise ConfigurationError("sasl.mechanism", security.mechanism, "Kerberos needs a package: pip install gssapi")
    keytab = security.kerberos_keytab
    if keytab and not os.access(keytab, os.R_OK):
        remedy = f"cannot be read on {os.uname().nodename}: put it at this path on each machine that connects"
        raise ConfigurationError("sasl.kerberos.keytab", keytab, remedy)


class KerberosAuthenticator(SaslGSSAPIAuthenticator):  # type: ignore[misc]  # aiokafka has no type information
    """An authenticator that logs in by the keytab of the settings, as their principal.

    :param security: the settings. Without a keytab, Kerberos takes a ticket or a keytab of the environment; without a
        principal, the one that it finds first.
    :param principal: the brokers' service, ``service@host``.
    """

    def __init__(self, security: SecurityConfig, *, loop: asyncio.AbstractEventLoop, principal: str) -> None:
        self._keytab, self._client = security.kerberos_keytab, security.kerberos_principal
        super().__init__(loop=loop, principal=principal)

    def authenticator_gssapi(self) -> Generator[tuple[bytes, bool], bytes | None, None]:
        """Exchange tokens with the broker; runs in a thread, since Kerberos' servers are asked.

        Raises ``ConnectionFailedError`` with what Kerberos says, and whose login it was.
        """
        import gssapi

        try:
            yield from self._exchange(gssapi)
        except gssapi.exceptions.GSSError as error:
            who = self._client or "the first principal there is"
            by = f"the keytab {self._keytab}" if self._keytab else "the ticket or keytab of the environment"
            problem = f"the connection could not be opened: Kerberos refuses {who} by {by}: {error}"
            raise ConnectionFailedError(self._principal, problem) from None

    def _exchange(self, gssapi: Any) -> Generator[tuple[bytes, bool], bytes | None, None]:
        service = gssapi.Name(self._principal, name_type=gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=service.canonicalize(gssapi.MechType.kerberos), creds=self._credentials(gssapi), usage="initiate"
        )
        answer = None
        while not context.complete:
            answer = yield context.step(answer) or b"", True
        offered = context.unwrap(answer).message
        yield context.wrap(_NO_LAYER + offered[1:] + self._principal.encode(), False).message, False

    def _credentials(self, gssapi: Any) -> Any:
        """Return what the client logs in with; ``None`` for whatever Kerberos finds in the environment."""
        if self._keytab is None and self._client is None:
            return None
        name = self._client and gssapi.Name(self._client, name_type=gssapi.NameType.kerberos_principal)
        if self._keytab is None:
            return gssapi.Credentials(name=name, usage="initiate")
        # Tickets of this keytab and principal only, in memory: a login asks for one when the last one has expired.
        own = sha256(f"{self._keytab}\0{self._client}".encode()).hexdigest()[:16]
        store = {"client_keytab": f"FILE:{self._keytab}", "ccache": f"MEMORY:kafka-groups-{own}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store)


_FRESH = 60.0
"""Seconds after which the files are read again: certificates are renewed in place, and clients live for weeks."""


class TlsContext:
    """The TLS context of a client's connections, built in a thread when it is first needed."""

    def __init__(self, security: SecurityConfig) -> None:
        self._security = security
        self._lock = asyncio.Lock()
        self._context: ssl.SSLContext | None = None
        self._made_at = 0.0

    async def get(self) -> ssl.SSLContext | None:
        """Return the context, or ``None`` for a plain-text protocol.

        Raises ``ConfigurationError`` naming the certificate or key that cannot be read.
        """
        if not self._security.uses_tls:
            return None
        async with self._lock:
            if self._context is None or time.monotonic() - self._made_at > _FRESH:
                self._context = await asyncio.to_thread(self._security.ssl_context)
                self._made_at = time.monotonic()
            return self._context


_OF_CERTIFICATE = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA)")
_CERTIFICATE = (
    "the broker asks for a client certificate that it trusts: set ssl_certificate and ssl_private_key in the "
    "connection (of librdkafka: ssl.certificate.location and ssl.key.location, in PEM)"
)


def say(error: BaseException) -> str:
    """Return the text of an error with its type."""
    text = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLError) and _OF_CERTIFICATE.search(error.reason or ""):
        text += f"; {_CERTIFICATE}"
    return f"{text} ({type(error).__name__})" if type(error).__name__ not in text else text


def _why(error: Exception, security: SecurityConfig) -> str:
    if security.uses_tls and isinstance(error, ConnectionResetError):  # TLS servers end a handshake with an alert
        return (
            f"the server closed the connection instead of a TLS handshake; is this listener without TLS? ({say(error)})"
        )
    if isinstance(error, KafkaConnectionError) and isinstance(error.__cause__, asyncio.IncompleteReadError):
        return (
            "connected, but it hung up before it said which Kafka versions it speaks; is this a Kafka listener, and of "
            "this security protocol?"
        )
    return say(error.__cause__ or error)


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
        self._security = security
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
        return KerberosAuthenticator(self._security, loop=self._loop, principal=self.sasl_principal)


def _to_aiokafka(security: SecurityConfig) -> dict[str, Any]:
    """Return the security settings as arguments, except for the TLS context, which many connections share."""
    arguments: dict[str, Any] = {"security_protocol": security.protocol}
    if security.uses_sasl:
        if security.mechanism == "GSSAPI":
            require_kerberos(security)
        arguments |= {
            "sasl_mechanism": security.mechanism,
            "sasl_plain_username": security.username,
            "sasl_plain_password": security.password,
            "sasl_kerberos_service_name": security.kerberos_service or "kafka",
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


async def open_socket(
    host: str, port: int, *, security: SecurityConfig, client_id: str, timeout: float, tls: TlsContext
) -> OpeningConnection:
    """Open, authenticate and negotiate a connection, to be detached. Raises what ``open_connection`` raises."""
    address = f"{host}:{port}"
    connection = OpeningConnection(host, port, security, client_id=client_id, ssl_context=await tls.get())
    try:
        async with asyncio.timeout(timeout):
            await connection.connect()
    except KafkaGroupsError:
        raise  # the token source reports its own failure
    except UnsupportedSaslMechanismError:  # its text is the connection's repr
        problem = f"the listener does not offer the mechanism {security.mechanism}: choose another sasl.mechanism"
        raise AuthenticationFailedError(address, f"SASL authentication was refused: {problem}") from None
    except SaslAuthenticationFailed as error:
        raise AuthenticationFailedError(address, f"SASL authentication was refused: {say(error)}") from None
    except ssl.SSLError as error:
        raise AuthenticationFailedError(address, f"the TLS handshake failed: {say(error)}") from error
    except TimeoutError as error:
        problem = f"no Kafka broker answered within {timeout:g} s (wrong port, firewall, or TLS where none is?)"
        raise ConnectionFailedError(address, problem) from error
    except (KafkaError, OSError, AssertionError) as error:
        raise ConnectionFailedError(address, _why(error, security)) from error
    except Exception as error:  # e.g. an authenticator that cannot read an answer: its text may quote a token
        problem = f"the connection could not be opened: {type(error).__name__}"
        raise ConnectionFailedError(address, problem) from error
    finally:
        if not connection.connected():
            connection.close()
    return connection
