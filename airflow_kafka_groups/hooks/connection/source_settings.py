"""A connection as the file that the Spark data source ``kafka_groups`` reads on executors (``config.file``).

The names are librdkafka's, as in the connection. Certificates and keys are embedded, so that executors need no other
files. The result contains all secrets of the connection: it is only written to a file that only its owner can read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.connection.java_properties import write_secret_file
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.hooks.connection.tokens import airflow_token_source, is_google
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.transport.security import TOKEN_URL


def source_settings(settings: ConnectionSettings) -> dict[str, str]:
    """Return the settings that the source needs, including the content of referenced files.

    Raises ``ConfigurationError`` naming a setting that a file cannot contain or that is invalid. No message contains a
    secret.
    """
    config = settings.parse()
    _check_portable(config)
    made = to_librdkafka(replace(config, security=config.security.embedded()))
    config.security.ssl_context()  # fail here if the source would refuse the settings on an executor
    del made["socket.timeout.ms"]
    made |= {
        "request.timeout.ms": f"{config.request_timeout * 1000:g}",
        "default.api.timeout.ms": f"{config.api_timeout * 1000:g}",
    }
    ClientConfig.from_librdkafka(made, token_source=airflow_token_source)
    return made


def write_source_settings(settings: ConnectionSettings, path: Path) -> Path:
    """Write a new file that only its owner can read (mode 0600).

    :param path: a file that must not exist yet.
    """
    return write_secret_file(json.dumps(source_settings(settings), indent=1, sort_keys=True) + "\n", path)


def _check_portable(config: ClientConfig) -> None:
    security, oauth = config.security, config.security.oauth
    if security.uses_tls and security.tls.keystore:
        raise ConfigurationError(
            "ssl.keystore.location",
            security.tls.keystore,
            "a key store cannot be read by this client: give ssl.certificate.location and ssl.key.location (PEM; "
            "'openssl pkcs12 -in … -out …' makes them)",
        )
    portable = oauth is None or isinstance(oauth.callback, str) or oauth.endpoint is not None
    if not portable or (oauth is not None and is_google(config.servers)):
        raise ConfigurationError(
            "oauth_cb",
            None,
            "tokens that Python makes in Airflow (Amazon MSK IAM, Google, a callback) cannot be put into a file: give "
            f"{TOKEN_URL} with sasl.oauthbearer.client.id and .client.secret, use SCRAM or a client certificate, or "
            "write config.file yourself with oauth_cb=package.module.function, a function that is installed on every "
            "executor",
        )
