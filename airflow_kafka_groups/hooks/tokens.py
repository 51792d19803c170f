"""Where an OAUTHBEARER token comes from: client credentials, a callback that is allowed, Amazon MSK IAM, Google.

The names are librdkafka's and the official provider's: a connection of the type ``kafka`` that logs in there logs in
here. A token is kept until shortly before it expires: all brokers of a cluster are connected to with the same one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_groups.cluster.client_credentials import ENDPOINT, CachedToken, Token, client_credentials
from airflow_kafka_groups.exceptions import ConfigurationError

_MSK_SERVER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?(?=$|[,\s])", re.I)
_REMEDY = (
    "OAUTHBEARER needs to know where tokens come from: give sasl.oauthbearer.token.endpoint.url with "
    "sasl.oauthbearer.client.id and .client.secret, or an oauth_cb that [apache_kafka] callback_allowlist names. "
    "Servers of Amazon MSK and Google Managed Kafka need neither"
)


def with_tokens(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Give librdkafka properties with a callable ``oauth_cb`` where the mechanism is OAUTHBEARER, and with none else.

    Raises ``ConfigurationError`` when nothing says where tokens come from, or a callback is not allowed.
    """
    given = dict(properties)
    mechanism = str(given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))).upper()
    callback = given.pop("oauth_cb", None)
    if mechanism == "OAUTHBEARER":
        given["oauth_cb"] = CachedToken(_source(given, callback))
    return given


def _source(given: Mapping[str, Any], callback: Any) -> Callable[[str], Any]:
    servers = str(given.get("bootstrap.servers", ""))
    if is_google(servers):  # as the official provider: before any callback
        return _google()
    if callable(callback):
        found: Callable[[str], Any] = callback
        return found
    if callback:
        return _allowed(str(callback))
    if given.get(ENDPOINT):
        return client_credentials(given)
    if region := _MSK_SERVER.search(servers):
        return _amazon(region[1].lower())
    raise ConfigurationError("oauth_cb", None, _REMEDY)


def is_google(servers: str) -> bool:
    """Say whether these brokers are Google's, which take tokens of its own library."""
    return "cloud.goog" in servers and "managedkafka" in servers


def _allowed(path: str) -> Callable[[str], Any]:
    """Import a callback by its path, if Airflow's configuration allows it, as the official provider does."""
    from airflow.providers.common.compat.module_loading import import_string
    from airflow.sdk import conf

    listed = str(conf.get("apache_kafka", "callback_allowlist", fallback="") or "")
    if path not in {name.strip() for name in listed.split(",")}:
        raise ConfigurationError("oauth_cb", path, "is not allowed: [apache_kafka] callback_allowlist does not name it")
    try:
        found: Callable[[str], Any] = import_string(path)
    except ImportError as error:
        raise ConfigurationError("oauth_cb", path, f"cannot be imported: {error}") from error
    return found


def _google() -> Callable[[str], Any]:
    try:
        from airflow.providers.google.cloud.hooks.managed_kafka import (  # type: ignore[import-not-found]  # optional
            ManagedKafkaHook,
        )
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
