"""A small OIDC provider, and brokers that check its tokens: signatures by its public keys, issuer, audience, expiry.

::

    with Provider({"my-client": "its-secret"}) as provider, provider.cluster() as cluster:
        ...  # log in at cluster.sasl_bootstrap (SASL_PLAINTEXT, OAUTHBEARER) with a token of provider.token_url

It knows one grant, client credentials (RFC 6749, 4.4), with the client's id and secret by HTTP's Basic scheme, and
speaks HTTP without TLS on the loopback address: it is for tests only.
"""

import base64
import binascii
import json
import threading
import time
import urllib.parse
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from tests.lab.cluster import KafkaCluster
from tests.lab.machine.ports import HOST
from tests.lab.machine.service import Service

AUDIENCE = "kafka"
_KEY_BITS = 2048
_SECURITY = "org.apache.kafka.common.security.oauthbearer"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class Provider(Service):
    """A server that issues tokens to known clients, with the public keys, until ``stop()`` or the end of ``with``.

    :param clients: ids and secrets of who may have a token.
    :param lifetime_seconds: how long a token holds; may be changed while the provider runs.
    """

    def __init__(self, clients: Mapping[str, str], *, lifetime_seconds: float = 3600) -> None:
        self.clients = dict(clients)
        self.lifetime_seconds = lifetime_seconds
        self.asked: list[str] = []
        """The clients that were given a token, in order."""
        self.refused = 0
        """How often a client was not given one."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        self._key_id = uuid.uuid4().hex
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Return the provider's address, which is also the tokens' issuer."""
        assert self._server is not None, "start the provider first"
        return f"http://{HOST}:{self._server.server_address[1]}"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    @property
    def java_option(self) -> str:
        """Return the option with which a JVM may ask this provider: Kafka 4 asks none that is not named so."""
        return f"-D{_ALLOWED_URLS}={self.token_url},{self.jwks_url}"

    def start(self) -> Self:
        """Begin to answer, on a free port."""
        self._server = ThreadingHTTPServer((HOST, 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, name="oidc-provider", daemon=True).start()
        return self

    def stop(self) -> None:
        """Answer no more. May be called twice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def cluster(self, **more: Any) -> KafkaCluster:
        """Build a cluster, not started yet, whose login listener takes this provider's tokens and nothing else.

        :param more: what ``KafkaCluster`` takes; a version has to be 4.0 or later.
        """
        config = {**self.broker_config(), **more.pop("config", {})}
        options = (self.java_option, *more.pop("java_options", ()))
        return KafkaCluster(brokers=1, sasl_users={"nobody": ""}, config=config, java_options=options, **more)

    def broker_config(self) -> dict[str, object]:
        """Make the lab's login listener check tokens by this provider's keys."""
        prefix = "listener.name.login.oauthbearer.sasl"
        return {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.jaas.config": f"{_SECURITY}.OAuthBearerLoginModule required;",
            f"{prefix}.server.callback.handler.class": f"{_SECURITY}.OAuthBearerValidatorCallbackHandler",
            # Brokers 4.1.0 by default look at a token as clients do: at its form and its expiry, and at no signature.
            # This one name they read only without the mechanism in it.
            "listener.name.login.sasl.oauthbearer.jwt.validator.class": f"{_SECURITY}.BrokerJwtValidator",
            f"{prefix}.oauthbearer.jwks.endpoint.url": self.jwks_url,
            f"{prefix}.oauthbearer.expected.issuer": self.url,
            f"{prefix}.oauthbearer.expected.audience": AUDIENCE,
        }

    def token(self, client_id: str, *, scope: str = "kafka", **claims: Any) -> str:
        """Sign a token (RS256).

        :param claims: change or add claims: ``exp=0`` makes a token that has expired.
        """
        now = time.time()
        times = {"iat": int(now), "exp": int(now + self.lifetime_seconds)}
        said = {"iss": self.url, "aud": AUDIENCE, "sub": client_id, "scope": scope, "jti": uuid.uuid4().hex, **times}
        head = {"alg": "RS256", "typ": "JWT", "kid": self._key_id}
        content = f"{_encoded(head)}.{_encoded({**said, **claims})}"
        return f"{content}.{_text(self._key.sign(content.encode(), padding.PKCS1v15(), SHA256()))}"

    def jwks(self) -> dict[str, Any]:
        """Return the public keys (RFC 7517)."""
        public = self._key.public_key().public_numbers()
        numbers = {name: _text(n.to_bytes((n.bit_length() + 7) // 8)) for name, n in (("e", public.e), ("n", public.n))}
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self._key_id, **numbers}]}

    def grant(self, authorization: str, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Answer a request for a token: the HTTP status, and what is said."""
        client_id = self._known_client(authorization)
        if client_id is None:
            self.refused += 1
            return 401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
        if form.get("grant_type") != ["client_credentials"]:
            self.refused += 1
            return 400, {"error": "unsupported_grant_type"}
        self.asked.append(client_id)
        scope = form.get("scope", ["kafka"])[0]
        given = {"access_token": self.token(client_id, scope=scope), "token_type": "Bearer"}
        return 200, {**given, "expires_in": int(self.lifetime_seconds), "scope": scope}

    def _known_client(self, authorization: str) -> str | None:
        scheme, _, encoded = authorization.partition(" ")
        try:
            client_id, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        known = scheme.lower() == "basic" and client_id in self.clients and self.clients[client_id] == secret
        return client_id if known else None


def oidc_connection(servers: str, token_url: str, client_id: str, secret: str) -> Any:
    """Build what has the fields of an Airflow connection of the type ``kafka_groups`` that logs in by OIDC."""
    extra = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "oauth_token_url": token_url,
        "properties": {"sasl.oauthbearer.method": "oidc"},
    }
    fields = {"conn_id": "oidc", "conn_type": "kafka_groups", "host": servers, "port": None}
    return SimpleNamespace(**fields, login=client_id, password=secret, extra=json.dumps(extra))


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/jwks"
            self._answer(200 if found else 404, provider.jwks() if found else {})

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            if self.path != "/token":
                self._answer(404, {})
                return
            self._answer(*provider.grant(self.headers.get("Authorization", ""), urllib.parse.parse_qs(form)))

        def log_message(self, *args: object) -> None:
            """Log nothing."""

        def _answer(self, status: int, said: Mapping[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _encoded(part: Mapping[str, Any]) -> str:
    return _text(json.dumps(part).encode())


def _text(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")
