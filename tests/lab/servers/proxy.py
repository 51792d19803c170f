"""A distance to the brokers: TCP proxies that hold every chunk for a fixed time, each way.

Chunks are delayed, not queued behind each other's delay: a pipeline stays a pipeline, only later. Runs as a script of
its own (stdlib only), so that neither the tests' event loop nor its interpreter lock is in the way.
"""

import asyncio
import contextlib
import functools
import socket
import sys
from collections.abc import Sequence

HOST = "127.0.0.1"
CHUNK = 256 * 1024
MAX_CHUNKS = 1024  # in flight each way and connection; beyond it the sender waits, as with a full network


def command(routes: Sequence[tuple[int, int]], delay_ms: float) -> list[str]:
    """Return the command line that serves these (listening port, broker port) pairs."""
    return [sys.executable, "-I", "-S", __file__, f"{delay_ms:g}", *(f"{port}:{target}" for port, target in routes)]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Carry one direction of a connection, every chunk ``delay_s`` later, its end as well."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MAX_CHUNKS)

    async def read() -> None:
        while True:
            data = await reader.read(CHUNK)
            await chunks.put((loop.time() + delay_s, data))
            if not data:
                return

    async def write() -> None:
        while True:
            due, data = await chunks.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(read())
        tasks.create_task(write())


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, target: int, delay_s: float) -> None:
    """Connect a client through to the broker; a broker that is down, or goes down, closes the client's connection."""
    ends = [writer]
    try:
        there_reader, there_writer = await asyncio.open_connection(HOST, target)
        ends.append(there_writer)
        for end in ends:
            _no_nagle(end)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pump(reader, there_writer, delay_s))
            tasks.create_task(pump(there_reader, writer, delay_s))
    except* OSError:
        pass  # one side is gone, and the other is told so
    finally:
        for end in ends:
            end.close()


def _no_nagle(writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def serve(routes: Sequence[tuple[int, int]], delay_s: float) -> None:
    """Serve every route until cancelled."""
    servers = [
        await asyncio.start_server(functools.partial(serve_one, target=target, delay_s=delay_s), HOST, port)
        for port, target in routes
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main(arguments: Sequence[str]) -> None:
    """Serve ``delay_ms port:target …``."""
    delay_ms, *pairs = arguments
    routes = [(int(port), int(target)) for port, _, target in (pair.partition(":") for pair in pairs)]
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(routes, float(delay_ms) / 1000))


if __name__ == "__main__":
    main(sys.argv[1:])
