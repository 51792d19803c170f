"""An Airflow connection as librdkafka properties and this package's own switches. Only sources of tokens need Airflow.

The connection form enforces nothing but types, and sends ``null`` for a field that was left empty: ``null`` and "" mean
unset. A field that cannot be understood is an error, never a default: a misspelt or unreadable ``read_only`` must not
become "may delete". No message of this module holds a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.arguments import parse_object, read_duration, read_flag, read_integer
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import DEFAULT_PORT, check_java_names, format_servers, parse_servers
from airflow_kafka_groups.kafka.cluster.products import is_google
from airflow_kafka_groups.kafka.models import LEASE_GROUP_ID
from airflow_kafka_groups.kafka.transport.security import (
    PEM_MARK,
    TOKEN_URL,
    CachedToken,
    OAuthConfig,
    Token,
    client_credentials,
)
from airflow_kafka_groups.observe.patterns import (
    DEFAULT_PROTECTED,
    check_patterns,
    protecting,
    spellings_of,
    split_patterns,
)

if TYPE_CHECKING:
    from airflow.sdk import Connection

OWN_FIELDS = ("read_only", "protected_groups", "lease_group_prefix", "floors")
"""The fields that a connection of the official provider may have beside librdkafka properties."""

_LOOKS_LIKE = 0.85  # a similarity from 0 to 1: about one wrong letter in eight
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,100}")

CONN_TYPE = "kafka_groups"
OFFICIAL_CONN_TYPE = "kafka"

_SINGLES_FOR_A_BATCH = 64
_CONNECTIONS_FOR_A_BATCH, _MOST_CONNECTIONS = 20, 64
_USER = {"login": "sasl.username", "password": "sasl.password"}
_CLIENT = {"login": "sasl.oauthbearer.client.id", "password": "sasl.oauthbearer.client.secret"}
_OAUTH_FIELDS = {
    "oauth_token_url": TOKEN_URL,
    "oauth_scope": "sasl.oauthbearer.scope",
    "oauth_extensions": "sasl.oauthbearer.extensions",
}
_TEXT_FIELDS = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "client_id": "client.id",
    "ssl_key_password": "ssl.key.password",
    **_OAUTH_FIELDS,
}
"""The fields of the form that are a property of another name."""
_PEM_FIELDS = {"ssl_ca_certificate": "ssl.ca", "ssl_certificate": "ssl.certificate", "ssl_private_key": "ssl.key"}
_MADE_OF = {made: name for name, made in (_TEXT_FIELDS | _USER).items()}
_MADE_OF |= {f"{made}.{kind}": name for name, made in _PEM_FIELDS.items() for kind in ("pem", "location")}
_OTHER_FIELDS = ("request_timeout_seconds", "api_timeout_seconds", "parallelism", "properties", *OWN_FIELDS)
EXTRA_FIELDS = frozenset({*_TEXT_FIELDS, *_PEM_FIELDS, *_OTHER_FIELDS})

_MSK_SERVER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?(?=$|[,\s])", re.I)
_NO_TOKENS = (
    "OAUTHBEARER needs to know where tokens come from: give sasl.oauthbearer.token.endpoint.url with "
    "sasl.oauthbearer.client.id and .client.secret, or an oauth_cb that [apache_kafka] callback_allowlist names. "
    "Servers of Amazon MSK and Google Managed Kafka need neither"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The settings of a connection. The properties stay out of ``repr``: they hold secrets.

    :param limits: fields of ``ClientConfig`` that the connection gives, such as ``request_timeout`` in seconds.
    :param filled: the fields of the form, by the properties that they became: errors name those.
    :param read_only: refuse every call that changes something.
    :param protected_groups: names or patterns (``connect-*``) of groups that must not be changed.
    :param lease_group_prefix: what the name of the group that stands for the lease begins with. Default: nothing.
    :param floors: limits of every clean-up through this connection, see ``hooks.floors``. Default: none.
    """

    conn_id: str
    properties: Mapping[str, Any] = field(repr=False)
    limits: Mapping[str, float] = field(default_factory=dict)
    filled: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    protected_groups: tuple[str, ...] = ()
    lease_group_prefix: str = ""
    floors: Mapping[str, Any] = field(default_factory=dict)

    def client_config(self) -> ClientConfig:
        """Build the client's configuration. Raises ``ConfigurationError`` naming the invalid field."""
        return ClientConfig.from_librdkafka(
            self.properties, token_source=airflow_token_source, filled=self.filled, **self.limits
        )

    def parse(self) -> ClientConfig:
        """Build the same for a renderer: no source of tokens is chosen."""
        return ClientConfig.parse(self.properties, filled=self.filled, **self.limits)

    @property
    def lease_group_id(self) -> str:
        """The group whose lease is the right to delete on this cluster."""
        return self.lease_group_prefix + LEASE_GROUP_ID

    def protects(self, group_id: str) -> bool:
        """Return whether the connection protects this group; it always protects the lease's group."""
        if group_id == self.lease_group_id:
            return True
        return bool(self.protected_groups) and protecting(self.protected_groups).protects(group_id)

    @property
    def kept_patterns(self) -> tuple[str, ...]:
        """The patterns of platform groups, and of those that the connection protects."""
        return (*DEFAULT_PROTECTED, *self.protected_groups)

    def require_writable(self, *group_ids: str) -> None:
        """Raise ``ConfigurationError`` if the connection is read-only, or protects one of these groups."""
        if self.read_only:
            remedy = "is read-only: use another connection, or turn off its read_only"
            raise ConfigurationError(f"connection {self.conn_id!r}", None, remedy)
        for group_id in filter(self.protects, group_ids):
            raise self.protected_error(group_id)

    def refusals(self, group_ids: Iterable[str]) -> dict[str, KafkaGroupsError]:
        """Return the protected groups with their errors, as a ``ChangePolicy``; raise when read-only."""
        self.require_writable()
        return {group_id: self.protected_error(group_id) for group_id in group_ids if self.protects(group_id)}

    def protected_error(self, group_id: str) -> ConfigurationError:
        """Return the error of a protected group."""
        return ConfigurationError("group", group_id, f"is protected by connection {self.conn_id!r} (protected_groups)")


