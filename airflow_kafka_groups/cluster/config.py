"""How to reach a cluster and how hard to push it: ``ClientConfig``, and its one parser of librdkafka settings.

librdkafka's names are the language of Kafka connections in Airflow (the official provider's ``kafka`` connections hold
them), so they are what ``from_librdkafka`` reads. Settings for consumers and producers are let through without a word;
what this client would need and cannot read is an error that names the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.transport.security import SecurityConfig

DEFAULT_PORT = 9092
_BATCH = 200
_LARGE_BATCH = 400
_MANY_GROUPS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Hold everything an ``AdminClient`` needs to know.

    :param bootstrap_servers: ``(host, port)`` of some brokers; the others are found through them.
    :param security: TLS and SASL settings. Default: plain text.
    :param client_id: name in the brokers' logs and quotas. Default ``airflow-kafka-groups``.
    :param connect_timeout: seconds to open and authenticate one connection. Default 10.
    :param request_timeout: seconds for one request. Default 30.
    :param api_timeout: seconds for a whole call, however many requests it takes. Default 60.
    :param batch_size: groups in one request, where the broker takes many. Default ``None``: 200, and 400 in calls of
        20,000 groups and more, which take a tenth less time so; in smaller ones the last requests would do too little.
    :param batches_in_flight: batched requests under way at each broker. Default 3.
    :param singles_in_flight: requests under way at a broker that takes one group a request. Default 256.
    :param route_by_hash: compute coordinators from the leaders of ``__consumer_offsets`` instead of asking for them; a
        wrong guess costs nothing, the broker says so and is asked. Default true.
    """

    bootstrap_servers: tuple[tuple[str, int], ...]
    security: SecurityConfig = field(default_factory=SecurityConfig)
    client_id: str = "airflow-kafka-groups"
    connect_timeout: float = 10.0
    request_timeout: float = 30.0
    api_timeout: float = 60.0
    batch_size: int | None = None
    batches_in_flight: int = 3
    singles_in_flight: int = 256
    route_by_hash: bool = True

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ConfigurationError("bootstrap.servers", None, "give at least one broker as host:port")
        for name in ("connect_timeout", "request_timeout", "api_timeout"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(name, getattr(self, name), "give a number of seconds above 0")
        for name in ("batch_size", "batches_in_flight", "singles_in_flight"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ConfigurationError(name, getattr(self, name), "give a whole number of at least 1")

    @property
    def servers(self) -> str:
        """Give the bootstrap servers as one text, as they are named in errors."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap_servers)

    def groups_in_request(self, groups: int) -> int:
        """Give how many groups a request of a call for so many groups takes."""
        return self.batch_size or (_LARGE_BATCH if groups >= _MANY_GROUPS else _BATCH)

    @classmethod
    def from_librdkafka(cls, settings: Mapping[str, Any], **overrides: Any) -> ClientConfig:
        """Read librdkafka settings.

        :param settings: e.g. ``{"bootstrap.servers": "b1:9092,b2:9092", "security.protocol": "SASL_SSL", …}``.
        :param overrides: fields of this class that librdkafka has no name for, e.g. ``api_timeout``.

        Raises ``ConfigurationError`` naming the setting, its value (not a secret's) and the remedy.
        """
        given = {key: value for key, value in settings.items() if value is not None and value != ""}
        fields: dict[str, Any] = {
            "bootstrap_servers": _servers(given.get("bootstrap.servers")),
            "security": _security(given),
        }
        if "client.id" in given:
            fields["client_id"] = str(given["client.id"])
        for name, field_name in _TIMEOUTS.items():
            if name in given:
                fields[field_name] = _milliseconds(name, given[name])
        return cls(**{**fields, **overrides})


_TIMEOUTS = {
    "request.timeout.ms": "request_timeout",
    "socket.timeout.ms": "request_timeout",
    "socket.connection.setup.timeout.ms": "connect_timeout",
    "default.api.timeout.ms": "api_timeout",
}
_PEM_SETTINGS = {
    "ssl.ca.location": "ca_file",
    "ssl.ca.pem": "ca_pem",
    "ssl.certificate.location": "certificate_file",
    "ssl.certificate.pem": "certificate_pem",
    "ssl.key.location": "key_file",
    "ssl.key.pem": "key_pem",
    "ssl.key.password": "key_password",
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.kerberos.service.name": "kerberos_service",
}


def _servers(value: object) -> tuple[tuple[str, int], ...]:
    if value is None:
        raise ConfigurationError("bootstrap.servers", None, "is missing; give at least one broker as host:port")
    if not isinstance(value, str):
        raise ConfigurationError("bootstrap.servers", value, "give a text such as b1:9092,b2:9092")
    servers = tuple(_server(part.strip()) for part in value.split(",") if part.strip())
    if not servers:
        raise ConfigurationError("bootstrap.servers", value, "give at least one broker as host:port")
    return tuple(dict.fromkeys(servers))


def _server(text: str) -> tuple[str, int]:
    _, _, without_scheme = text.rpartition("://")  # "PLAINTEXT://b1:9092" is accepted by librdkafka too
    if without_scheme.startswith("["):
        host, _, port = without_scheme[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = without_scheme.partition(":")
    if not host:
        raise ConfigurationError("bootstrap.servers", text, "the host is missing; give host:port")
    if not port:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigurationError("bootstrap.servers", text, "the port must be a number from 1 to 65535")
    return host, int(port)


def _milliseconds(name: str, value: object) -> float:
    try:
        seconds = float(str(value)) / 1000
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigurationError(name, value, "give a number of milliseconds above 0")
    return seconds


def _security(given: Mapping[str, Any]) -> SecurityConfig:
    fields: dict[str, Any] = {field: str(given[name]) for name, field in _PEM_SETTINGS.items() if name in given}
    if "security.protocol" in given:
        fields["protocol"] = str(given["security.protocol"]).upper()
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    if mechanism is not None:
        fields["sasl_mechanism"] = str(mechanism).upper()
    if "oauth_cb" in given:
        fields["oauth_token"] = _oauth(given["oauth_cb"], str(given.get("sasl.oauthbearer.config", "")))
        fields["oauth_extensions"] = _extensions(str(given.get("sasl.oauthbearer.extensions", "")))
    fields["check_hostname"] = str(given.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    fields["verify"] = _flag("enable.ssl.certificate.verification", given)
    return SecurityConfig(**fields)


def _flag(name: str, given: Mapping[str, Any]) -> bool:
    text = str(given.get(name, True)).lower()
    if text not in ("true", "false"):
        raise ConfigurationError(name, given[name], "give true or false")
    return text == "true"


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        if not (name.isascii() and name.isalpha() and equals and value.isascii() and value.isprintable()):
            raise ConfigurationError("sasl.oauthbearer.extensions", text, "write name=value,name=value")
    return {name: value for name, _, value in pairs}


def _oauth(callback: object, config: str) -> Callable[[], str]:
    if not callable(callback):
        raise ConfigurationError("oauth_cb", None, "must be a callable that returns (token, expiry in seconds)")
    call: Callable[[str], Any] = callback

    def token() -> str:
        answer = call(config)
        return str(answer[0] if isinstance(answer, tuple) else answer)

    return token
