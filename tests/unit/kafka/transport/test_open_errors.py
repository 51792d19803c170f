"""Whatever fails while a connection is opened is one of the package's errors, and quotes no secret."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError, NoBrokerAvailableError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from airflow_kafka_groups.kafka.transport.security import OAuthConfig
from tests.fakes import answers

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
    monkeypatch.setattr("airflow_kafka_groups.kafka.transport.kerberos.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install gssapi"):
        async with AdminClient(config("127.0.0.1:1", "GSSAPI")):
            raise AssertionError
