"""Frames over one connection: many requests in one write, responses in any chunks, an end that fails what is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.transport.pipeline import Exchange, Pipeline


class Transport:
    """A transport that keeps what is written, and closes as the event loop's do: a turn later."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False
        self.protocol: Any = None

    @property
    def transport(self) -> Transport:
        return self

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self, error: Exception | None = None) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)

    abort = close


def pipeline_on(transport: Transport) -> Pipeline:
    return Pipeline(cast("Any", transport))


def frame(number: int, body: bytes = b"") -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + number.to_bytes(4, "big") + body


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
async def pipeline(transport: Transport) -> AsyncIterator[Pipeline]:
    yield (pipeline := pipeline_on(transport))
    await pipeline.aclose()


class Frames(Exchange):
    """What comes of requests, which a function gets at their end."""

    def __init__(self, on_end: Callable[[list[bytes], Sequence[Exception]], object] = lambda *_: None) -> None:
        self.frames: list[bytes] = []
        self.errors: Sequence[Exception] | None = None
        self._on_end = on_end

    def take(self, frame: bytes) -> None:
        self.frames.append(frame)

    def end(self, errors: Sequence[Exception]) -> None:
        assert self.errors is None, "there is one end"
        self.errors = errors
        self._on_end(self.frames, errors)


def ask(pipeline: Pipeline, number: int, timeout: float = 60) -> asyncio.Future[bytes]:
    response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def settle(frames: list[bytes], errors: Sequence[Exception]) -> None:
        if response.done():  # it was cancelled
            return
        if errors:
            response.set_exception(errors[0])
        else:
            response.set_result(frames[0])

    pipeline.submit(number, [b"request %d" % number], timeout, Frames(settle))
    return response


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_is_sent_in_one_turn_is_one_write(transport: Transport, pipeline: Pipeline) -> None:
    asked = [ask(pipeline, number) for number in range(100)]
    await turns()
    assert transport.written == [
        b"".join(b"\x00\x00\x00" + bytes([len(r)]) + r for r in map(b"request %d".__mod__, range(100)))
    ]
    transport.protocol.data_received(b"".join(frame(number, b"%d" % number) for number in range(100)))
    assert [response[4:] for response in await asyncio.gather(*asked)] == [b"%d" % number for number in range(100)]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_responses_arrive_in_any_chunks(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(frame(number, body) for number, body in enumerate(bodies))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=8)))

    async def exchange() -> list[bytes]:
        transport = Transport()
        pipeline = pipeline_on(transport)
        asked = [ask(pipeline, number) for number in range(len(bodies))]
        await turns()
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            transport.protocol.data_received(stream[start:end])
        responses = await asyncio.gather(*asked)
        await pipeline.aclose()
        return responses

    assert [response[4:] for response in asyncio.run(exchange())] == bodies


async def test_each_request_has_its_own_deadline(transport: Transport, pipeline: Pipeline) -> None:
    late, soon, later = ask(pipeline, 0), ask(pipeline, 1, 0.01), ask(pipeline, 2, 0.02)
    for task in (soon, later):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 5)
    assert pipeline.open
    transport.protocol.data_received(frame(0, b"late") + frame(1) + frame(2))
    assert (await late)[4:] == b"late", "and responses that nobody waits for are passed over"
    again = ask(pipeline, 3, 0.01)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(again, 5)


@pytest.mark.parametrize("wrong", [frame(1), b"\x00\x00\x00\x03abc", b"\xff\xff\xff\xff", b"HTTP"])
async def test_what_is_no_response_ends_the_connection(wrong: bytes, transport: Transport, pipeline: Pipeline) -> None:
    first, second = ask(pipeline, 0), ask(pipeline, 1)
    await turns()
    transport.protocol.data_received(wrong)
    with pytest.raises(RemoteProtocolError):
        await first
    with pytest.raises(ConnectionResetError):
        await second
    assert not pipeline.open


