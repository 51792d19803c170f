"""The properties of Kafka's Java client, for Spark and Kafka's own tools; see ``librdkafka`` for the other names.

Certificates and keys are embedded (PEM), so that executors need no other files.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.security import (
    PASSWORD_MECHANISMS,
    TOKEN_URL,
    Pem,
    SecurityConfig,
    naming,
)

_KAFKA_SECURITY = "org.apache.kafka.common.security"


def to_java(config: ClientConfig) -> dict[str, str]:
    """Return the properties of a Java client that connects to the same cluster with the same security."""
    security = config.security
    # Defaults are omitted: a client id names metrics, which must not collide.
    default = ClientConfig(bootstrap_servers=config.bootstrap_servers)
    api_timeout = max(config.api_timeout, config.request_timeout)  # Java requires at least the request timeout
    given = {
        "client.id": (config.client_id, default.client_id),
        "request.timeout.ms": (round(config.request_timeout * 1000), round(default.request_timeout * 1000)),
        "default.api.timeout.ms": (round(api_timeout * 1000), round(default.api_timeout * 1000)),
    }
    made = {"bootstrap.servers": config.servers, "security.protocol": security.protocol}
    made |= {name: str(value) for name, (value, by_default) in given.items() if value != by_default}
    if security.uses_sasl:
        made |= _sasl(security)
    if security.uses_tls:
        made |= _tls(security)
    return made


def _sasl(security: SecurityConfig) -> dict[str, str]:
    made = {"sasl.mechanism": security.mechanism}
    if security.mechanism in PASSWORD_MECHANISMS:
        module = "plain.PlainLoginModule" if security.mechanism == "PLAIN" else "scram.ScramLoginModule"
        options = {"username": security.username, "password": security.password}
        return made | {"sasl.jaas.config": _jaas(f"{_KAFKA_SECURITY}.{module}", options)}
    if security.mechanism == "GSSAPI":
        keytab = {"useKeyTab": "true", "storeKey": "true", "keyTab": security.kerberos_keytab}
        options = keytab if security.kerberos_keytab else {"useTicketCache": "true"}
        options["principal"] = security.kerberos_principal
        made["sasl.kerberos.service.name"] = security.kerberos_service or "kafka"
        return made | {"sasl.jaas.config": _jaas("com.sun.security.auth.module.Krb5LoginModule", options)}
    endpoint = security.oauth and security.oauth.endpoint
    if not endpoint:
        remedy = f"a Python token callback is not available in Spark: use {TOKEN_URL}, or write the job's properties "
        raise ConfigurationError("oauth_cb", None, f"{remedy}file yourself")
    options = {"clientId": endpoint.client_id, "clientSecret": endpoint.client_secret, "scope": endpoint.scope}
    return made | {
        TOKEN_URL: endpoint.url,
        "sasl.jaas.config": _jaas(f"{_KAFKA_SECURITY}.oauthbearer.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_KAFKA_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
    }


def _tls(security: SecurityConfig) -> dict[str, str]:
    if not security.verify:
        remedy = "Java's client always verifies the brokers' certificates: set their CA (ssl.ca.location) instead"
        raise ConfigurationError("enable.ssl.certificate.verification", "false", remedy)
    made = {"ssl.endpoint.identification.algorithm": "https" if security.check_hostname else ""}
    texts = security.embedded()
    if texts.ca.text:
        made |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": texts.ca.text}
    if chain := texts.certificate.text:
        with naming(security.filled):
            given = security.key or security.certificate
            key = _private_key(given, texts.key.text or chain, security.key_password)
        made |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    return made


def _private_key(given: Pem, text: str, password: str | None) -> str:
    """Return the key as PKCS#8, the only format that Java's client reads, without its password."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

    begin = text.find("-----BEGIN", 0)
    while begin >= 0 and "PRIVATE KEY" not in text[begin : begin + 40]:  # certificates may precede it
        begin = text.find("-----BEGIN", begin + 1)
    pem = text[max(begin, 0) :].encode()
    encrypted = b"ENCRYPTED" in pem
    try:
        key = load_pem_private_key(pem, password.encode() if password and encrypted else None)
    except (ValueError, TypeError) as exc:
        raise ConfigurationError(
            given.setting, None, f"the private key cannot be read ({type(exc).__name__}): check it and its password"
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _jaas(module: str, options: Mapping[str, str | None]) -> str:
    quoted = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"'))
        for name, value in options.items()
        if value
    )
    return f"{module} required {' '.join(quoted)};"
