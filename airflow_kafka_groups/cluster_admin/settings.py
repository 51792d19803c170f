"""The settings of a confluent-kafka client that reaches the same cluster as the core."""

from __future__ import annotations

import time
from typing import Any

from airflow_kafka_groups.cluster.config import ClientConfig

_FIELDS = {
    "ssl.ca.location": "ca_file",
    "ssl.ca.pem": "ca_pem",
    "ssl.certificate.location": "certificate_file",
    "ssl.certificate.pem": "certificate_pem",
    "ssl.key.location": "key_file",
    "ssl.key.pem": "key_pem",
    "ssl.key.password": "key_password",
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.mechanism": "sasl_mechanism",
}
_TOKEN_SECONDS = 3600.0


def to_librdkafka(config: ClientConfig) -> dict[str, Any]:
    """Return the settings; they hold secrets."""
    security = config.security
    settings: dict[str, Any] = {
        "bootstrap.servers": config.servers,
        "client.id": config.client_id,
        "security.protocol": security.protocol,
        "ssl.endpoint.identification.algorithm": "https" if security.check_hostname else "none",
        "enable.ssl.certificate.verification": security.verify,
        "socket.connection.setup.timeout.ms": max(round(config.connect_timeout * 1000), 1000),
    }
    settings |= {name: value for name, field in _FIELDS.items() if (value := getattr(security, field))}
    if (token := security.oauth_token) is not None:
        extensions = dict(security.oauth_extensions)
        settings["oauth_cb"] = lambda _config: (token(), time.time() + _TOKEN_SECONDS, "", extensions)
    return settings
