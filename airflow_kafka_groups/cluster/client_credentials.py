"""OAUTHBEARER tokens for a client's id and secret (RFC 6749, 4.4), and how long a token is kept. No Airflow.

A token is kept until shortly before it expires: all brokers of a cluster are connected to with the same one. The names
are librdkafka's.
"""

from __future__ import annotations

import base64
import http.client
import json
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

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
EARLY_SECONDS = 60.0
_HTTP_SECONDS = 10.0
_REFUSED = (400, 401, 403)  # asking again does not help


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


def client_credentials(given: Mapping[str, Any]) -> Callable[[str], Token]:
    """Build what asks a token endpoint for a token, with a client's id and secret (RFC 6749, 4.4).

    Raises ``ConfigurationError`` naming the property that is missing.
    """
    url = str(given[ENDPOINT])
    client_id, secret = (given.get(f"sasl.oauthbearer.client.{name}") for name in ("id", "secret"))
    if "@" in urllib.parse.urlsplit(url).netloc:  # what stands before it may be a secret: it is not shown
        raise ConfigurationError(ENDPOINT, None, "write it without a user (login, password)")
    if urllib.parse.urlsplit(url).scheme not in ("https", "http"):
        raise ConfigurationError(ENDPOINT, url, "must be a URL such as https://host/token")
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
    ca_file, ca_pem = (str(given.get(name) or "") or None for name in ("https.ca.location", "https.ca.pem"))

    def token(config: str) -> Token:
        return _ask(request, ca_file, ca_pem)

    return token


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Take a redirect for an error: urllib would send the client's secret on, to whatever host the answer names."""

    def redirect_request(self, *_: object) -> None:
        """Follow nowhere."""


def _ask(request: urllib.request.Request, ca_file: str | None, ca_pem: str | None) -> Token:
    url = request.full_url.partition("?")[0]
    try:
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file, cadata=ca_pem))
        with urllib.request.build_opener(https, _NoRedirects).open(request, timeout=_HTTP_SECONDS) as answer:
            said = json.load(answer)
        return str(said["access_token"]), time.time() + float(said.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        kind = AuthenticationFailedError if error.code in _REFUSED else ConnectionFailedError
        raise kind(url, f"the token endpoint answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        # Not the answer itself: it may hold a token.
        raise ConnectionFailedError(url, f"the token endpoint gave no token ({type(error).__name__})") from None
