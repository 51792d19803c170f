"""Opening a connection and sending on it, and what is said when either fails."""

import asyncio
import contextlib
import logging
import socket
import ssl
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import ApiVersionRequest, SaslAuthenticateRequest, SaslAuthenticateResponse_v1

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    NoBrokerAvailableError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT, ApiVersions
from airflow_kafka_groups.kafka.protocol.apis import membership
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from airflow_kafka_groups.kafka.transport import aiokafka_connection as tls
from airflow_kafka_groups.kafka.transport.aiokafka_connection import OpeningConnection, TlsContext
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, SentRequests, open_connection
from airflow_kafka_groups.kafka.transport.security import OAuthConfig, Pem, SecurityConfig
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.transport.test_pipeline import Transport, frame, pipeline_on, turns


async def test_an_answer_that_arrives_as_its_caller_is_cancelled_disturbs_no_other() -> None:
    """The cancelled caller has not run yet when the answers arrive, in one piece."""
    transport = Transport()
    connection = BrokerConnection(pipeline_on(transport), cast("ApiVersions", None), "test", "broker:9092")
    request = membership.build_heartbeat("g", 1, "m", None, 0)
    given_up, other = (asyncio.ensure_future(connection.send(HEARTBEAT, 0, request, 60)) for _ in range(2))
    await turns()
    given_up.cancel()
    transport.protocol.data_received(frame(0, b"\0\0") + frame(1, b"\0\0"))
    assert (await asyncio.wait_for(other, 5)).error == 0
    assert given_up.cancelled()
    assert connection.usable
    await connection.aclose()


