"""The security settings of a Kafka connection: one model, whichever form they came in.

``cluster.librdkafka`` parses settings into it. Renderers write it as the settings of aiokafka
(``transport.aiokafka_connection``), of librdkafka (``cluster.librdkafka``) and of Kafka's Java client
(``kafka.cluster.java``). Errors use librdkafka's names. No secret is in a repr or an error.

``private_folder`` makes folders for files with secrets, which do not outlive the process that made them. It removes its
folder however the block is left, and two things do so after ``kill -9``:

1. A guard, a shell that waits for the end of a pipe from this process, and removes the folder then. It is in a session
   of its own, so what kills this process's group does not kill it.
2. Where the guard was killed too (a container out of memory), the next folder of the same user: each folder has a file
   that its process holds locked, and a folder whose lock is free is nobody's. A process id would not do: it may have
   been given to another process, or be of another container with the same ``/tmp``.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError, KafkaGroupsError
from airflow_kafka_groups.kafka.transport.pem import Pem, file_of, has_certificate

PREFIX = "kafka-groups-private-"
_LOCK = ".lock"
_GUARD = 'trap "" HUP INT TERM; while read -r _; do :; done; rm -rf -- "$1"'


@contextmanager
def private_folder(*, guarded: bool = True) -> Iterator[Path]:
    """Provide a new folder that only this user can enter (mode 0700), and remove it afterwards.

    :param guarded: start the guard, and remove what dead processes left. Default true; without it, for files that are
        there for a moment only, the next guarded folder removes what a killed process left.
    """
    if guarded:
        remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = _lock(folder)
    guard = _start_guard(folder) if guarded else None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        if guard is not None:
            guard.kill()
            guard.communicate()


def remove_leftovers() -> None:
    """Remove the folders of this user whose processes are dead."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone, locked, or not ours
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            # A folder without a lock is being made right now.
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


def _lock(folder: Path) -> int:
    """Lock the folder for as long as this process lives. The lock has its name only when it is held."""
    making = folder / f"{_LOCK}-new"
    lock = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    making.rename(folder / _LOCK)
    return lock


def _start_guard(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the folder is an argument, not part of the script
        ["/bin/sh", "-c", _GUARD, "kafka-groups-guard", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.environ.get("PATH", os.defpath)},
        start_new_session=True,
    )


SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI")
MSK_IAM = (
    "write OAUTHBEARER as sasl.mechanism: the tokens for Amazon MSK are then made by the package "
    "aws-msk-iam-sasl-signer-python"
)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a setting

Token = tuple[str, float]
"""A token, and when it expires, in seconds since 1970."""

