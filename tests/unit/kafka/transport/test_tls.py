"""How often a TLS context is made."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.transport import aiokafka_connection as tls
from airflow_kafka_groups.kafka.transport.aiokafka_connection import TlsContext
from airflow_kafka_groups.kafka.transport.connection import open_connection
from airflow_kafka_groups.kafka.transport.pem import Pem
from airflow_kafka_groups.kafka.transport.security import SecurityConfig, TlsConfig

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
    shared = TlsContext(SecurityConfig(protocol="SSL", tls=TlsConfig(ca=Pem(name="ssl.ca", location="nowhere.pem"))))
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
