"""Count requests and connections: TCP proxies between a client and the brokers, in a thread of their own.

A request begins with its length and its API key, so counting needs no more than that. Brokers name themselves in some
answers (``127.0.0.1`` and a port of four bytes, wherever it stands): there the proxy's port is put in the port's place,
so that clients stay behind the proxies.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

HOST = "127.0.0.1"
NAMING_BROKERS = {3, 10, 60, 69, 75, 76}
"""APIs whose answers may hold brokers' addresses."""


@dataclass(slots=True)
class Counts:
    """The traffic since the last reset."""

    requests: int = 0
    connections: int = 0


def replace_ports(frame: bytes, ports: dict[int, int]) -> bytes:
    """Put the proxies' ports in the place of the brokers'."""
    for port, proxy_port in ports.items():
        address = HOST.encode()
        frame = frame.replace(address + port.to_bytes(4, "big"), address + proxy_port.to_bytes(4, "big"))
    return frame


class Proxies:
    """Serve a proxy for every broker, and count. ``ports``: broker's -> proxy's, known once ``start`` is done."""

    def __init__(self, brokers: list[int]) -> None:
        self.ports: dict[int, int] = {}
        self.counts = Counts()
        self._brokers = brokers
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on free ports."""
        for port in self._brokers:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int = port) -> None:
                # The end of the count: asyncio's server would print a traceback of every task that is cancelled.
                with contextlib.suppress(asyncio.CancelledError):
                    await self._serve(reader, writer, target)

            server = await asyncio.start_server(serve, HOST, 0)
            self._servers.append(server)
            self.ports[port] = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.counts.connections += 1
        asked: deque[int] = deque()
        broker_writer: asyncio.StreamWriter | None = None
        try:
            broker_reader, broker_writer = await asyncio.open_connection(HOST, target)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._requests(reader, broker_writer, asked))
                pumps.create_task(self._answers(broker_reader, writer, asked))
        except* (OSError, asyncio.IncompleteReadError):
            pass  # one end has hung up, so the other is hung up on
        finally:
            self._connections.discard(task)
            for end in (writer, broker_writer):
                if end is not None:
                    end.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int]) -> None:
        while True:
            frame = await _read_frame(reader)
            api_key = int.from_bytes(frame[4:6], "big")
            asked.append(api_key)
            self.counts.requests += 1
            writer.write(frame)
            await writer.drain()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[int]) -> None:
        while True:
            frame = await _read_frame(reader)  # a broker answers in the order of the requests
            writer.write(replace_ports(frame, self.ports) if asked.popleft() in NAMING_BROKERS else frame)
            await writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head, "big"))


@dataclass(slots=True)
class TrafficCounter:
    """The counting proxies as the benchmark sees them."""

    bootstrap: str
    proxies: Proxies

    def reset(self) -> None:
        """Begin anew."""
        self.proxies.counts = Counts()

    def report(self) -> dict[str, Any]:
        """Return the counts since the last reset."""
        return asdict(self.proxies.counts)


@contextmanager
def counting(bootstrap: str) -> Iterator[TrafficCounter]:
    """Put counting proxies before the brokers of ``bootstrap`` for the length of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="counting-proxies", daemon=True)
    thread.start()
    proxies = Proxies([int(address.rpartition(":")[2]) for address in bootstrap.split(",")])
    try:
        asyncio.run_coroutine_threadsafe(proxies.start(), loop).result(10)
        yield TrafficCounter(",".join(f"{HOST}:{port}" for port in proxies.ports.values()), proxies)
    finally:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(proxies.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
