"""What is sent in one turn of the event loop goes out in one write, in order, and never after the end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from airflow_kafka_groups.transport.coalescing_writer import CoalescingWriter


class Recorder:
    """Be a stream writer that keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.drained = 0
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def drain(self) -> None:
        self.drained += 1

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def gathering(recorder: Recorder) -> CoalescingWriter:
    return CoalescingWriter(cast("Any", recorder))


async def test_what_is_sent_in_one_turn_is_one_write() -> None:
    recorder = Recorder()
    writer = gathering(recorder)
    for number in range(100):
        writer.write(b"%d," % number)
    assert recorder.written == []
    await asyncio.sleep(0)
    assert recorder.written == [b"".join(b"%d," % number for number in range(100))]
    writer.write(b"next")
    await asyncio.sleep(0)
    assert recorder.written[1:] == [b"next"]


async def test_waiting_for_room_writes_what_there_is() -> None:
    recorder = Recorder()
    writer = gathering(recorder)
    writer.write(b"a")
    await writer.drain()
    assert (recorder.written, recorder.drained) == ([b"a"], 1)
    await asyncio.sleep(0)
    assert recorder.written == [b"a"]


async def test_nothing_is_written_after_the_end() -> None:
    recorder = Recorder()
    writer = gathering(recorder)
    writer.write(b"a")
    writer.close()
    await asyncio.sleep(0)
    recorder.closed = False
    broken = gathering(recorder)
    broken.write(b"b")
    recorder.closed = True
    await asyncio.sleep(0)
    assert recorder.written == []
