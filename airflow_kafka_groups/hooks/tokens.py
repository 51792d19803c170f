"""Where an OAUTHBEARER token comes from: client credentials, a callback that is allowed, Amazon MSK IAM, Google.

The names are librdkafka's and the official provider's: a connection of the type ``kafka`` that logs in there logs in
here. A token is kept until shortly before it expires: all brokers of a cluster are connected to with the same one.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConfigurationError, ConnectionFailedError

Token = tuple[str, float]
"""A token, and when it expires, in seconds since 1970."""

EARLY_SECONDS = 60.0
_HTTP_SECONDS = 10.0
_REFUSED = (400, 401, 403)  # asking again does not help
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


class CachedToken:
    """Ask for a token, and keep it until shortly before it expires. Safe to call from many threads.

    :param source: gives a token and when it expires; gets what ``sasl.oauthbearer.config`` says.
    """

    def __init__(self, source: Callable[[str], Any]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._token: Token = ("", 0.0)

    def __call__(self, config: str) -> Token:
        """Give the token that is there, or a new one."""
        with self._lock:
            if self._token[1] - time.time() < EARLY_SECONDS:
                token, expires_at, *_ = self._source(config)
                self._token = (str(token), float(expires_at))
            return self._token


def _source(given: Mapping[str, Any], callback: Any) -> Callable[[str], Any]:
    servers = str(given.get("bootstrap.servers", ""))
    if "cloud.goog" in servers and "managedkafka" in servers:  # as the official provider: before any callback
        return _google()
    if callable(callback):
        found: Callable[[str], Any] = callback
        return found
    if callback:
        return _allowed(str(callback))
    if given.get("sasl.oauthbearer.token.endpoint.url"):
        return client_credentials(given)
    if region := _MSK_SERVER.search(servers):
        return _amazon(region[1].lower())
    raise ConfigurationError("oauth_cb", None, _REMEDY)


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


def client_credentials(given: Mapping[str, Any]) -> Callable[[str], Token]:
    """Build what asks a token endpoint for a token, with a client's id and secret (RFC 6749, 4.4).

    Raises ``ConfigurationError`` naming the property that is missing.
    """
    url = str(given["sasl.oauthbearer.token.endpoint.url"])
    client_id, secret = (given.get(f"sasl.oauthbearer.client.{name}") for name in ("id", "secret"))
    if "@" in urllib.parse.urlsplit(url).netloc:  # what stands before it may be a secret: it is not shown
        raise ConfigurationError(
            "sasl.oauthbearer.token.endpoint.url", None, "write it without a user (login, password)"
        )
    if urllib.parse.urlsplit(url).scheme not in ("https", "http"):
        raise ConfigurationError("sasl.oauthbearer.token.endpoint.url", url, "must be a URL such as https://host/token")
    if not client_id or not secret:
        raise ConfigurationError(
            "sasl.oauthbearer.client.id and .client.secret", None, "a token endpoint needs both (login and password)"
        )
    form = {"grant_type": "client_credentials"}
    if scope := given.get("sasl.oauthbearer.scope"):
        form["scope"] = str(scope)
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {basic}", "Accept": "application/json"},
    )
    ca_file = given.get("https.ca.location")

    def token(config: str) -> Token:
        return _ask(request, None if ca_file is None else str(ca_file))

    return token


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Take a redirect for an error: urllib would send the client's secret on, to whatever host the answer names."""

    def redirect_request(self, *_: object) -> None:
        """Follow nowhere."""


def _ask(request: urllib.request.Request, ca_file: str | None) -> Token:
    url = request.full_url.partition("?")[0]
    try:
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file))
        with urllib.request.build_opener(https, _NoRedirects).open(request, timeout=_HTTP_SECONDS) as answer:
            said = json.load(answer)
        return str(said["access_token"]), time.time() + float(said.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        kind = AuthenticationFailedError if error.code in _REFUSED else ConnectionFailedError
        raise kind(url, f"the token endpoint answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        # Not the answer itself: it may hold a token.
        raise ConnectionFailedError(url, f"the token endpoint gave no token ({type(error).__name__})") from None
