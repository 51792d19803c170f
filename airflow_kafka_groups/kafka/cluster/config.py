"""How to reach a cluster and how hard to push it; and a fingerprint of that, which holds no secret."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from airflow_kafka_groups.checks import check_integer, check_seconds
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.librdkafka import Servers, format_servers, parse_librdkafka
from airflow_kafka_groups.kafka.transport.security import (
    CachedToken,
    OAuthConfig,
    SecurityConfig,
    client_credentials,
    naming,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The configuration of an ``AdminClient``.

    :param bootstrap_servers: ``(host, port)`` of some brokers; the others are found through them.
    :param security: TLS and SASL settings. Default: plain text.
    :param client_id: name in the brokers' logs and quotas. Default ``airflow-kafka-groups``.
    :param connect_timeout: seconds to open and authenticate one connection. Default 10.
    :param request_timeout: seconds for one request. Default 30.
    :param api_timeout: seconds for a complete call, however many requests it takes; of a stream for each 50,000 groups,
        without the time that the caller takes with them. Default 60.
    :param batch_size: groups in one request, where the broker takes many. Default ``None``: 220, and 400 in calls of
        20,000 groups and more, which saves a tenth of the time there.
    :param batches_in_flight: batched requests in flight at each broker. Default 3.
    :param singles_in_flight: requests in flight at a broker that takes one group a request. Default 256.
    :param commit_connections: the most connections to each broker for commits of many groups: a broker works on one
        request of a connection at a time, and OffsetCommit takes one group a request. Default 64.
    :param route_by_hash: compute coordinators from the leaders of ``__consumer_offsets`` instead of asking for them; a
        wrong guess costs nothing: the broker reports it and is asked. Default true.
    """

    bootstrap_servers: Servers
    security: SecurityConfig = field(default_factory=SecurityConfig)
    client_id: str = "airflow-kafka-groups"
    connect_timeout: float = 10.0
    request_timeout: float = 30.0
    api_timeout: float = 60.0
    batch_size: int | None = None
    batches_in_flight: int = 3
    singles_in_flight: int = 256
    commit_connections: int = 64
    route_by_hash: bool = True

    def __post_init__(self) -> None:
        servers: object = self.bootstrap_servers
        if not (servers and isinstance(servers, list | tuple) and all(map(_is_server, servers))):
            remedy = 'give (("b1", 9092),), or ClientConfig.from_librdkafka({"bootstrap.servers": "b1:9092"})'
            raise ConfigurationError("bootstrap_servers", None, remedy)  # a password may stand in it
        for name in ("connect_timeout", "request_timeout", "api_timeout"):
            check_seconds(name, getattr(self, name))
        for name in ("batch_size", "batches_in_flight", "singles_in_flight", "commit_connections"):
            given = getattr(self, name)
            if given is not None or name != "batch_size":
                check_integer(name, given, 1, "must be a whole number of at least 1")

    @property
    def servers(self) -> str:
        """The bootstrap servers as one string, as errors name them."""
        return format_servers(self.bootstrap_servers)

    @classmethod
    def from_librdkafka(
        cls, settings: Mapping[str, Any], *, token_source: TokenSource | None = None, **overrides: Any
    ) -> ClientConfig:
        """Parse librdkafka settings.

        :param settings: e.g. ``{"bootstrap.servers": "b1:9092,b2:9092", "security.protocol": "SASL_SSL", …}``.
        :param token_source: chooses the function that returns OAUTHBEARER tokens. Default: ``oauth_cb``, which has to
            be a function, or else the client credentials of a token endpoint.
        :param overrides: fields of this class that librdkafka has no name for, e.g. ``api_timeout``, and ``filled``.

        Raises ``ConfigurationError`` naming the setting, its value (never a secret) and the remedy.
        """
        config = cls.parse(settings, **overrides)
        if config.security.oauth is None:
            return config
        source = (token_source or _token_source)(config)
        return replace(config, security=config.security.with_tokens(source))

    @classmethod
    def parse(
        cls, settings: Mapping[str, Any], *, filled: Mapping[str, str] = MappingProxyType({}), **overrides: Any
    ) -> ClientConfig:
        """Parse settings as ``from_librdkafka`` does, for a renderer: no source of tokens is chosen.

        :param filled: the fields that the user filled, by the settings that they became: errors name those.
        """
        with naming(filled):
            config = cls(**{**parse_librdkafka(settings), **overrides})
        return replace(config, security=replace(config.security, filled=filled))


def _is_server(given: object) -> bool:
    match given:
        case (str(), int()):
            return True
    return False


TokenSource = Callable[[ClientConfig], Callable[[str], Any]]


def _token_source(config: ClientConfig) -> Callable[[str], Any]:
    oauth = config.security.oauth or OAuthConfig()
    if callable(oauth.callback):
        return oauth.callback
    if oauth.endpoint is not None:
        return CachedToken(client_credentials(oauth.endpoint))
    raise ConfigurationError(
        "oauth_cb", None, "OAUTHBEARER needs a callable that returns (token, expiry in seconds), or a token endpoint"
    )


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
        """Return the fingerprint of a configuration."""
        servers = sorted({f"{host.lower().rstrip('.')}:{port}" for host, port in config.bootstrap_servers})
        return cls(servers=sha256_of(",".join(servers)), identity=sha256_of(_identity(config.security)))


def _identity(security: SecurityConfig) -> str:
    """Return who logs in. Never a secret."""
    if security.uses_sasl:
        if (oauth := security.oauth) is not None:
            client = oauth.endpoint.client_id if oauth.endpoint is not None else ""
            return f"client:{client} {sorted(oauth.extensions.items())}"
        return f"user:{security.username or security.kerberos_principal or ''}"
    if security.uses_tls and security.certificate:
        return f"certificate:{_subject(security)}"
    return ""


def _subject(security: SecurityConfig) -> str:
    """Return whom the client's certificate is about; a renewed one has the same subject."""
    from cryptography import x509

    with suppress(ConfigurationError, ValueError):
        pem = security.certificate.read() or ""
        return x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()
    return ""


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a string, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
