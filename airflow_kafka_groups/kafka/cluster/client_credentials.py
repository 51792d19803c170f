"""OAUTHBEARER tokens: requested with a client's id and secret, and cached until shortly before they expire.

All connections to a cluster's brokers authenticate with the same token.
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
from collections.abc import Callable
from typing import Any

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConnectionFailedError
from airflow_kafka_groups.kafka.transport.pem import Pem
from airflow_kafka_groups.kafka.transport.security import Token, TokenEndpoint

EARLY_SECONDS = 60.0
_HTTP_SECONDS = 10.0
_REFUSED = (400, 401, 403)  # asking again does not help
_ENCODING = (
    "; the client's id or secret has characters that some endpoints want encoded (RFC 6749, 2.3.1), which Kafka's own "
    "clients do not do: write both percent-encoded, such as %2B for +"
)


class CachedToken:
    """A source of tokens that caches the token until shortly before it expires. Thread-safe.

    :param source: returns a token and when it expires; its argument is ``sasl.oauthbearer.config``.
    """

    def __init__(self, source: Callable[[str], Any]) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._token: Token = ("", 0.0)

    def __call__(self, config: str) -> Token:
        """Return the cached token or request a new one."""
        with self._lock:
            if self._token[1] - time.time() < EARLY_SECONDS:
                token, expires_at, *_ = self._source(config)
                self._token = (str(token), float(expires_at))
            return self._token


def client_credentials(endpoint: TokenEndpoint) -> Callable[[str], Token]:
    """Return a function that requests a token with the client's id and secret (RFC 6749, 4.4)."""
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    basic = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - TokenEndpoint has checked the scheme
        endpoint.url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {basic}", "Accept": "application/json"},
    )
    given = (endpoint.client_id, endpoint.client_secret)
    remedy = "" if all(urllib.parse.quote_plus(text) == text for text in given) else _ENCODING
    return lambda config: _request_token(request, endpoint.ca, remedy)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that makes a redirect an error: urllib would send the client's secret to the host that it names."""

    def redirect_request(self, *_: object) -> None:
        """Return no request to follow."""


def _request_token(request: urllib.request.Request, ca: Pem, remedy: str) -> Token:
    url = request.full_url.partition("?")[0]
    try:
        context = ssl.create_default_context(cafile=ca.location, cadata=ca.text)
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects)
        with opener.open(request, timeout=_HTTP_SECONDS) as response:
            answer = json.load(response)
        return str(answer["access_token"]), time.time() + float(answer.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        answered = f"the token endpoint answered {error.code} {error.reason}"
        if error.code not in _REFUSED:
            raise ConnectionFailedError(url, answered) from None
        raise AuthenticationFailedError(url, f"{answered}{remedy}") from None
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        # The answer itself is not shown: it may hold a token.
        raise ConnectionFailedError(url, f"the token endpoint gave no token ({type(error).__name__})") from None
