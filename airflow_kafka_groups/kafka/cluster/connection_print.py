"""The fingerprint of a connection: hashes of its servers and of who logs in. No secret enters either."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.security import SecurityConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPrint:
    """The fingerprint of a connection.

    :param servers: SHA-256 of its bootstrap servers, in lower case and sorted.
    :param identity: SHA-256 of who logs in: user, principal, client id or certificate's subject; of nothing otherwise.
    """

    servers: str
    identity: str

    @classmethod
    def of(cls, config: ClientConfig) -> ConnectionPrint:
        """Return the fingerprint of a client's configuration."""
        servers = sorted({f"{host.lower().rstrip('.')}:{port}" for host, port in config.bootstrap_servers})
        return cls(servers=sha256_of(",".join(servers)), identity=sha256_of(_identity(config.security)))


def _identity(security: SecurityConfig) -> str:
    """Return who logs in. Never a secret."""
    sasl = security.sasl
    if sasl is not None and security.uses_sasl:
        if (oauth := security.oauth) is not None:
            client = oauth.endpoint.client_id if oauth.endpoint is not None else ""
            return f"client:{client} {sorted(oauth.extensions.items())}"
        return f"user:{sasl.username or sasl.kerberos_principal or ''}"
    if security.uses_tls and security.tls.certificate:
        return f"certificate:{_subject(security)}"
    return ""


def _subject(security: SecurityConfig) -> str:
    """Return whom the client's certificate is about; a renewed one has the same subject."""
    from cryptography import x509

    with suppress(ConfigurationError, ValueError):
        pem = security.tls.certificate.read() or ""
        return x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()
    return ""


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a string, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
