"""How many files of the package one call crosses: a reader has to follow it through each of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import airflow_kafka_groups
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.protocol.api_versions import METADATA, Api, ApiVersions
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.protocol.responses import decode_response
from airflow_kafka_groups.kafka.transport.base import OnAnswers
from tests.fakes import answers
from tests.fakes.apis import ALL_APIS
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.admin.client.faults import client

PACKAGE = str(Path(airflow_kafka_groups.__file__).parent)
GROUPS = ["a", "b", "c"]
MOST_FILES = 19
MOST_FILES_WITH_THE_SOCKET = 22
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
    async def connect(host: str, port: int) -> ScriptedConnection:
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
