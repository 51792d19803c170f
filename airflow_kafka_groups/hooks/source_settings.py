"""A connection's settings as the file that the Spark data source ``kafka_groups`` reads on executors (``config.file``).

The source reads through the same core as Airflow does, so the names are librdkafka's, as in the connection.
Certificates and keys go into the file itself (PEM): executors need no other files. The result holds every secret of the
connection, so it is written to a file that only its owner can read, and shown nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_kafka_groups.cluster.client_credentials import ENDPOINT
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.java_properties import read_pem, write_secret_file
from airflow_kafka_groups.hooks.settings import PASSWORD_MECHANISMS, ConnectionSettings
from airflow_kafka_groups.hooks.tokens import is_google, with_tokens

_AS_THEY_ARE = (
    *("bootstrap.servers", "client.id"),
    *("request.timeout.ms", "socket.timeout.ms", "socket.connection.setup.timeout.ms", "default.api.timeout.ms"),
)
_TLS = ("ssl.key.password", "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification")
_KERBEROS = ("sasl.kerberos.service.name", "sasl.kerberos.keytab")
_OIDC = (
    *(ENDPOINT, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
    *("sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"),
)
_LIMITS = {"request_timeout": "request.timeout.ms", "api_timeout": "default.api.timeout.ms"}


def source_settings(settings: ConnectionSettings) -> dict[str, str]:
    """Choose what the source needs of a connection, with the texts of the files it names.

    :param settings: the connection.

    Raises ``ConfigurationError`` naming what no file can carry, or the setting or file that cannot be used. No message
    holds a secret.
    """
    given = {name: str(value) for name, value in settings.properties.items() if value is not None and value != ""}
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    made = {"security.protocol": protocol} | _named(given, _AS_THEY_ARE)
    made |= {_LIMITS[name]: f"{value * 1000:g}" for name, value in settings.limits.items() if name in _LIMITS}
    if protocol.startswith("SASL"):
        made |= _sasl(given, settings.properties)
    if protocol.endswith("SSL"):
        made |= _tls(given)
    # What the source would refuse on an executor is refused here.
    ClientConfig.from_librdkafka(with_tokens(made)).security.ssl_context()
    return made


def write_source_settings(settings: ConnectionSettings, path: Path) -> Path:
    """Write a new file that only its owner can read (mode 0600).

    :param settings: the connection.
    :param path: a file that must not exist yet.
    """
    return write_secret_file(json.dumps(source_settings(settings), indent=1, sort_keys=True) + "\n", path)


def _named(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: given[name] for name in names if name in given}


def _sasl(given: Mapping[str, str], properties: Mapping[str, Any]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "")).upper()
    made = {"sasl.mechanism": mechanism}
    if mechanism in PASSWORD_MECHANISMS:
        return made | _named(given, ("sasl.username", "sasl.password"))
    if mechanism == "GSSAPI":
        return made | _named(given, _KERBEROS)
    if mechanism == "OAUTHBEARER":
        return made | _tokens(given, properties)
    return made


def _tokens(given: Mapping[str, str], properties: Mapping[str, Any]) -> dict[str, str]:
    if not is_google(given.get("bootstrap.servers", "")):
        if isinstance(callback := properties.get("oauth_cb"), str) and callback:
            return {"oauth_cb": callback} | _named(given, ("sasl.oauthbearer.config", "sasl.oauthbearer.extensions"))
        if not callback and ENDPOINT in given:
            authority = read_pem(given, "https.ca")
            return _named(given, _OIDC) | ({"https.ca.pem": authority} if authority else {})
    raise ConfigurationError(
        "oauth_cb",
        None,
        "tokens that Python makes in Airflow (Amazon MSK IAM, Google, a callback) cannot be put into a file: give "
        f"{ENDPOINT} with sasl.oauthbearer.client.id and .client.secret, use SCRAM or a client certificate, or write "
        "config.file yourself with oauth_cb=package.module.function, a function that is installed on every executor",
    )


def _tls(given: Mapping[str, str]) -> dict[str, str]:
    if "ssl.keystore.location" in given:
        raise ConfigurationError(
            "ssl.keystore.location",
            given["ssl.keystore.location"],
            "a key store cannot be read by this client: give ssl.certificate.location and ssl.key.location (PEM; "
            "'openssl pkcs12 -in … -out …' makes them)",
        )
    texts = {f"{prefix}.pem": read_pem(given, prefix) for prefix in ("ssl.ca", "ssl.certificate", "ssl.key")}
    return _named(given, _TLS) | {name: text for name, text in texts.items() if text}
