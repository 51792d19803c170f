"""The source of OAUTHBEARER tokens: client credentials, an allowed callback, Amazon MSK IAM or Google.

A connection of the type ``kafka`` that authenticates with the official provider authenticates here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.security import CachedToken, OAuthConfig, Token, client_credentials

_MSK_SERVER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?(?=$|[,\s])", re.I)
_REMEDY = (
    "OAUTHBEARER needs to know where tokens come from: give sasl.oauthbearer.token.endpoint.url with "
    "sasl.oauthbearer.client.id and .client.secret, or an oauth_cb that [apache_kafka] callback_allowlist names. "
    "Servers of Amazon MSK and Google Managed Kafka need neither"
)


def airflow_token_source(config: ClientConfig) -> Callable[[str], Any]:
    """Return the function that returns tokens, for ``ClientConfig.from_librdkafka``.

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
        raise ConfigurationError("oauth_cb", None, _REMEDY)
    return CachedToken(source)


def is_google(servers: str) -> bool:
    """Return whether the brokers are Google's, which need tokens of Google's own library."""
    return "cloud.goog" in servers and "managedkafka" in servers


def _allowed(path: str) -> Callable[[str], Any]:
    """Import a callback by its path if Airflow's configuration allows it, as the official provider does."""
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
        raise ConfigurationError(
            "bootstrap.servers", None, "Google Managed Kafka needs the package apache-airflow-providers-google >= 14.1"
        ) from None
    token: Callable[[str], Any] = ManagedKafkaHook().get_confluent_token
    return token


def _amazon(region: str) -> Callable[[str], Any]:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-not-found]  # optional
    except ImportError:
        raise ConfigurationError(
            "bootstrap.servers", None, "IAM at Amazon MSK needs the package aws-msk-iam-sasl-signer-python"
        ) from None

    def token(config: str) -> Token:
        signed, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return signed, expires_ms / 1000

    return token