@pytest.mark.safety
@pytest.mark.parametrize("payload", [b"\0user\0s3cret", b"n,,\x01auth=Bearer s3cret\x01\x01"])
async def test_the_log_of_the_client_library_has_no_credentials(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It logs each request that opens a connection, and Airflow can mask neither a token nor a password's bytes."""
    caplog.set_level(logging.DEBUG, logger="aiokafka")  # the command line lowers it, for all of this process
    connection: Any = OpeningConnection("broker", 9092, SecurityConfig(), client_id="c")

    async def drain() -> None: ...

    connection._writer = SimpleNamespace(write=lambda data: None, drain=drain)
    connection._versions = {36: (0, 1), 18: (0, 0)}
    await connection.send(SaslAuthenticateRequest(payload), expect_response=False)
    await connection.send(ApiVersionRequest(), expect_response=False)
    connection._writer = None
    assert "s3cret" not in caplog.text
    assert "SaslAuthenticateRequest" in caplog.text
    assert "ApiVersionRequest_v0()" in caplog.text, "other requests are logged as they are"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other options")
async def test_a_path_that_swallows_everything_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a load balancer that has forgotten the connection: without it, calls fail for a quarter of an hour."""
    monkeypatch.setattr("airflow_kafka_groups.kafka.transport.connection._UNACKNOWLEDGED_SECONDS", 1)
    async with FakeCluster() as cluster:
        ((host, port), *_) = ClientConfig.from_librdkafka({"bootstrap.servers": cluster.bootstrap}).bootstrap_servers
        connection = await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
        sock = connection._pipeline._writer.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        await connection.aclose()


async def test_a_connection_takes_nothing_new_when_its_login_is_about_to_expire() -> None:
    transport = Transport()
    soon = asyncio.get_running_loop().time() + 0.05
    connection = BrokerConnection(pipeline_on(transport), cast("ApiVersions", None), "test", "broker:9092", soon)
    assert connection.usable
    under_way = asyncio.ensure_future(
        connection.send(HEARTBEAT, 0, membership.build_heartbeat("g", 1, "m", None, 0), 60)
    )
    await asyncio.sleep(0.06)
    assert not connection.usable
    drained = asyncio.ensure_future(connection.drain())
    await asyncio.sleep(0.05)
    assert not drained.done(), "what is under way is waited for"
    transport.protocol.data_received(frame(0, b"\0\0"))
    assert (await under_way).error == 0
    await asyncio.wait_for(drained, 5)
    await connection.aclose()


async def test_the_lifetime_of_a_login_is_what_the_broker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(self: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Any:
        return SaslAuthenticateResponse_v1(
            error_code=0, error_message=None, sasl_auth_bytes=b"", session_lifetime_ms=10_000
        )

    monkeypatch.setattr(AIOKafkaConnection, "send", send)
    connection = OpeningConnection("broker", 9092, SecurityConfig(), client_id="c")
    assert connection.usable_until is None
    await connection.send(SaslAuthenticateRequest(b""))
    usable_until: float | None = connection.usable_until
    assert usable_until is not None
    assert 8 < usable_until - asyncio.get_running_loop().time() <= 8.5


Came = list[tuple[list[Any], dict[int, Any]]]


def submit(connection: BrokerConnection, groups: str, version: int = 0) -> tuple[SentRequests, Came]:
    """Send a series; return it, and the list that gets what comes of it."""
    came: Came = []
    requests = [membership.build_heartbeat(group, 1, "m", None, version) for group in groups]
    return connection.submit(HEARTBEAT, version, requests, 60, lambda *what: came.append(what)), came


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[BrokerConnection, Transport]]:
    transport = Transport()
    connection = BrokerConnection(pipeline_on(transport), cast("ApiVersions", None), "test", "broker:9092")
    yield connection, transport
    await connection.aclose()


async def test_of_a_series_only_the_request_whose_response_is_wrong_is_to_blame() -> None:
    """What follows is lost with the connection, and may be sent again where that is safe."""
    async with connected() as (connection, transport):
        _, came = submit(connection, "abcd")
        await turns()
        transport.protocol.data_received(frame(0, b"\0\0") + frame(7, b"\0\0"))
        ((answers, errors),) = came
        assert [answer is None for answer in answers] == [False, True, True, True]
        kinds = {place: type(error) for place, error in errors.items()}
        assert kinds == {1: RemoteProtocolError, 2: ConnectionFailedError, 3: ConnectionFailedError}


async def test_answers_are_handed_over_early_where_somebody_asks() -> None:
    async with connected() as (connection, transport):
        series, came = submit(connection, "abcd")
        await turns()
        series.flush()
        assert came == [], "there is nothing yet"
        transport.protocol.data_received(frame(0, b"\0\0") + frame(1, b"noise"))
        series.flush()
        series.flush()
        transport.protocol.data_received(frame(2, b"\0\0"))
        transport.close()
        await turns()
        shapes = [(len(answers), {at: type(error) for at, error in errors.items()}) for answers, errors in came]
        assert shapes == [(2, {1: RemoteProtocolError}), (2, {1: ConnectionFailedError})]
        series.flush()
        assert len(came) == 2


async def test_the_wish_for_silence_does_not_wait_for_the_rest_of_a_series() -> None:
    async with connected() as (connection, transport):
        _, came = submit(connection, "abcd", version=1)
        await turns()
        silence, none = (milliseconds.to_bytes(4, "big") + b"\0\0" for milliseconds in (2_000, 0))
        transport.protocol.data_received(frame(0, none) + frame(1, silence) + frame(2, none))
        ((early, _),) = came
        assert [answer.throttle_time.total_seconds() for answer in early] == [0, 2]
        transport.protocol.data_received(frame(3, silence))
        assert [len(answers) for answers, _ in came] == [2, 2], "and all that came is handed over once"


SASL_HANDSHAKE, API_VERSIONS = 17, 18


@asynccontextmanager
async def broker_that_answers_a_login_with(mechanism: bytes, answer: bytes) -> AsyncIterator[str]:
    """Run a server that speaks Kafka until it comes to the login."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            request = await reader.readexactly(int.from_bytes(size, "big"))
            api = int.from_bytes(request[:2], "big")
            if api == API_VERSIONS:
                body = encode_body(answers.api_versions({3: (0, 12), 17: (0, 1), 18: (0, 0), 36: (0, 1)}))
            elif api == SASL_HANDSHAKE:
                body = b"\0\0" + b"\0\0\0\1" + len(mechanism).to_bytes(2, "big") + mechanism
            else:
                body = b"\0\0" + b"\xff\xff" + len(answer).to_bytes(4, "big") + answer + bytes(8)
            writer.write((4 + len(body)).to_bytes(4, "big") + request[4:8] + body)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield "{}:{}".format(*server.sockets[0].getsockname())


def config(bootstrap: str, mechanism: str, **more: object) -> ClientConfig:
    settings = {"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    return ClientConfig.from_librdkafka({**settings, **more}, connect_timeout=5)


async def test_an_answer_to_a_login_that_makes_no_sense() -> None:
    async with broker_that_answers_a_login_with(b"SCRAM-SHA-256", b"hello") as bootstrap:
        scram = config(bootstrap, "SCRAM-SHA-256", **{"sasl.username": "ann", "sasl.password": "s3cret"})
        with pytest.raises(NoBrokerAvailableError, match="could not be opened: ValueError") as failed:
            async with AdminClient(scram):
                raise AssertionError
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize("error", [LookupError, OSError, TimeoutError, AssertionError])
async def test_a_source_of_tokens_that_fails_is_named_without_its_text(error: type[Exception]) -> None:
    """An error of ``requests`` is an OSError, and has the URL; Airflow logs a failure with all its causes."""

    def no_token(_config: str) -> tuple[str, float]:
        raise error("401 for url: https://idp/token?client_secret=s3cret")

    async with broker_that_answers_a_login_with(b"OAUTHBEARER", b"") as bootstrap:
        with pytest.raises(NoBrokerAvailableError, match=f"could not be opened: {error.__name__}") as failed:
            async with AdminClient(config(bootstrap, "OAUTHBEARER", oauth_cb=no_token)):
                raise AssertionError
    assert "s3cret" not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("answer", [(1.0, "s3cret"), ("s3cret",)])
def test_an_answer_of_such_a_source_that_cannot_be_read_is_not_shown(answer: Any) -> None:
    """``could not convert string to float`` quotes the token where the source gives the expiry first."""
    with pytest.raises(ConnectionFailedError, match="in the source of tokens") as failed:
        OAuthConfig(source=lambda _config: answer).token()
    assert "s3cret" not in "".join(traceback.format_exception(failed.value))


async def test_kerberos_without_its_package_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_kafka_groups.kafka.transport.aiokafka_connection.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install gssapi"):
        async with AdminClient(config("127.0.0.1:1", "GSSAPI")):
            raise AssertionError


TLS = SecurityConfig(protocol="SSL")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[ssl.SSLContext]:
    contexts: list[ssl.SSLContext] = []

    def make(_: SecurityConfig) -> ssl.SSLContext:
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return contexts[-1]

    monkeypatch.setattr(SecurityConfig, "ssl_context", make)
    return contexts


async def test_connections_that_are_opened_together_share_one(made: list[ssl.SSLContext]) -> None:
    shared = TlsContext(TLS)
    given = await asyncio.gather(*(shared.get() for _ in range(5)))
    assert [*given, await shared.get()] == made * 6
    assert len(made) == 1


async def test_certificates_are_read_again_after_a_while(
    made: list[ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = TlsContext(TLS)
    first = await shared.get()
    monkeypatch.setattr(tls, "_FRESH", -1.0)
    assert await shared.get() is not first
    assert len(made) == 2


async def test_plain_text_needs_none(made: list[ssl.SSLContext]) -> None:
    assert await TlsContext(SecurityConfig()).get() is None
    assert not made


async def test_one_that_cannot_be_made_is_tried_again() -> None:
    shared = TlsContext(SecurityConfig(protocol="SSL", ca=Pem(name="ssl.ca", location="nowhere.pem")))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location"):
            await shared.get()


async def test_one_who_gives_up_leaves_nothing_behind_and_the_others_get_theirs(made: list[ssl.SSLContext]) -> None:
    shared = TlsContext(TLS)
    before = asyncio.all_tasks()
    first, second = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    first.cancel()
    assert await second in made
    assert asyncio.all_tasks() == before


async def test_a_listener_without_tls_is_named_as_one() -> None:
    """A Kafka listener without TLS takes the handshake for a request that is too large, and hangs up."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionFailedError, match=r"instead of a TLS handshake; is this listener without TLS\?"):
            await open_connection("127.0.0.1", port, security=TLS, client_id="x", timeout=5)
