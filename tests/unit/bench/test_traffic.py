"""Counting proxies, in front of a small server that answers frames."""

from __future__ import annotations

import asyncio

from tests.bench.traffic import HOST, Proxies, replace_ports


def _frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def test_a_brokers_port_becomes_the_proxys_wherever_it_stands() -> None:
    def address(port: int) -> bytes:
        return HOST.encode() + port.to_bytes(4, "big")

    told = b"\x0a" + address(9092) + b"rack" + address(9093) + address(7000)
    assert replace_ports(told, {9092: 1001, 9093: 1002}) == b"\x0a" + address(1001) + b"rack" + address(1002) + address(
        7000
    )


async def test_requests_are_counted_by_api_and_bytes_both_ways() -> None:
    metadata, offsets = _frame(b"\x00\x03metadata"), _frame(b"\x00\x09fetch")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            await reader.readexactly(int.from_bytes(size, "big"))
            writer.write(_frame(b"answer"))
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    proxies = Proxies([server.sockets[0].getsockname()[1]])
    await proxies.start()
    (port,) = proxies.ports.values()
    reader, writer = await asyncio.open_connection(HOST, port)
    for request in (metadata, offsets, offsets):
        writer.write(request)
        assert await reader.readexactly(10) == _frame(b"answer")
    writer.close()
    await proxies.stop()
    server.close()

    assert proxies.counts.as_json() == {
        "requests": 3,
        "by_api": {"Metadata": 1, "OffsetFetch": 2},
        "bytes_sent": len(metadata) + 2 * len(offsets),
        "bytes_received": 30,
        "connections": 1,
    }