def read_connection(connection: Connection) -> ConnectionSettings:
    """Translate a connection of type ``kafka_groups`` or ``kafka`` (the official provider's)."""
    extra = _extra_of(connection)
    if connection.conn_type == OFFICIAL_CONN_TYPE:
        return read_official(connection.conn_id, extra)
    if connection.conn_type == CONN_TYPE:
        return _read_own(connection, extra)
    remedy = f"use a connection of the type {CONN_TYPE!r} (or {OFFICIAL_CONN_TYPE!r})"
    if not connection.conn_type:  # such as a URI with several servers, of which Airflow reads nothing
        remedy += "; in an environment variable, write it as JSON"
    raise ConfigurationError(f"connection {connection.conn_id!r}, type", connection.conn_type, remedy)


def _extra_of(connection: Connection) -> dict[str, Any]:
    # Connection.extra_dejson reads invalid JSON as {}: that would silently lose read_only and protected_groups.
    extra = parse_object(connection.extra) if connection.extra else {}
    if extra is None:
        problem = "is not a JSON object, or has a name twice"
        raise ConfigurationError("extra", None, f"the extra of connection {connection.conn_id!r} {problem}")
    return {name: value for name, value in extra.items() if value is not None and value != ""}


def read_official(conn_id: str, extra: dict[str, Any]) -> ConnectionSettings:
    """Read librdkafka properties with this package's own switches among them, as ``read_connection`` does."""
    own = {name: extra.pop(name) for name in OWN_FIELDS if name in extra}
    _check_property_names(extra)
    if not str(extra.get("bootstrap.servers", "")).strip():
        remedy = 'has none: add {"bootstrap.servers": "broker1:9092,broker2:9092"}'
        raise ConfigurationError("bootstrap.servers", None, f"the extra of connection {conn_id!r} {remedy}")
    return ConnectionSettings(properties=extra, **_restrictions(conn_id, own))


def _read_own(connection: Connection, extra: dict[str, Any]) -> ConnectionSettings:
    for name in extra:
        if name not in EXTRA_FIELDS and "." not in name:
            remedy = f"is not known. Known are {', '.join(sorted(EXTRA_FIELDS))}; properties have dots in them"
            raise ConfigurationError(f"extra field {name!r}", None, remedy)
    raw = _raw_properties(extra)
    mapped = _address(connection, raw)
    for name, made in _PEM_FIELDS.items():
        if name in extra:
            mapped |= _pem_or_file(name, made, extra[name])
    mapped |= {made: _text_of(name, extra[name]) for name, made in _TEXT_FIELDS.items() if name in extra}
    mapped |= _login(connection, mapped, raw)
    properties, filled = _merge(mapped, raw), {made: name for made, name in _MADE_OF.items() if made not in raw}
    _require_sasl(properties, filled)
    settings = ConnectionSettings(
        properties=properties, limits=_limits(extra), filled=filled, **_restrictions(connection.conn_id, extra)
    )
    settings.parse()
    return settings