_UNKNOWN_LIFETIME = 300.0
"""Seconds that a token is used for if its callback does not return when it expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS settings.

    :param ca: CA certificates. Default: the system's own.
    :param certificate: the client's certificate chain.
    :param key: its private key. Default: it is in the same file as the certificate.
    :param check_hostname: whether the broker's certificate must name its host. Default true.
    :param verify: whether the broker's certificate is checked at all. Default true.
    :param cipher_suites: for librdkafka and Java only.
    :param keystore: path of a PKCS#12 key store, for librdkafka and Java only.
    """

    ca: Pem = field(default_factory=lambda: Pem(name="ssl.ca"))
    certificate: Pem = field(default_factory=lambda: Pem(name="ssl.certificate"))
    key: Pem = field(default_factory=lambda: Pem(name="ssl.key"))
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    verify: bool = True
    cipher_suites: str | None = None
    keystore: str | None = None
    keystore_password: str | None = field(default=None, repr=False)

    def embedded(self) -> TlsConfig:
        """Return the same with the contents of all PEM files."""
        return replace(self, ca=self.ca.embedded(), certificate=self.certificate.embedded(), key=self.key.embedded())

    def context(self) -> ssl.SSLContext:
        """Build the TLS context. Raises ``ConfigurationError`` naming the certificate or key that cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self.ca.location, cadata=self.ca.text)
        except OSError as error:  # an SSLError is one
            raise ConfigurationError(
                self.ca.setting, self.ca.location, f"the CA certificates cannot be read: {error}"
            ) from error
        context.check_hostname = self.verify and self.check_hostname
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            self._load_certificate(context)
        elif self.key:
            raise ConfigurationError(self.key.setting, None, "is a key without a certificate: set that, too")
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        with private_folder(guarded=False) as folder:  # ssl reads keys from files only
            certificate, key = (file_of(pem, folder) for pem in (self.certificate, self.key))
            assert certificate is not None  # noqa: S101 - the caller has checked it
            try:
                # An empty password instead of none: OpenSSL would ask for it on the terminal otherwise.
                context.load_cert_chain(certificate, key, password=self.key_password or "")
            except OSError as error:
                blamed = self.key if self.key and has_certificate(certificate) else self.certificate
                raise ConfigurationError(
                    blamed.setting,
                    blamed.location,
                    f"the client certificate or its key cannot be read (wrong key password?): {error}",
                ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """An OAuth 2 token endpoint and the client's credentials for it (RFC 6749, 4.4).

    :param url: where it is; some take a key in the query, which is shown nowhere.
    :param ca: CA certificates for the endpoint. Default: the system's own.
    """

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    ca: Pem = field(default_factory=lambda: Pem(name="https.ca"))

    def __post_init__(self) -> None:
        try:
            parts = urllib.parse.urlsplit(self.url)
            _ = parts.port  # in https://me:a/b@host/token, the password's beginning is one
        except ValueError:  # its text may quote a user and password
            raise ConfigurationError(TOKEN_URL, None, "is no URL, such as https://host/token") from None
        if "@" in (parts.netloc or self.url):  # a secret may stand before it, also of one with a slash too few
            raise ConfigurationError(TOKEN_URL, None, "write it without a user (login, password)")
        if parts.scheme not in ("https", "http"):
            raise ConfigurationError(TOKEN_URL, self.url.partition("?")[0], "must be a URL such as https://host/token")
        if not self.client_id or not self.client_secret:
            raise ConfigurationError(
                "sasl.oauthbearer.client.id and .client.secret",
                None,
                "a token endpoint needs both (login and password)",
            )


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
class SaslConfig:
    """SASL settings.

    :param mechanism: one of ``SASL_MECHANISMS``.
    :param kerberos_service: the brokers' Kerberos service. Default ``kafka``.
    :param kerberos_keytab: a file with the client's keys. Default: the ticket or keytab of the process' environment.
    :param kerberos_principal: whom to log in as. Default: the keytab's first principal, or the ticket's.
    """

    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    kerberos_service: str = "kafka"
    kerberos_keytab: str | None = None
    kerberos_principal: str | None = None
    oauth: OAuthConfig = field(default_factory=OAuthConfig)

    def __post_init__(self) -> None:
        check_mechanism("sasl.mechanism", self.mechanism)
        if self.mechanism in PASSWORD_MECHANISMS:
            if not self.username:
                raise ConfigurationError("sasl.username", None, f"{self.mechanism} needs a user name")
            if not self.password:
                raise ConfigurationError("sasl.password", None, f"{self.mechanism} needs a password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """The security settings of a connection.

    :param protocol: one of ``SECURITY_PROTOCOLS``.
    :param tls: used by the SSL protocols.
    :param sasl: required by the SASL protocols.
    :param filled: the fields that the user filled, by the settings that they became: errors name those.
    """

    protocol: str = "PLAINTEXT"
    tls: TlsConfig = field(default_factory=TlsConfig)
    sasl: SaslConfig | None = None
    filled: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.protocol not in SECURITY_PROTOCOLS:
            raise ConfigurationError("security.protocol", self.protocol, f"use one of {', '.join(SECURITY_PROTOCOLS)}")
        if self.uses_sasl and self.sasl is None:
            raise ConfigurationError("sasl.mechanism", None, f"use one of {', '.join(SASL_MECHANISMS)}")

    @property
    def uses_sasl(self) -> bool:
        """Whether SASL authenticates the connection."""
        return self.protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether TLS encrypts the connection."""
        return self.protocol.endswith("SSL")

    @property
    def oauth(self) -> OAuthConfig | None:
        """The source of tokens, if the connection authenticates with tokens."""
        return self.sasl.oauth if self.sasl and self.uses_sasl and self.sasl.mechanism == "OAUTHBEARER" else None

    def with_tokens(self, source: Callable[[str], Any]) -> SecurityConfig:
        """Return the same with a function that returns tokens."""
        assert self.sasl is not None  # noqa: S101 - only called where ``oauth`` is set
        return replace(self, sasl=replace(self.sasl, oauth=replace(self.sasl.oauth, source=source)))

    def embedded(self) -> SecurityConfig:
        """Return the same with the contents of all PEM files, for a process that does not have the files."""
        sasl = self.sasl
        with naming(self.filled):
            if (oauth := self.oauth) and oauth.endpoint and sasl:
                endpoint = replace(oauth.endpoint, ca=oauth.endpoint.ca.embedded())
                sasl = replace(sasl, oauth=replace(oauth, endpoint=endpoint))
            return replace(self, sasl=sasl, tls=self.tls.embedded() if self.uses_tls else self.tls)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Build the TLS context, or ``None`` for a plain-text protocol.

        Raises ``ConfigurationError`` naming the certificate or key that cannot be read.
        """
        with naming(self.filled):
            return self.tls.context() if self.uses_tls else None


@contextmanager
def naming(filled: Mapping[str, str]) -> Iterator[None]:
    """Let a ``ConfigurationError`` name the field that the user filled, and not the setting that it became."""
    try:
        yield
    except ConfigurationError as error:
        error.rename(filled.get(error.field, error.field))
        raise


def check_mechanism(name: str, mechanism: str) -> None:
    """Raise ``ConfigurationError`` for a mechanism that is not supported."""
    if mechanism not in SASL_MECHANISMS:
        remedy = MSK_IAM if mechanism == "AWS_MSK_IAM" else f"use one of {', '.join(SASL_MECHANISMS)}"
        raise ConfigurationError(name, mechanism or None, remedy)
