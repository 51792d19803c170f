"""Where tokens come from, and what is refused; the real log-in is tested in tests/dags/test_connection.py."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.hooks.connection import airflow_token_source
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.transport.security import CachedToken

SECRET = "s3cr3t"
OAUTH = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def token_of(settings: dict[str, Any]) -> Callable[[], tuple[str, float]]:
    """Return the function that the transport calls for a token."""
    config = ClientConfig.from_librdkafka(settings, token_source=airflow_token_source)
    assert config.security.oauth is not None
    return config.security.oauth.token


def module(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    made = ModuleType(name)
    vars(made).update(contents)
    for part in [".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)]:
        if part not in sys.modules:
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
    monkeypatch.setitem(sys.modules, name, made)


def give_token(config: str) -> tuple[str, float]:
    return f"token of {config}", time.time() + 3600


@pytest.fixture
def endpoint() -> Iterator[SimpleNamespace]:
    seen = SimpleNamespace(requests=[], status=200, location="", raw=b"")
    seen.answer = json.dumps({"access_token": "t1", "expires_in": 3600})

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            seen.requests.append((self.headers["Authorization"], body))
            if seen.raw:
                self.wfile.write(seen.raw)
                return
            self.send_response(seen.status)
            if seen.location:
                self.send_header("Location", seen.location)
            self.end_headers()
            self.wfile.write(seen.answer.encode())

        do_GET = do_POST

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        seen.url = f"http://127.0.0.1:{server.server_address[1]}/token"
        yield seen
        server.shutdown()


def client(endpoint: SimpleNamespace, **more: str) -> dict[str, Any]:
    names = {"client.id": "me", "client.secret": SECRET, "token.endpoint.url": endpoint.url, **more}
    return {**OAUTH, **{f"sasl.oauthbearer.{name}": value for name, value in names.items()}}


def test_without_oauthbearer_nothing_is_asked_and_no_callback_is_looked_at() -> None:
    settings = {"bootstrap.servers": "b", "oauth_cb": "no.such"}
    assert ClientConfig.from_librdkafka(settings, token_source=airflow_token_source).security.oauth is None


def test_client_credentials_are_sent_once_and_the_token_is_kept(endpoint: SimpleNamespace) -> None:
    callback = token_of(client(endpoint, scope="kafka"))
    assert [callback()[0], callback()[0]] == ["t1", "t1"]
    assert endpoint.requests == [("Basic bWU6czNjcjN0", "grant_type=client_credentials&scope=kafka")]
    endpoint.answer = json.dumps({"access_token": "t1", "expires_in": 30})
    callback = token_of(client(endpoint))
    assert [callback()[0], callback()[0]] == ["t1", "t1"]
    assert len(endpoint.requests) == 3, "one that is about to expire is asked for again"


def test_a_refusal_shows_no_secret(endpoint: SimpleNamespace) -> None:
    endpoint.status = 401
    with pytest.raises(AuthenticationFailedError, match="answered 401") as refused:
        token_of(client(endpoint, **{"client.secret": "hunter2"}))()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [(401, SECRET, "401"), (503, SECRET, "503"), *((200, answer, "no token") for answer in (SECRET, "[]", "{}"))],
)
def test_an_endpoint_that_gives_none_is_said_without_its_answer(
    endpoint: SimpleNamespace, status: int, answer: str, said: str
) -> None:
    endpoint.status, endpoint.answer = status, answer
    with pytest.raises(ConnectionFailedError, match=said) as caught:
        token_of(client(endpoint))()
    assert SECRET not in str(caught.value)
    assert isinstance(caught.value, AuthenticationFailedError) is (status == 401), "only this fails for good"


@pytest.mark.safety
def test_a_redirect_is_not_followed(endpoint: SimpleNamespace) -> None:
    """The client's secret would be sent along, to whatever host the answer names."""
    endpoint.status, endpoint.location = 307, f"{endpoint.url}/elsewhere"
    with pytest.raises(ConnectionFailedError, match="307"):
        token_of(client(endpoint))()
    assert len(endpoint.requests) == 1
    endpoint.raw = b"SSH-2.0-OpenSSH_9.6\r\n"
    with pytest.raises(ConnectionFailedError, match="no token"):
        token_of(client(endpoint))()


@pytest.mark.parametrize("url", [f"https://me:{SECRET}@h/t", f"https://{SECRET}@h/t"])
def test_a_url_with_a_user_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="without a user") as caught:
        token_of(client(SimpleNamespace(url=url)))
    assert SECRET not in str(caught.value)


def test_a_callback_needs_airflows_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{__name__}.give_token"
    given = {**OAUTH, "oauth_cb": path, "sasl.oauthbearer.config": "x"}
    with pytest.raises(ConfigurationError, match="callback_allowlist"):
        token_of(given)
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", f"other.one, {path}, no.such")
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this_module())
    assert token_of(given)()[0] == "token of x"
    with pytest.raises(ConfigurationError, match="cannot be imported"):
        token_of({**OAUTH, "oauth_cb": "no.such"})


def _this_module() -> ModuleType:
    made = ModuleType(__name__)
    vars(made)["give_token"] = give_token
    return made


@pytest.mark.parametrize(
    ("server", "region"),
    [
        ("b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098,b-2.x", "us-east-1"),
        ("boot-abcde1.c2.kafka-serverless.EU-west-1.amazonaws.com:9098", "eu-west-1"),
        ("b-1.demo.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
    ],
)
def test_amazon_signs_for_the_region_of_the_servers(monkeypatch: pytest.MonkeyPatch, server: str, region: str) -> None:
    expires_ms = (time.time() + 900) * 1000
    provider = SimpleNamespace(generate_auth_token=lambda asked: (f"signed for {asked}", expires_ms))
    module(monkeypatch, "aws_msk_iam_sasl_signer", MSKAuthTokenProvider=provider)
    given = {"bootstrap.servers": server, "security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}
    assert token_of(given)() == (f"signed for {region}", expires_ms / 1000)


def test_google_gives_the_token_of_its_own_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = SimpleNamespace(get_confluent_token=lambda config: ("from google", time.time() + 900))
    name = "airflow.providers.google.cloud.hooks.managed_kafka"
    module(monkeypatch, name, ManagedKafkaHook=lambda: hook)
    server = "bootstrap.c.europe-west1.managedkafka.p.cloud.goog:9092"
    assert token_of({**OAUTH, "bootstrap.servers": server})()[0] == "from google"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "where tokens come from"),
        ({"bootstrap.servers": "b-1.kafka.us-east-1.amazonaws.com:9098"}, "aws-msk-iam-sasl-signer"),
        ({"bootstrap.servers": "b.managedkafka.p.cloud.goog:9092"}, "apache-airflow-providers-google"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/t"}, "client.secret"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "write a URL"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        token_of({**OAUTH, **given})


def test_many_threads_get_one_token() -> None:
    asked = []

    def slow(config: str) -> tuple[str, float]:
        asked.append(config)
        time.sleep(0.05)
        return "t", time.time() + 3600

    token = CachedToken(slow)
    threads = [threading.Thread(target=token, args=("",)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1
