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
    SECURITY_PROTOCOLS,
    TOKEN_URL,
    OAuthConfig,
    Pem,
    SaslConfig,
    SecurityConfig,
    TlsConfig,
    TokenEndpoint,
)

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig


DEFAULT_PORT = 9092
_PROPERTY = re.compile(r"[A-Za-z0-9._-]+")
_OTHER_SEPARATOR = re.compile(r"[;\uff0c\u3001|\s]")  # also full-width commas
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
    if _OTHER_SEPARATOR.search(text):
        raise ConfigurationError(field, text, "write a comma between servers: b1:9092,b2:9092")
    scheme, _, address = text.rpartition("://")  # "PLAINTEXT://b1:9092" is accepted by librdkafka too
    if (scheme and scheme.upper() not in SECURITY_PROTOCOLS) or "/" in address:
        raise ConfigurationError(field, text, "write host:port without a scheme or a path")
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = address.partition(":")
    if not host:
        raise ConfigurationError(field, text, "the host is missing; give host:port")
    if not port:
        return host, default_port
    # Python refuses to read an integer of more than 4,300 digits.
    if not (port.isascii() and port.isdigit() and len(port) < 10 and 0 < int(port) < 65536):
        raise ConfigurationError(field, text, "the port must be a number from 1 to 65535")
    return host, int(port)


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
_KEY_PASSWORD = "ssl.key.password"  # noqa: S105 - the name of a setting
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
        settings |= _tls_settings(security.tls)
    if security.sasl is not None and security.uses_sasl:
        settings |= _sasl_settings(security.sasl)
    return settings


def _tls_settings(tls: TlsConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {
        _HOST_NAMES: "https" if tls.check_hostname else "none",
        _VERIFY: "true" if tls.verify else "false",
    }
    for pem in (tls.ca, tls.certificate, tls.key):
        settings |= _pem_settings(pem)
    return settings | ({_KEY_PASSWORD: tls.key_password} if tls.key_password else {})


def _pem_settings(pem: Pem) -> dict[str, str]:
    found = {f"{pem.name}.location": pem.location, f"{pem.name}.pem": pem.text}
    return {name: value for name, value in found.items() if value}


def _sasl_settings(sasl: SaslConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {"sasl.mechanism": sasl.mechanism}
    if sasl.mechanism == "OAUTHBEARER":
        return settings | _oauth_settings(sasl.oauth)
    prefix = "sasl.kerberos." if sasl.mechanism == "GSSAPI" else ("sasl.username", "sasl.password")
    return settings | {
        name: value for name, field in _SASL.items() if name.startswith(prefix) and (value := getattr(sasl, field))
    }


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
        settings |= {
            TOKEN_URL: endpoint.url,
            f"{_OAUTH}client.id": endpoint.client_id,
            f"{_OAUTH}client.secret": endpoint.client_secret,
            f"{_OAUTH}scope": endpoint.scope,
            **_pem_settings(endpoint.ca),
        }
    return {name: value for name, value in settings.items() if value}


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
    # SASL settings beside a protocol without SASL are not an error in librdkafka.
    return SecurityConfig(
        protocol=protocol, tls=_tls(given), sasl=_sasl(given) if protocol.startswith("SASL_") else None
    )


def _tls(given: Mapping[str, Any]) -> TlsConfig:
    return TlsConfig(
        ca=_pem("ssl.ca", given),
        certificate=_pem("ssl.certificate", given),
        key=_pem("ssl.key", given),
        key_password=str(given[_KEY_PASSWORD]) if _KEY_PASSWORD in given else None,
        check_hostname=_checks_host_names(given),
        verify=flag(_VERIFY, given),
    )


def _pem(name: str, given: Mapping[str, Any]) -> Pem:
    location, text = (given.get(f"{name}.{form}") for form in ("location", "pem"))
    return Pem(name=name, location=location and str(location), text=text and str(text))


def _sasl(given: Mapping[str, Any]) -> SaslConfig:
    mechanism = str(given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))).upper()
    fields: dict[str, Any] = {field: str(given[name]) for name, field in _SASL.items() if name in given}
    return SaslConfig(
        mechanism=mechanism, oauth=_oauth(given) if mechanism == "OAUTHBEARER" else OAuthConfig(), **fields
    )


def _oauth(given: Mapping[str, Any]) -> OAuthConfig:
    callback = given.get("oauth_cb")
    if callback is not None and not callable(callback) and not isinstance(callback, str):
        raise ConfigurationError("oauth_cb", None, "must be a callable that returns (token, expiry in seconds)")
    return OAuthConfig(
        callback=callback,
        callback_config=str(given.get(f"{_OAUTH}config", "")),
        endpoint=_endpoint(given) if callback is None and TOKEN_URL in given else None,
        extensions=_extensions(str(given.get(f"{_OAUTH}extensions", ""))),
    )


def _endpoint(given: Mapping[str, Any]) -> TokenEndpoint:
    scope = given.get(f"{_OAUTH}scope")
    return TokenEndpoint(
        url=str(given[TOKEN_URL]),
        client_id=str(given.get(f"{_OAUTH}client.id", "")),
        client_secret=str(given.get(f"{_OAUTH}client.secret", "")),
        scope=None if scope is None else str(scope),
        ca=_pem("https.ca", given),
    )


def flag(name: str, given: Mapping[str, Any]) -> bool:
    """Parse a setting that is true or false, by default true. Raises ``ConfigurationError``."""
    text = str(given.get(name, True)).lower()
    if text not in ("true", "false"):
        raise ConfigurationError(name, given[name], "give true or false")
    return text == "true"


def _checks_host_names(given: Mapping[str, Any]) -> bool:
    """Read whether a certificate has to name its host: what is misspelt must not switch that off."""
    text = str(given.get(_HOST_NAMES, "https")).lower()
    if text not in ("https", "none"):
        raise ConfigurationError(_HOST_NAMES, given[_HOST_NAMES], "give https, or none to accept any host name")
    return text == "https"


def _extensions(text: str) -> dict[str, str]:
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        if not (name.isascii() and name.isalpha() and equals and value.isascii() and value.isprintable()):
            raise ConfigurationError(f"{_OAUTH}extensions", text, "write name=value,name=value")
    return {name: value for name, _, value in pairs}
