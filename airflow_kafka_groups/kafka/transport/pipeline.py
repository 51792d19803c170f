"""Frames over an open connection, many in flight: Kafka answers the requests of one connection in their order.

What is sent in one turn of the event loop is one write, and one timer serves all the deadlines. A proxy may acknowledge
what it gets long after it has lost the broker, so a connection that sends nothing from a request until its deadline is
closed. Not while a change is under way: the broker may still work on it, and what follows must not overtake it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from airflow_kafka_groups.exceptions import RemoteProtocolError

_SIZE = 4
_LARGEST_FRAME = 2**28
"""More than a million groups fill; the first bytes of what is not Kafka's protocol say more, as a rule."""
_CLOSING_SECONDS = 1.0
"""How long the other side may take to agree to the end of a TLS connection; asyncio waits for 30 s."""
_DRAIN_SECONDS = 0.02


class Exchange(ABC):
    """Requests in flight that were sent together; a ``Pipeline`` sets the fields."""

    __slots__ = ("changes", "deadline", "missing", "next_id", "sent_at", "waited_for")
    next_id: int  # the correlation id of the next response; the others have those that follow
    missing: int  # how many responses have not come
    sent_at: float
    deadline: float
    changes: bool
    waited_for: bool

    @abstractmethod
    def take(self, frame: bytes) -> None:
        """Take the next response, without its length."""

    @abstractmethod
    def end(self, errors: Sequence[Exception]) -> None:
        """Take the end: an error for each response that will not come."""

    def cancel(self) -> None:
        """Stop waiting for the responses: they are passed over when they come, and there is no end."""
        self.waited_for = False

    def finish(self, errors: Sequence[Exception]) -> None:
        """End it, once: nothing more comes."""
        if self.waited_for:
            self.waited_for = False
            self.end(errors)


class Pipeline(asyncio.Protocol):
    """The frames of one connection. It takes over a connection that is open and authenticated.

    :param writer: the connection. Its transport gets another protocol, and it is kept: it closes the transport when it
        is collected.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._transport = writer.transport
        self._unwritten: list[bytes] = []
        self._in_flight: deque[Exchange] = deque()
        self._received = bytearray()
        self._missing = _SIZE
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = self._loop.time()
        self._closed = self._loop.create_future()
        self._transport.set_protocol(self)

    @property
    def open(self) -> bool:
        """Whether a request may still be sent."""
        return not self._transport.is_closing()

    def submit(
        self, first_id: int, requests: Sequence[bytes], timeout: float, exchange: Exchange, *, changes: bool = False
    ) -> None:
        """Send requests; in later turns, ``exchange`` gets each response, and then the end.

        :param changes: whether they change something. Default false.

        An error is ``ConnectionError`` when the connection breaks, ``TimeoutError`` after ``timeout`` seconds, and
        ``RemoteProtocolError`` for a response that is not the next one. Raises ``ConnectionError`` when the connection
        is closed already.
        """
        if not self.open:
            raise ConnectionResetError("the connection is closed")
        if not self._unwritten:
            self._loop.call_soon(self._write)
        for request in requests:
            self._unwritten += (len(request).to_bytes(_SIZE, "big"), request)
        now = self._loop.time()
        exchange.next_id, exchange.missing, exchange.changes = first_id, len(requests), changes
        exchange.sent_at, exchange.deadline, exchange.waited_for = now, now + timeout, True
        self._in_flight.append(exchange)
        if self._timer is None or exchange.deadline < self._timer.when():
            self._watch(exchange.deadline)

    async def drain(self) -> None:
        """Wait until nothing is in flight; each request has its deadline."""
        while any([exchange.waited_for for exchange in self._in_flight]):  # noqa: ASYNC110  # rare: no event at each frame
            await asyncio.sleep(_DRAIN_SECONDS)

    async def aclose(self) -> None:
        """Close the connection and wait until it is gone. What was not written yet never is."""
        self._unwritten.clear()
        if self._transport.get_write_buffer_size():  # the other side reads nothing, and may never do so
            self._transport.abort()
        self._transport.close()
        patience = self._loop.call_later(_CLOSING_SECONDS, self._transport.abort)
        self._closed.add_done_callback(lambda _: patience.cancel())
        await asyncio.shield(self._closed)

    # Called by the event loop

    def data_received(self, data: bytes) -> None:
        """Cut what arrived into frames."""
        self._heard_at = self._loop.time()
        if self._received:
            self._received += data
            if len(self._received) < self._missing:
                return
            data = bytes(self._received)
            self._received.clear()
        start, end = 0, len(data)
        while end - start >= _SIZE:
            body = start + _SIZE
            size = int.from_bytes(data[start:body], "big", signed=True)
            if not _SIZE <= size <= _LARGEST_FRAME:
                self._break(RemoteProtocolError(f"a frame of {size} bytes"))
                return
            if end - body < size:
                self._missing = _SIZE + size
                break
            start = body + size
            if not self._answer(data[body:start]):
                return
        else:
            self._missing = _SIZE
        self._received += data[start:]

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what is in flight."""
        if self._timer is not None:
            self._timer.cancel()
        while self._in_flight:
            lost = ConnectionResetError("the connection was closed")
            lost.__cause__ = error
            exchange = self._in_flight.popleft()
            exchange.finish([lost] * exchange.missing)
        if not self._closed.done():
            self._closed.set_result(None)

    def _write(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        if unwritten and self.open:
            self._transport.write(b"".join(unwritten))

    def _answer(self, frame: bytes) -> bool:
        if not self._in_flight:
            return self._break(RemoteProtocolError("a response to no request"))
        exchange = self._in_flight[0]
        if int.from_bytes(frame[:_SIZE], "big") != exchange.next_id:
            return self._break(RemoteProtocolError("a response to another request"))
        exchange.next_id += 1
        exchange.missing -= 1
        if exchange.waited_for:
            exchange.take(frame)
        if not exchange.missing:
            self._in_flight.popleft()
            exchange.finish(())
        return True

    def _break(self, error: RemoteProtocolError) -> bool:
        """Fail the next request with an error, and the others by closing the connection."""
        if self._in_flight:
            exchange = self._in_flight.popleft()
            closed = ConnectionResetError("the connection was closed")
            exchange.finish([error, *[closed] * (exchange.missing - 1)])
        self._transport.abort()
        return False

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        left: list[float] = []
        is_dead = False
        for exchange in list(self._in_flight):
            if not exchange.waited_for:
                continue
            if exchange.deadline <= now:
                exchange.finish([TimeoutError()] * exchange.missing)
                is_dead = is_dead or (not left and self._heard_at <= exchange.sent_at)
            else:
                left.append(exchange.deadline)
        if is_dead and not any([exchange.changes for exchange in self._in_flight]):
            self._transport.abort()
        elif left:
            self._watch(min(left))
