"""A connection's settings as properties of Kafka's Java client, which is what Spark reads Kafka with. Pure.

Certificates and keys go into the properties themselves (PEM): executors need no files. The result holds every secret of
the connection, so it is written to a file that only its owner can read, and shown nowhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import translate
from pathlib import Path

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.settings import PASSWORD_MECHANISMS, ConnectionSettings

READ_ONLY = "kafka_groups.read_only"
PROTECTED = "kafka_groups.protected"
_AS_THEY_ARE = (
    "bootstrap.servers",
    "client.id",
    "security.protocol",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "sasl.kerberos.service.name",
    "ssl.cipher.suites",
)
_SECURITY = "org.apache.kafka.common.security"
_OIDC_URL = "sasl.oauthbearer.token.endpoint.url"


def java_properties(settings: ConnectionSettings) -> dict[str, str]:
    """Translate a connection; ``kafka_groups.…`` names carry what it does not allow.

    Raises ``ConfigurationError`` naming what Java's client cannot do, or the file that cannot be read. No message holds
    a secret.
    """
    given = {name: str(value) for name, value in settings.properties.items() if value is not None and value != ""}
    made = {name: given[name] for name in _AS_THEY_ARE if name in given}
    protocol = made["security.protocol"] = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        made |= _sasl(given)
    if protocol.endswith("SSL"):
        made |= _tls(given)
    if settings.read_only:
        made[READ_ONLY] = "true"
    if settings.protected_groups:
        made[PROTECTED] = json.dumps([_expression(pattern) for pattern in settings.protected_groups])
    return made


def render_properties(properties: Mapping[str, str]) -> str:
    """Write a Java properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(properties.items()))


def write_properties(properties: Mapping[str, str], path: Path) -> Path:
    """Write a new file that only its owner can read (mode 0600).

    :param properties: names and values.
    :param path: a file that must not exist yet.
    """
    return write_secret_file(render_properties(properties), path)


def write_secret_file(text: str, path: Path) -> Path:
    """Write a new file that only its owner can read (mode 0600), from its first byte on.

    :param text: what it is to hold.
    :param path: a file that must not exist yet.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read_pem(given: Mapping[str, str], prefix: str) -> str | None:
    """Give the PEM text that ``<prefix>.pem`` holds or ``<prefix>.location`` names; ``None`` if neither is given.

    Raises ``ConfigurationError`` naming the file that cannot be read.
    """
    if text := given.get(f"{prefix}.pem"):
        return text
    location = given.get(f"{prefix}.location")
    if location is None:
        return None
    try:
        return Path(location).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not a PEM file"
        raise ConfigurationError(f"{prefix}.location", location, f"cannot be read: {reason}") from None


def _sasl(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "")).upper()
    if mechanism in PASSWORD_MECHANISMS:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        options = {"username": given.get("sasl.username", ""), "password": given.get("sasl.password", "")}
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(f"{_SECURITY}.{module}", options)}
    if mechanism == "GSSAPI":
        return {"sasl.kerberos.service.name": "kafka", "sasl.mechanism": mechanism, **_kerberos(given)}
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, **_oidc(given)}
    raise ConfigurationError("sasl_mechanism", mechanism or None, "is not one that Spark can use")


def _kerberos(given: Mapping[str, str]) -> dict[str, str]:
    options = {"useTicketCache": "true"}
    if keytab := given.get("sasl.kerberos.keytab"):
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab}
    if principal := given.get("sasl.kerberos.principal"):
        options["principal"] = principal
    made = {"sasl.jaas.config": _jaas("com.sun.security.auth.module.Krb5LoginModule", options)}
    if name := given.get("sasl.kerberos.service.name"):
        made["sasl.kerberos.service.name"] = name
    return made


def _oidc(given: Mapping[str, str]) -> dict[str, str]:
    if given.get("sasl.oauthbearer.method", "").lower() != "oidc" or _OIDC_URL not in given:
        raise ConfigurationError(
            "sasl.oauthbearer.method",
            given.get("sasl.oauthbearer.method"),
            f"a token callback in Python cannot follow to Spark: use oidc with {_OIDC_URL}, or write the job's "
            "properties file yourself",
        )
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    options = {
        option: given[f"sasl.oauthbearer.{name}"]
        for option, name in names.items()
        if f"sasl.oauthbearer.{name}" in given
    }
    return {
        _OIDC_URL: given[_OIDC_URL],
        "sasl.jaas.config": _jaas(f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
    }


def _tls(given: Mapping[str, str]) -> dict[str, str]:
    if given.get("enable.ssl.certificate.verification", "true").lower() != "true":
        raise ConfigurationError(
            "enable.ssl.certificate.verification",
            "false",
            "Java's client always verifies the brokers' certificates: give their CA (ssl.ca.location) instead",
        )
    made: dict[str, str] = {}
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    made["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if authority := read_pem(given, "ssl.ca"):
        made |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if certificate := read_pem(given, "ssl.certificate"):
        key = _private_key(read_pem(given, "ssl.key") or certificate, given.get("ssl.key.password"))
        made |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}
    elif "ssl.keystore.location" in given:
        made |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": given["ssl.keystore.location"]}
        made |= {name: given[name] for name in ("ssl.keystore.password",) if name in given}
    return made


def _private_key(text: str, password: str | None) -> str:
    """Give the key in the one form Java's client reads (PKCS#8), without its password, which would stand beside it."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    begin = text.find("-----BEGIN", 0)
    while begin >= 0 and "PRIVATE KEY" not in text[begin : begin + 40]:  # certificates may stand before it
        begin = text.find("-----BEGIN", begin + 1)
    pem = text[max(begin, 0) :].encode()
    encrypted = b"ENCRYPTED" in pem
    try:
        key = load_pem_private_key(pem, password.encode() if password and encrypted else None)
    except (ValueError, TypeError) as exc:
        raise ConfigurationError(
            "ssl.key", None, f"the private key cannot be read ({type(exc).__name__}): check it and its password"
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in options.items()
    )
    return f"{module} required {' '.join(quoted)};"


def _expression(pattern: str) -> str:
    """Give a protected pattern as a regular expression, as ``maintenance.patterns`` reads it."""
    return pattern.removeprefix("re:") if pattern.startswith("re:") else f"(?!\\Z){translate(pattern)}"


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