async def test_a_response_to_no_request_ends_the_connection(transport: Transport, pipeline: Pipeline) -> None:
    transport.protocol.data_received(frame(0))
    assert not pipeline.open
    with pytest.raises(ConnectionResetError, match="closed"):
        await ask(pipeline, 0)


async def test_a_lost_connection_fails_what_is_in_flight_with_its_cause(
    transport: Transport, pipeline: Pipeline
) -> None:
    asked = ask(pipeline, 0)
    await turns()
    cause = TimeoutError(110, "Connection timed out")
    transport.close(cause)
    with pytest.raises(ConnectionResetError) as lost:
        await asked
    assert lost.value.__cause__ is cause


async def test_nothing_is_written_after_the_end(transport: Transport, pipeline: Pipeline) -> None:
    asked = ask(pipeline, 0)  # the request is made, and not written yet
    await pipeline.aclose()
    assert transport.written == []
    with pytest.raises(ConnectionResetError):
        await asked


async def test_a_peer_that_reads_nothing_does_not_hold_up_the_end() -> None:
    def stop_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a transport that reads, too

    async with await asyncio.start_server(stop_reading, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        _, writer = await asyncio.open_connection(host, port)
        pipeline = Pipeline(writer)
        response: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        pipeline.submit(0, [bytes(32_000_000)], 60, Frames(lambda _, errors: response.set_result(errors[0])))
        await turns()
        async with asyncio.timeout(5):
            await pipeline.aclose()
            assert isinstance(await response, ConnectionError)


async def test_a_peer_that_does_not_answer_the_end_of_tls_is_not_waited_for() -> None:
    class Silent(Transport):
        """As TLS does: it is closed when the other side has agreed, or by force."""

        def close(self, error: Exception | None = None) -> None:
            self.closing = True

        closing = False

        def abort(self, error: Exception | None = None) -> None:
            Transport.close(self, error)

    transport = Silent()
    pipeline = pipeline_on(transport)
    async with asyncio.timeout(5):
        await pipeline.aclose()


@pytest.mark.parametrize("end", ["cancelled", "too late"])
async def test_responses_that_nobody_waits_for_are_passed_over(
    end: str, transport: Transport, pipeline: Pipeline
) -> None:
    came = Frames()
    pipeline.submit(0, [b""] * 3, 60 if end == "cancelled" else 0.01, came)
    other = ask(pipeline, 3)
    await turns()
    transport.protocol.data_received(frame(0))
    if end == "cancelled":
        came.cancel()
    else:
        async with asyncio.timeout(5):
            while came.errors is None:  # noqa: ASYNC110  # its time is over in a moment
                await asyncio.sleep(0.01)
    transport.protocol.data_received(frame(1) + frame(2) + frame(3, b"other"))
    assert (await other)[4:] == b"other"
    assert came.frames == [frame(0)[4:]]
    errors = None if came.errors is None else [type(error) for error in came.errors]
    assert errors == (None if end == "cancelled" else [TimeoutError] * 2)


@pytest.mark.parametrize(
    ("before", "heard", "stays"),
    [
        ("nothing", False, False),
        ("nothing", True, True),
        ("a read with more time", False, True),
        ("a change that was given up", False, True),
    ],
)
async def test_a_connection_that_sent_nothing_until_a_deadline_is_closed(before: str, heard: bool, stays: bool) -> None:
    transport, number = Transport(), 0
    pipeline = pipeline_on(transport)
    if before == "a read with more time":
        number, other = 1, ask(pipeline, 0)
        other.add_done_callback(lambda done: done.exception())
    elif before == "a change that was given up":
        number = 1
        pipeline.submit(0, [b"change"], 60, change := Frames(), changes=True)
        change.cancel()
    asked = ask(pipeline, number, 0.1)
    if heard:
        await asyncio.sleep(0)  # no longer: a busy machine would let the deadline pass
        transport.protocol.data_received(b"\x00")  # the beginning of a large answer
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked, 5)
    assert pipeline.open is stays
    await pipeline.aclose()