def _restrictions(conn_id: str, extra: dict[str, Any]) -> dict[str, Any]:
    example = 'the limits as a JSON object, e.g. {"max_groups": 200}'
    prefix = _text_of("lease_group_prefix", extra.get("lease_group_prefix", ""))
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError("lease_group_prefix", prefix, "must be at most 100 letters, digits, dots, _ or -")
    return {
        "conn_id": conn_id,
        "read_only": read_flag("read_only", extra.get("read_only", False)),
        "protected_groups": _patterns_of("protected_groups", extra.get("protected_groups", ())),
        "lease_group_prefix": prefix,
        "floors": _json_object_of("floors", extra.get("floors", {}), example),
    }


def _limits(extra: dict[str, Any]) -> dict[str, float]:
    limits = {
        name: read_duration(f"{name}_seconds", extra[f"{name}_seconds"], minimum=0.001, maximum=86_400)
        for name in ("request_timeout", "api_timeout")
        if f"{name}_seconds" in extra
    }
    if "parallelism" in extra:
        batches = read_integer("parallelism", extra["parallelism"], minimum=1, maximum=64)
        limits |= {"batches_in_flight": batches, "singles_in_flight": _SINGLES_FOR_A_BATCH * batches}
        limits["commit_connections"] = min(_CONNECTIONS_FOR_A_BATCH * batches, _MOST_CONNECTIONS)
    return limits


def _raw_properties(extra: dict[str, Any]) -> dict[str, Any]:
    example = 'librdkafka properties as a JSON object, e.g. {"client.id": "airflow"}'
    properties = _json_object_of("properties", extra.get("properties", {}), example)
    dotted = {name: value for name, value in extra.items() if "." in name}
    _check_property_names({**properties, **dotted})
    return _merge(dotted, {name: value for name, value in properties.items() if value is not None})


def _merge(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    for name in first.keys() & second.keys():
        if str(first[name]) != str(second[name]):
            raise ConfigurationError(name, None, "is set twice with different values: keep one of them")
    return {**second, **first}


def _address(connection: Connection, raw: Mapping[str, Any]) -> dict[str, str]:
    written, field_name = (connection.host or "").strip(), "host (bootstrap servers)"
    if not written:
        if raw.get("bootstrap.servers"):
            return {}
        remedy = f"connection {connection.conn_id!r} has none: write them as broker1:9092,broker2:9092"
        raise ConfigurationError(field_name, None, remedy)
    servers = parse_servers(written, field=field_name, default_port=connection.port or DEFAULT_PORT)
    if not all(server.strip() for server in written.split(",")):
        raise ConfigurationError(field_name, written, "take the empty server out")
    return {"bootstrap.servers": format_servers(servers)}


def _login(connection: Connection, mapped: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, str]:
    given = {**raw, **mapped}
    mechanism = str(given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))).upper()
    uses_tokens = mechanism == "OAUTHBEARER"
    if not uses_tokens and (unused := [name for name, made in _OAUTH_FIELDS.items() if made in mapped]):
        raise ConfigurationError(", ".join(unused), None, "are used with OAUTHBEARER only")
    made = _CLIENT if uses_tokens else _USER
    return {made[name]: value for name in made if (value := getattr(connection, name))}


def _require_sasl(given: Mapping[str, Any], filled: Mapping[str, str]) -> None:
    """Raise for a login that the protocol does not use: the client would connect without it."""
    protocol = str(given.get("security.protocol", "PLAINTEXT")).upper()
    for name in ("sasl.mechanism", "sasl.mechanisms", *_USER.values()):
        if name in given and protocol in ("PLAINTEXT", "SSL"):
            remedy = f"is not used by {protocol}: choose SASL_SSL (or SASL_PLAINTEXT) as security_protocol"
            raise ConfigurationError(filled.get(name, name), None, remedy)


