"""A connection as a file for Spark, with all its secrets, that only its owner can read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.cluster.java import to_java
from airflow_kafka_groups.kafka.cluster.librdkafka import to_librdkafka
from airflow_kafka_groups.kafka.cluster.products import is_google
from airflow_kafka_groups.kafka.transport.security import TOKEN_URL
from airflow_kafka_groups.observe.patterns import keeping_expressions
from airflow_kafka_groups.spark.private_files import render_properties, write_secret_file
from airflow_kafka_groups.spark.requirements import PROTECTED, READ_ONLY

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.connection import ConnectionSettings


def java_properties(settings: ConnectionSettings) -> dict[str, str]:
    """Translate a connection to Java properties; ``kafka_groups.…`` properties contain its restrictions.

    Raises ``ConfigurationError`` naming a setting that Java's client does not support, without a secret.
    """
    made = to_java(settings.parse())
    if settings.read_only:
        made[READ_ONLY] = "true"
    if settings.protected_groups:
        made[PROTECTED] = json.dumps(keeping_expressions("protected_groups", settings.protected_groups))
    return made


def write_spark_properties(settings: ConnectionSettings, path: Path) -> Path:
    """Write a new properties file that only its owner can read (mode 0600)."""
    return write_secret_file(render_properties(java_properties(settings)), path)


def source_settings(settings: ConnectionSettings) -> dict[str, str]:
    """Return the settings that the source needs, including the content of referenced files.

    Raises ``ConfigurationError`` naming a setting that a file cannot contain or that is invalid, without a secret.
    """
    config = settings.parse()
    _check_portable(config)
    made = to_librdkafka(replace(config, security=config.security.embedded()))
    settings.client_config().security.ssl_context()  # fail here if the source would refuse them on an executor
    del made["socket.timeout.ms"]
    made |= {
        "request.timeout.ms": f"{config.request_timeout * 1000:g}",
        "default.api.timeout.ms": f"{config.api_timeout * 1000:g}",
    }
    return made


def write_source_settings(settings: ConnectionSettings, path: Path) -> Path:
    """Write a new file that only its owner can read (mode 0600)."""
    return write_secret_file(json.dumps(source_settings(settings), indent=1, sort_keys=True) + "\n", path)


def _check_portable(config: ClientConfig) -> None:
    oauth = config.security.oauth
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
