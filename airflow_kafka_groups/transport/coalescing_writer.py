"""Put what is sent in one turn of the event loop into one write: brokers that take one group a request get hundreds."""

from __future__ import annotations

import asyncio


class CoalescingWriter:
    """Be a ``StreamWriter`` that writes when the turn of the event loop is over.

    A system call for each request, and a packet for each at the other end, cost more than making the request.

    :param writer: what is written to.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Take data to be written, in this order."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered and not self._writer.is_closing():
            self._writer.write(b"".join(gathered))

    async def drain(self) -> None:
        """Wait until there is room again."""
        self._flush()
        await self._writer.drain()

    def close(self) -> None:
        """Close the socket; what was not written yet never is, as with a connection that breaks."""
        self._gathered.clear()
        self._writer.close()
