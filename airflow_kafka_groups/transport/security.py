"""How to authenticate: security protocol, SASL and TLS. Never shows a secret in a repr or an error."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_kafka_groups.exceptions import ConfigurationError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Hold the security settings of a connection.

    :param protocol: one of ``SECURITY_PROTOCOLS``.
    :param sasl_mechanism: one of ``SASL_MECHANISMS``; needed for the SASL protocols.
    :param ca_file: path of the CA certificates (PEM); the system's own when neither it nor ``ca_pem`` is given.
    :param certificate_file: path of the client's certificate chain (PEM); ``certificate_pem`` for the text itself.
    :param check_hostname: whether the broker's certificate must bear its host name. Default true.
    :param verify: whether the broker's certificate is checked at all. Default true.
    :param oauth_token: gives an OAUTHBEARER token; called in a thread at each connection.
    :param oauth_extensions: what is sent beside the token, such as a cluster's id (RFC 7628).
    """

    protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    kerberos_service: str = "kafka"
    oauth_token: Callable[[], str] | None = field(default=None, repr=False)
    oauth_extensions: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    certificate_pem: str | None = field(default=None, repr=False)
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    verify: bool = True

    def __post_init__(self) -> None:
        if self.protocol not in SECURITY_PROTOCOLS:
            raise ConfigurationError("security.protocol", self.protocol, f"use one of {', '.join(SECURITY_PROTOCOLS)}")
        if self.uses_sasl:
            self._check_sasl()

    def _check_sasl(self) -> None:
        if self.sasl_mechanism not in SASL_MECHANISMS:
            raise ConfigurationError("sasl.mechanism", self.sasl_mechanism, f"use one of {', '.join(SASL_MECHANISMS)}")
        if self.sasl_mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            if not self.username:
                raise ConfigurationError("sasl.username", None, f"{self.sasl_mechanism} needs a user name")
            if not self.password:
                raise ConfigurationError("sasl.password", None, f"{self.sasl_mechanism} needs a password")
        if self.sasl_mechanism == "OAUTHBEARER" and self.oauth_token is None:
            raise ConfigurationError("oauth_cb", None, "OAUTHBEARER needs a callback that gives a token")

    @property
    def uses_sasl(self) -> bool:
        """Say whether SASL authenticates the connection."""
        return self.protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Say whether TLS encrypts the connection."""
        return self.protocol.endswith("SSL")

    def ssl_context(self) -> ssl.SSLContext | None:
        """Make the TLS context, or ``None`` for a plain-text protocol.

        Raises ``ConfigurationError`` naming the certificate or key that cannot be read.
        """
        if not self.uses_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_pem)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                "ssl.ca.location", self.ca_file, f"the CA certificates cannot be read: {error}"
            ) from error
        context.check_hostname = self.verify and self.check_hostname
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        self._load_certificate(context)
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        if not (self.certificate_file or self.certificate_pem):
            return
        with tempfile.TemporaryDirectory(
            prefix="kafka-groups-"
        ) as folder:  # mode 0700; Python reads keys from files only
            certificate = self.certificate_file or _write(folder, "certificate.pem", self.certificate_pem)
            key = self.key_file or (_write(folder, "key.pem", self.key_pem) if self.key_pem else None)
            try:
                # An empty password instead of none: OpenSSL would ask for it on the terminal otherwise.
                context.load_cert_chain(certificate, key, password=self.key_password or "")
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError(
                    "ssl.certificate.location",
                    self.certificate_file,
                    f"the client certificate or its key cannot be read (wrong key password?): {error}",
                ) from error


def _write(folder: str, name: str, text: str | None) -> str:
    path = Path(folder, name)
    path.write_text(text or "")
    return str(path)
