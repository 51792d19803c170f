"""librdkafka's settings, read and written; the one parser of bootstrap servers.

librdkafka's names are the language of Kafka connections in Airflow (the official provider's ``kafka`` connections use
them) and of confluent-kafka. Settings of consumers and producers are ignored; a setting that this client needs and
cannot read is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.transport.security import (
    TOKEN_URL,
    OAuthConfig,
    Pem,
    SecurityConfig,
    TokenEndpoint,
)

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig


DEFAULT_PORT = 9092
_PROPERTY = re.compile(r"[A-Za-z0-9._-]+")
# "SASL_SSL://b1:9092", as brokers have it, is accepted by librdkafka, too.
_SERVER = re.compile(r"(?:(?:SASL_)?(?:PLAINTEXT|SSL)://)?(?:\[([^\]\s]+)\]|([\w.-]+))(?::(\d{1,5}))?", re.ASCII | re.I)
Servers = tuple[tuple[str, int], ...]
"""``(host, port)`` of each server."""


def parse_servers(value: object, *, field: str = "bootstrap.servers", default_port: int = DEFAULT_PORT) -> Servers:
    """Parse ``host:port,host:port``, without duplicates and in the order given.

    :param field: the name that the user knows the value by.
    :param default_port: the port of a server that names none.

    Raises ``ConfigurationError`` naming the server that cannot be read.
    """
    if value is None:
        raise ConfigurationError(field, None, "is missing; give at least one broker as host:port")
    if not isinstance(value, str):
        shown = None if "@" in str(value) else value  # a password may stand before it
        raise ConfigurationError(field, shown, "must be a string such as b1:9092,b2:9092")
    servers = tuple(_server(part.strip(), field, default_port) for part in value.split(",") if part.strip())
    if not servers:
        raise ConfigurationError(field, value, "give at least one broker as host:port")
    return tuple(dict.fromkeys(servers))


def format_servers(servers: Servers) -> str:
    """Write the servers as one string that ``parse_servers`` reads."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


def _server(text: str, field: str, default_port: int) -> tuple[str, int]:
    if "@" in text:  # a password may stand before it: the server is not shown
        raise ConfigurationError(field, None, "write host:port without a user: those go into login and password")
    found = _SERVER.fullmatch(text)
    port = int(found[3] or default_port) if found else 0
    if found is None or not 0 < port < 65536:
        remedy = "write host:port with a port from 1 to 65535, and a comma between servers: b1:9092,b2:9092"
        raise ConfigurationError(field, text, remedy)
    return found[1] or found[2], port


