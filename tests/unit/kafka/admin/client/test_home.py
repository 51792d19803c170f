"""Where a client may be used, and how many files of the package one call crosses."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import airflow_kafka_groups
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.protocol.api_versions import DELETE_GROUPS, METADATA, Api, ApiVersions
from airflow_kafka_groups.kafka.protocol.apis import decode_response
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import OnAnswers
from tests.fakes import answers
from tests.fakes.apis import ALL_APIS
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.admin.client.faults import client

CALLS = {
    "list": lambda admin: admin.list_groups(),
    "describe": lambda admin: admin.describe_consumer_groups(["g0"]),
    "offsets": lambda admin: admin.list_consumer_group_offsets(["g0"]),
    "delete": lambda admin: admin.delete_consumer_groups(["g0"]),
    "allowed": lambda admin: admin.authorized_operations(["t"]),
    "cluster": lambda admin: admin.describe_cluster(),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_fork_asks_nothing_over_the_connections_that_it_shares(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would send requests with the same ids over one socket, and each take the answers of the other."""
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        await admin.describe_consumer_groups(["g0"])
        sent = len(fake.sent)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            with pytest.raises(ConfigurationError, match=r"another process \(a fork\); open one"):
                await CALLS[call](admin)
            await admin.__aexit__(None, None, None)
            assert fake.open_connections, "they are those of the parent"
        assert len(fake.sent) == sent


@pytest.mark.parametrize("call", CALLS)
async def test_another_event_loop_is_refused_at_once(call: str) -> None:
    """The connections would get the answers in their own loop, and this one would wait for nothing."""
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        await admin.describe_consumer_groups(["g0"])

        async def elsewhere(admin: AdminClient) -> None:
            await CALLS[call](admin)

        with pytest.raises(ConfigurationError, match="another event loop; open one"):
            await asyncio.to_thread(asyncio.run, elsewhere(admin))
        assert fake.requests(DELETE_GROUPS) == []


@pytest.mark.parametrize("call", CALLS)
async def test_a_client_that_nobody_opened_says_so_at_once(call: str) -> None:
    """It knows no broker: calls waited for one until their deadline, or left connections open that nobody closes."""
    async with FakeCluster(groups={"g0"}) as fake:
        admin = AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}))
        with pytest.raises(ConfigurationError, match="it is not open: call it inside of `async with"):
            await CALLS[call](admin)
        assert fake.sent == []


def test_a_closed_client_is_opened_again_in_another_loop() -> None:
    async def twice() -> AdminClient:
        async with FakeCluster(groups={"g0"}) as fake:
            async with client(fake) as admin:
                assert (await admin.describe_consumer_groups(["g0"]))["g0"].ok
            await asyncio.to_thread(asyncio.run, again(admin))
            assert len(fake.requests(METADATA)) > 1
        return admin

    async def again(admin: AdminClient) -> None:
        async with admin:
            assert (await admin.describe_consumer_groups(["g0"]))["g0"].ok

    asyncio.run(twice())


async def test_a_fork_that_enters_the_client_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after it was left there: its connections are still those of the parent."""
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        await admin.describe_consumer_groups(["g0"])
        sent = len(fake.sent)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            for _ in range(2):
                with pytest.raises(ConfigurationError, match=r"another process \(a fork\); open one"):
                    await admin.__aenter__()
                await admin.__aexit__(None, None, None)
        assert len(fake.sent) == sent
        assert (await admin.describe_consumer_groups(["g0"]))["g0"].ok, "the parent goes on"


async def test_an_open_client_that_is_entered_in_another_loop_is_refused() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        await admin.describe_consumer_groups(["g0"])
        with pytest.raises(ConfigurationError, match="another event loop; open one"):
            await asyncio.to_thread(lambda: asyncio.run(admin.__aenter__()))
        assert (await admin.describe_consumer_groups(["g0"]))["g0"].ok, "the first loop goes on"


PACKAGE = str(Path(airflow_kafka_groups.__file__).parent)
GROUPS = ["a", "b", "c"]
MOST_FILES = 16
MOST_FILES_WITH_THE_SOCKET = 19
"""With the connection itself: its two files, and the codec of request headers."""


class ScriptedConnection:
    """A connection whose broker knows two answers."""

    versions = ApiVersions({api.key: (api.min_version, api.max_version) for api in ALL_APIS})
    usable = True

    def __init__(self) -> None:
        topics = {OFFSETS_TOPIC: [1] * 50}
        fetched = answers.offset_fetch(9, dict.fromkeys(GROUPS, ErrorCode.none), {("t", 0): (5, ErrorCode.none)})
        self._metadata = answers.decoded(answers.metadata(METADATA.max_version, {1: 9092}, topics))
        self._fetched = b"\x00\x00\x00\x00\x00" + encode_body(fetched)

    async def send(self, api: Api, version: int, request: Any, timeout: float) -> Any:
        assert api is METADATA
        return self._metadata

    def submit(self, api: Api, version: int, requests: Any, timeout: float, on_answers: OnAnswers) -> Any:
        answers = [decode_response(api, version, self._fetched) for _ in requests]
        return asyncio.get_running_loop().call_soon(on_answers, answers, {})

    async def drain(self) -> None:
        return None

    async def aclose(self) -> None:
        return None


async def files_crossed(call: Callable[[], Awaitable[Any]]) -> set[str]:
    """Make a call and return the package's files in which it called a function."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE):
            caller = frame.f_back
            if caller is None or "/fakes/" not in caller.f_code.co_filename:
                files.add(name.removeprefix(PACKAGE))

    sys.setprofile(note)
    try:
        results = await call()
    finally:
        sys.setprofile(None)
    assert sorted(results.succeeded) == GROUPS
    return files


async def test_listing_offsets_crosses_few_files() -> None:
    async def connect(host: str, port: int) -> Any:
        return ScriptedConnection()

    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": "127.0.0.1:9092"}), connect) as admin:
        files = await files_crossed(lambda: admin.list_consumer_group_offsets(GROUPS))
    assert len(files) <= MOST_FILES, sorted(files)
    assert "/kafka/admin/engine/driver.py" in files


async def test_listing_offsets_over_a_socket_crosses_few_files() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:
        assert not (await admin.describe_cluster()).errors  # to open a connection crosses more files
        files = await files_crossed(lambda: admin.list_consumer_group_offsets(GROUPS))
    assert len(files) <= MOST_FILES_WITH_THE_SOCKET, sorted(files)
