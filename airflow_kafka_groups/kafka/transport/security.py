"""The security settings of a Kafka connection, with certificates, keys and tokens: the one model of all forms.

``cluster.librdkafka`` parses and writes librdkafka's settings, ``cluster.java`` writes those of Java's client. Errors
use librdkafka's names. No secret is in a repr or an error.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConfigurationError,
    ConnectionFailedError,
    KafkaGroupsError,
)
from airflow_kafka_groups.storage.disk import LARGEST, read_local

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI")
_MSK_IAM = (
    "write OAUTHBEARER as sasl.mechanism: the tokens for Amazon MSK are then made by the package "
    "aws-msk-iam-sasl-signer-python"
)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting

Token = tuple[str, float]
"""A token, and when it expires, in seconds since 1970."""

_UNKNOWN_LIFETIME = 300.0
"""Seconds that a token is used for if its callback does not return when it expires."""

_ENDPOINT = re.compile(r"https?://([\w.-]+|\[[\w.:]+\])(:\d+)?([/?][!-~]*)?", re.ASCII)

EARLY_SECONDS = 60.0
_HTTP_SECONDS = 10.0
_REFUSED = (400, 401, 403)  # asking again does not help

PEM_MARK = "-----BEGIN"
"""How every text of a key or certificate begins."""
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_WIDTH = 64
_BARE_PEM = re.compile(r"[A-Za-z0-9+=\s][A-Za-z0-9+/=\s]{63,}")
"""What stands between the first and the last line of a PEM text; a long absolute path is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates or a key in PEM: the text itself, or the path of a file that holds it.

    :param name: librdkafka's prefix of the two settings, such as ``ssl.ca``.
    """

    name: str
    location: str | None = None
    text: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text and pem_lines(self.text))
        # Errors show paths, and what was pasted here may be a private key.
        if self.location and PEM_MARK in self.location:
            raise ConfigurationError(f"{self.name}.location", None, f"is a PEM text: write it as {self.name}.pem")
        if self.location and _BARE_PEM.fullmatch(self.location):
            raise ConfigurationError(
                f"{self.name}.location", None, f"is neither a path nor a PEM text, which begins with {PEM_MARK}"
            )

    def __bool__(self) -> bool:
        return bool(self.location or self.text)

    @property
    def setting(self) -> str:
        """The setting that was given, as errors name it."""
        return f"{self.name}.{'pem' if self.text else 'location'}"

    def read(self) -> str | None:
        """Return the text, read from the file if need be; ``None`` if neither is set.

        Raises ``ConfigurationError`` naming the file that cannot be read.
        """
        if self.text or not self.location:
            return self.text
        try:
            return read_local(Path(self.location), most=LARGEST).decode("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is not a PEM file"
            raise ConfigurationError(f"{self.name}.location", self.location, f"cannot be read: {reason}") from None

    def embedded(self) -> Pem:
        """Return the same with its text, for a reader that does not have the file."""
        return Pem(name=self.name, text=self.read())

    @contextmanager
    def as_file(self) -> Iterator[str | None]:
        """Provide a path: OpenSSL reads certificates and keys from files only. What is pasted is kept in memory."""
        if self.location or not self.text:
            yield self.location
            return
        memory = os.memfd_create(self.name)
        try:
            with os.fdopen(memory, "w", encoding="utf-8", closefd=False) as file:
                file.write(self.text)
            yield f"/proc/self/fd/{memory}"
        finally:
            os.close(memory)


def pem_lines(text: str) -> str:
    r"""Return PEM as OpenSSL reads it, of a string that lost its lines: it is on one, indented, or has ``\n`` in it."""

    def lines(block: re.Match[str]) -> str:
        kind, body = block.groups()
        given = [line.strip() for line in body.strip().splitlines()]
        if ":" not in body:  # the header of an encrypted key has lines of its own
            joined = "".join(body.split())
            given = [joined[at : at + _PEM_WIDTH] for at in range(0, len(joined), _PEM_WIDTH)]
        return "\n".join((f"-----BEGIN {kind}-----", *given, f"-----END {kind}-----\n"))

    # What stands between the blocks is left out: Python takes CA certificates in ASCII only.
    return "".join(map(lines, _PEM_BLOCK.finditer(text.replace("\\r", "").replace("\\n", "\n")))) or text


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """An OAuth 2 token endpoint and the client's credentials for it (RFC 6749, 4.4).

    :param url: where it is; some take a key in the query, which is shown nowhere.
    :param ca: CA certificates for the endpoint. Default: the system's own.
    """

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    ca: Pem = Pem(name="https.ca")

    def __post_init__(self) -> None:
        if not _ENDPOINT.fullmatch(self.url):  # a user and password may stand in it: it is not shown
            raise ConfigurationError(TOKEN_URL, None, "write a URL such as https://host/token, without a user")
        if not self.client_id or not self.client_secret:
            names = "sasl.oauthbearer.client.id and .client.secret"
            raise ConfigurationError(names, None, "a token endpoint needs both (login and password)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """The source of OAUTHBEARER tokens.

    :param callback: a function that returns a token and when it expires, or its import path.
    :param callback_config: the argument of ``callback`` (``sasl.oauthbearer.config``).
    :param endpoint: where tokens are requested when there is no callback.
    :param extensions: sent with the token, such as a cluster's id (RFC 7628).
    :param source: the function to call; set by ``SecurityConfig.with_tokens``.
    """

    callback: Callable[[str], Any] | str | None = field(default=None, repr=False)
    callback_config: str = field(default="", repr=False)
    endpoint: TokenEndpoint | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    source: Callable[[str], Any] | None = field(default=None, repr=False)

    def token(self) -> Token:
        """Request a token. It blocks: call it in a thread. Raises ``KafkaGroupsError``."""
        if self.source is None:
            raise ConfigurationError("oauth_cb", None, "OAUTHBEARER needs a source of tokens")
        try:
            answer = self.source(self.callback_config)
            if isinstance(answer, tuple):
                return str(answer[0]), float(answer[1])
        except KafkaGroupsError:
            raise
        except Exception as error:  # noqa: BLE001 - anybody's code: its text may quote a secret, as may that of a cause
            failed = f"the connection could not be opened: {type(error).__name__} in the source of tokens"
            raise ConnectionFailedError("oauth_cb", f"{failed}; call it by itself to see its text") from None
        return str(answer), time.time() + _UNKNOWN_LIFETIME


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """The security settings of a connection. Those of TLS and of a login count with such a protocol only.

    :param protocol: one of ``SECURITY_PROTOCOLS``.
    :param ca: CA certificates. Default: the system's own.
    :param certificate: the client's certificate chain.
    :param key: its private key. Default: it is in the same file as the certificate.
    :param check_hostname: whether the broker's certificate must name its host. Default true.
    :param verify: whether the broker's certificate is checked at all. Default true.
    :param mechanism: one of ``SASL_MECHANISMS``.
    :param kerberos_service: the brokers' Kerberos service. Default ``kafka``.
    :param kerberos_keytab: a file with the client's keys. Default: the ticket or keytab of the process' environment.
    :param kerberos_principal: whom to log in as. Default: the keytab's first principal, or the ticket's.
    :param oauth: the source of tokens; only for the mechanism OAUTHBEARER.
    :param filled: the fields that the user filled, by the settings that they became: errors name those.
    """

    protocol: str = "PLAINTEXT"
    ca: Pem = Pem(name="ssl.ca")
    certificate: Pem = Pem(name="ssl.certificate")
    key: Pem = Pem(name="ssl.key")
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    verify: bool = True
    mechanism: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    kerberos_service: str | None = None
    kerberos_keytab: str | None = None
    kerberos_principal: str | None = None
    oauth: OAuthConfig | None = None
    filled: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.protocol not in SECURITY_PROTOCOLS:
            raise ConfigurationError("security.protocol", self.protocol, f"use one of {', '.join(SECURITY_PROTOCOLS)}")
        if not self.uses_sasl:
            return
        if self.mechanism not in SASL_MECHANISMS:
            remedy = _MSK_IAM if self.mechanism == "AWS_MSK_IAM" else f"use one of {', '.join(SASL_MECHANISMS)}"
            raise ConfigurationError("sasl.mechanism", self.mechanism or None, remedy)
        if self.mechanism in PASSWORD_MECHANISMS:
            for name, value, what in (
                ("username", self.username, "user name"),
                ("password", self.password, "password"),
            ):
                if not value:
                    raise ConfigurationError(f"sasl.{name}", None, f"{self.mechanism} needs a {what}")

    @property
    def uses_sasl(self) -> bool:
        """Whether SASL authenticates the connection."""
        return self.protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether TLS encrypts the connection."""
        return self.protocol.endswith("SSL")

    def with_tokens(self, source: Callable[[str], Any]) -> SecurityConfig:
        """Return the same with a function that returns tokens."""
        return replace(self, oauth=replace(self.oauth or OAuthConfig(), source=source))

    def embedded(self) -> SecurityConfig:
        """Return the same with the contents of all PEM files, for a process that does not have the files."""
        oauth = self.oauth
        with naming(self.filled):
            if oauth and oauth.endpoint:
                oauth = replace(oauth, endpoint=replace(oauth.endpoint, ca=oauth.endpoint.ca.embedded()))
            names = ("ca", "certificate", "key") if self.uses_tls else ()
            return replace(self, oauth=oauth, **{name: getattr(self, name).embedded() for name in names})

    def ssl_context(self) -> ssl.SSLContext | None:
        """Build the TLS context, or ``None`` for a plain-text protocol.

        Raises ``ConfigurationError`` naming the certificate or key that cannot be read.
        """
        with naming(self.filled):
            return self._tls_context() if self.uses_tls else None

    def _tls_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca.location, cadata=self.ca.text)
        except OSError as error:  # an SSLError is one
            remedy = f"the CA certificates cannot be read: {error}"
            raise ConfigurationError(self.ca.setting, self.ca.location, remedy) from error
        context.check_hostname = self.verify and self.check_hostname
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        with self.certificate.as_file() as certificate, self.key.as_file() as key:
            if certificate is None:
                if key is not None:
                    raise ConfigurationError(self.key.setting, None, "is a key without a certificate: set that, too")
                return context
            try:
                # An empty password instead of none: OpenSSL would ask for it on the terminal otherwise.
                context.load_cert_chain(certificate, key, password=self.key_password or "")
            except OSError as error:
                remedy = f"the client certificate, or its key ({self.key.setting}), cannot be read"
                remedy += f" (wrong key password?): {error}"
                raise ConfigurationError(self.certificate.setting, self.certificate.location, remedy) from error
        return context