_TIMEOUTS = {
    "request.timeout.ms": "request_timeout",
    "socket.timeout.ms": "request_timeout",
    "socket.connection.setup.timeout.ms": "connect_timeout",
    "default.api.timeout.ms": "api_timeout",
}
_OAUTH = "sasl.oauthbearer."
_SASL = {
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.kerberos.service.name": "kerberos_service",
    "sasl.kerberos.keytab": "kerberos_keytab",
    "sasl.kerberos.principal": "kerberos_principal",
}
_TEXTS = _SASL | {"ssl.key.password": "key_password"}
"""Settings that are a field of ``SecurityConfig``."""
_PEMS = ("ca", "certificate", "key")
_ENDPOINT = {
    TOKEN_URL: "url",
    f"{_OAUTH}client.id": "client_id",
    f"{_OAUTH}client.secret": "client_secret",
    f"{_OAUTH}scope": "scope",
}
_SECURITY = ("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
"""What decides how to log in: one that is misspelt would be ignored, and a login tried without it."""

_JAVA = {
    "sasl.jaas.config": "sasl.username and sasl.password, sasl.kerberos.keytab and sasl.kerberos.principal, or "
    f"OAUTHBEARER as sasl.mechanism with {TOKEN_URL}",
    "ssl.truststore.location": "ssl.ca.location, a file in PEM ('keytool -list -rfc -keystore …' prints it)",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location, files in PEM ('openssl pkcs12 -in …' "
    "makes them)",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""What to write instead of settings that the core cannot read, most of them of Java's client."""
_HOST_NAMES = "ssl.endpoint.identification.algorithm"
_VERIFY = "enable.ssl.certificate.verification"


def parse_librdkafka(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Parse settings into fields of ``ClientConfig``; ``None`` and "" mean not set.

    Raises ``ConfigurationError`` naming the setting, its value (never a secret) and the remedy.
    """
    given = {name: value for name, value in settings.items() if value is not None and value != ""}
    check_java_names(given)
    if "ssl.cipher.suites" in given:  # ignored, it would let in what it is to keep out
        raise ConfigurationError("ssl.cipher.suites", None, "cannot be chosen here: restrict them on the brokers")
    for name in given.keys() - set(_SECURITY):
        if meant := get_close_matches(name, _SECURITY, n=1, cutoff=0.85):
            raise ConfigurationError(name, None, f"is not a property of Kafka; did you mean {meant[0]!r}?")
    for name, value in given.items():  # written out, a list with a password would be another password
        if name.startswith(("sasl.", "ssl.")) and isinstance(value, list | tuple | Mapping):
            raise ConfigurationError(name, None, "must be a string, and is a list or an object")
    fields: dict[str, Any] = {
        "bootstrap_servers": parse_servers(given.get("bootstrap.servers")),
        "security": _security(given),
    }
    if "client.id" in given:
        fields["client_id"] = str(given["client.id"])
    return fields | {field: _milliseconds(name, given[name]) for name, field in _TIMEOUTS.items() if name in given}


def check_java_names(given: Mapping[str, Any]) -> None:
    """Raise ``ConfigurationError`` for a setting that this client cannot read, and without which no login succeeds."""
    for name in _JAVA.keys() & given.keys():
        raise ConfigurationError(name, None, f"cannot be read by this client: write {_JAVA[name]} in its place")


def parse_properties(field: str, path: str, content: str) -> dict[str, str]:
    """Parse a file of properties: ``name=value`` in each line; ``#`` begins a comment line.

    Raises ``ConfigurationError`` naming the line, never a value.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(content.split("\n"), start=1):  # other ends of lines may be part of a password
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = (part.strip() for part in line.partition("="))
        if not separator or not _PROPERTY.fullmatch(name):  # part of a secret, where another character separates them
            check_java_names(found)  # their values may go on in the next lines
            raise ConfigurationError(field, path, f"line {number} is not of the form name=value")
        if name in found:
            raise ConfigurationError(field, path, f"line {number} sets {name} a second time")
        found[name] = value
    return found


def to_librdkafka(config: ClientConfig) -> dict[str, Any]:
    """Return the settings of a confluent-kafka client that reaches the same cluster in the same way.

    The result holds secrets: pass it to the client and show it nowhere. ``api_timeout`` has no name there: pass it to
    each call as ``request_timeout``. Tokens come from ``oauth_cb``, a function, where ``with_tokens`` has set a source.
    """
    security = config.security
    settings: dict[str, Any] = {
        "bootstrap.servers": format_servers(config.bootstrap_servers),
        "client.id": config.client_id,
        "security.protocol": security.protocol,
        # Within the bounds that librdkafka enforces.
        "socket.timeout.ms": str(min(max(round(config.request_timeout * 1000), 10), 300_000)),
        "socket.connection.setup.timeout.ms": str(max(round(config.connect_timeout * 1000), 1000)),
    }
    if security.uses_tls:
        settings[_HOST_NAMES] = "https" if security.check_hostname else "none"
        settings |= {_VERIFY: "true" if security.verify else "false", "ssl.key.password": security.key_password}
        for name in _PEMS:
            settings |= _pem_settings(getattr(security, name))
    if security.uses_sasl:
        settings["sasl.mechanism"] = security.mechanism
        settings |= _oauth_settings(security.oauth) if security.oauth else {}
        settings |= {name: getattr(security, field) for name, field in _SASL.items()}
    return {name: value for name, value in settings.items() if value}


def _pem_settings(pem: Pem) -> dict[str, str | None]:
    return {f"{pem.name}.location": pem.location, f"{pem.name}.pem": pem.text}


def _oauth_settings(oauth: OAuthConfig) -> dict[str, Any]:
    extensions = dict(oauth.extensions)
    if oauth.source is not None:
        return {"oauth_cb": lambda _config: (*oauth.token(), "", extensions)}
    settings = {
        "oauth_cb": oauth.callback,
        f"{_OAUTH}config": oauth.callback_config,
        f"{_OAUTH}extensions": ",".join(f"{name}={value}" for name, value in extensions.items()),
    }
    if endpoint := oauth.endpoint:
        settings |= {name: getattr(endpoint, field) for name, field in _ENDPOINT.items()} | _pem_settings(endpoint.ca)
    return settings


def _milliseconds(name: str, value: object) -> float:
    try:
        seconds = float(str(value)) / 1000
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigurationError(name, value, "give a number of milliseconds above 0")
    return seconds


def _security(given: Mapping[str, Any]) -> SecurityConfig:
    protocol = str(given.get("security.protocol", "PLAINTEXT")).upper()
    mechanism = str(given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))).upper()
    has_tokens = mechanism == "OAUTHBEARER" and protocol.startswith("SASL_")
    fields: dict[str, Any] = {name: _pem(f"ssl.{name}", given) for name in _PEMS}
    fields |= {field: str(given[name]) for name, field in _TEXTS.items() if name in given}
    return SecurityConfig(
        protocol=protocol,
        mechanism=mechanism,
        check_hostname=_choice(_HOST_NAMES, given, "https", "none"),
        verify=flag(_VERIFY, given),
        oauth=_oauth(given) if has_tokens else None,
        **fields,
    )


def _pem(name: str, given: Mapping[str, Any]) -> Pem:
    location, text = (given.get(f"{name}.{form}") for form in ("location", "pem"))
    return Pem(name=name, location=location and str(location), text=text and str(text))


def _oauth(given: Mapping[str, Any]) -> OAuthConfig:
    callback, endpoint = given.get("oauth_cb"), None
    if callback is None and TOKEN_URL in given:
        texts: dict[str, Any] = {field: str(given.get(name, "")) for name, field in _ENDPOINT.items()}
        endpoint = TokenEndpoint(ca=_pem("https.ca", given), **texts)
    return OAuthConfig(
        callback=callback,
        callback_config=str(given.get(f"{_OAUTH}config", "")),
        endpoint=endpoint,
        extensions=_extensions(str(given.get(f"{_OAUTH}extensions", ""))),
    )


def flag(name: str, given: Mapping[str, Any]) -> bool:
    """Parse a setting that is true or false, by default true. Raises ``ConfigurationError``."""
    return _choice(name, given, "true", "false")


def _choice(name: str, given: Mapping[str, Any], yes: str, no: str) -> bool:
    """Parse a setting of two values: what is misspelt must not switch a check off."""
    text = str(given.get(name, yes)).lower()
    if text not in (yes, no):
        raise ConfigurationError(name, given[name], f"give {yes} or {no}")
    return text == yes


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        if not (name.isascii() and name.isalpha() and equals and value.isascii() and value.isprintable()):
            raise ConfigurationError(f"{_OAUTH}extensions", text, "write name=value,name=value")
    return {name: value for name, _, value in pairs}
