"""The distance to a broker: later, but in order, whole and not slower."""

import asyncio
import functools
from collections.abc import AsyncIterator

import pytest

from tests.lab.servers import proxy

DELAY_S = 0.05


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Serve an echo behind the proxy, and give the proxy's port."""
    async with await asyncio.start_server(_echo, proxy.HOST, 0) as echo:
        target = echo.sockets[0].getsockname()[1]
        serve_one = functools.partial(proxy.serve_one, target=target, delay_s=DELAY_S)
        async with await asyncio.start_server(serve_one, proxy.HOST, 0) as server:
            yield server.sockets[0].getsockname()[1]


async def test_an_answer_takes_the_delay_twice(port: int) -> None:
    reader, writer = await asyncio.open_connection(proxy.HOST, port)
    started = asyncio.get_running_loop().time()
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    assert asyncio.get_running_loop().time() - started >= 2 * DELAY_S
    writer.close()


async def test_a_pipeline_is_delayed_once_and_stays_in_order(port: int) -> None:
    reader, writer = await asyncio.open_connection(proxy.HOST, port)
    loop = asyncio.get_running_loop()
    started = loop.time()
    sent = b""
    for number in range(100):
        part = f"{number:04d}".encode() * 256
        writer.write(part)
        sent += part
        await asyncio.sleep(0)
    assert await reader.readexactly(len(sent)) == sent
    assert loop.time() - started < 100 * DELAY_S / 2
    writer.close()