@contextmanager
def naming(filled: Mapping[str, str]) -> Iterator[None]:
    """Let a ``ConfigurationError`` name the field that the user filled, and not the setting that it became."""
    try:
        yield
    except ConfigurationError as error:
        error.rename(filled.get(error.field, error.field))
        raise


class CachedToken:
    """A source of tokens that caches the token until shortly before it expires. Thread-safe.

    :param source: returns a token and when it expires; its argument is ``sasl.oauthbearer.config``.
    """

    def __init__(self, source: Callable[[str], Any]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._token: Token = ("", 0.0)

    def __call__(self, config: str) -> Token:
        """Return the cached token or request a new one."""
        with self._lock:
            if self._token[1] - time.time() < EARLY_SECONDS:
                token, expires_at, *_ = self._source(config)
                self._token = (str(token), float(expires_at))
            return self._token


def client_credentials(endpoint: TokenEndpoint) -> Callable[[str], Token]:
    """Return a function that requests a token with the client's id and secret (RFC 6749, 4.4)."""
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    basic = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - TokenEndpoint has checked the scheme
        endpoint.url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {basic}", "Accept": "application/json"},
    )
    return lambda config: _request_token(request, endpoint.ca)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that makes a redirect an error: urllib would send the client's secret to the host that it names."""

    def redirect_request(self, *_: object) -> None:
        """Return no request to follow."""


def _request_token(request: urllib.request.Request, ca: Pem) -> Token:
    url = request.full_url.partition("?")[0]
    try:
        context = ssl.create_default_context(cafile=ca.location, cadata=ca.text)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects)
        with opener.open(request, timeout=_HTTP_SECONDS) as response:
            answer = json.load(response)
        return str(answer["access_token"]), time.time() + float(answer.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        answered = f"the token endpoint answered {error.code} {error.reason}"
        if error.code not in _REFUSED:
            raise ConnectionFailedError(url, answered) from None
        raise AuthenticationFailedError(url, answered) from None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        # The answer itself is not shown: it may hold a token.
        raise ConnectionFailedError(url, f"the token endpoint gave no token ({type(error).__name__})") from None