def _check_property_names(given: Mapping[str, Any]) -> None:
    """Raise for a property that looks like one of our fields (``readonly`` must not be ignored), or is Java's."""
    check_java_names(given)
    own_fields = {_letters(own): own for own in OWN_FIELDS}
    for name in given:
        for near in get_close_matches(_letters(name), own_fields, n=1, cutoff=_LOOKS_LIKE):
            remedy = f"is not a property of Kafka. Write {own_fields[near]}, beside the properties"
            raise ConfigurationError(f"extra field {name!r}", None, remedy)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _pem_or_file(name: str, prefix: str, value: Any) -> dict[str, str]:
    """Read a certificate or key, as PEM or the path of a file, as the librdkafka property for it."""
    text = _text_of(name, value).strip()
    if PEM_MARK in text:
        return {f"{prefix}.pem": text + "\n"}
    if "\n" in text:
        raise ConfigurationError(name, None, f"is neither PEM ({PEM_MARK} …) nor the path of a file")
    return {f"{prefix}.location": text}


def _text_of(name: str, value: Any) -> str:
    if not isinstance(value, str):
        shown = None if name.startswith("ssl_") else value  # there may be a secret in it
        raise ConfigurationError(name, shown, "must be a string")
    return value


def _patterns_of(name: str, value: Any) -> tuple[str, ...]:
    """Read patterns that keep groups: a list, a JSON list, or a string with commas or line ends between them."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            parts = chain.from_iterable(split_patterns(name, line) for line in value.split("\n"))
            return check_patterns(name, filter(None, parts))
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(name, value, 'must be a list of group names or patterns, e.g. ["connect-*"]')
    return check_patterns(name, chain.from_iterable(spellings_of(item) for item in value if item.strip()))


def _json_object_of(field: str, value: Any, what: str) -> dict[str, Any]:
    """Read an object that the form may send as text. The error does not show it: there may be a secret in it."""
    if isinstance(value, str):
        value = parse_object(value)
    if not isinstance(value, dict):
        raise ConfigurationError(field, None, f"write {what}, each name once")
    return value


def airflow_token_source(config: ClientConfig) -> Callable[[str], Any]:
    """Return the function that returns OAUTHBEARER tokens, for ``ClientConfig.from_librdkafka``.

    Raises ``ConfigurationError`` when the connection names no source of tokens, or a callback is not allowed.
    """
    oauth = config.security.oauth or OAuthConfig()
    if is_google(config.servers):  # like the official provider: before any callback
        source = _google()
    elif callable(oauth.callback):
        source = oauth.callback
    elif oauth.callback:
        source = _allowed(oauth.callback)
    elif oauth.endpoint:
        source = client_credentials(oauth.endpoint)
    elif region := _MSK_SERVER.search(config.servers):
        source = _amazon(region[1].lower())
    else:
        raise ConfigurationError("oauth_cb", None, _NO_TOKENS)
    return CachedToken(source)


def _allowed(path: str) -> Callable[[str], Any]:
    from airflow.providers.common.compat.module_loading import import_string
    from airflow.sdk import conf

    listed = str(conf.get("apache_kafka", "callback_allowlist", fallback="") or "")
    if path not in {name.strip() for name in listed.split(",")}:
        raise ConfigurationError("oauth_cb", path, "is not allowed: add it to [apache_kafka] callback_allowlist")
    try:
        found: Callable[[str], Any] = import_string(path)
    except ImportError as error:
        raise ConfigurationError("oauth_cb", path, f"cannot be imported: {error}") from error
    return found


def _google() -> Callable[[str], Any]:
    try:
        from airflow.providers.google.cloud.hooks.managed_kafka import ManagedKafkaHook  # type: ignore[import-not-found]  # optional
    except ImportError:
        remedy = "Google Managed Kafka needs the package apache-airflow-providers-google >= 14.1"
        raise ConfigurationError("bootstrap.servers", None, remedy) from None
    token: Callable[[str], Any] = ManagedKafkaHook().get_confluent_token
    return token


def _amazon(region: str) -> Callable[[str], Any]:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-not-found]  # optional
    except ImportError:
        remedy = "IAM at Amazon MSK needs the package aws-msk-iam-sasl-signer-python"
        raise ConfigurationError("bootstrap.servers", None, remedy) from None

    def token(config: str) -> Token:
        signed, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return signed, expires_ms / 1000

    return token
