"""A simulated cluster that answers OffsetFetch for any number of groups, fast and in constant memory.

Its brokers work on bytes: every group has the same committed offsets, so that an answer is the ids between constants.
As a process of its own (``python -m tests.fakes.raw_cluster``) it prints its bootstrap servers and runs until killed.
"""

import asyncio
import struct
from typing import Self

from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.protocol.api_versions import API_VERSIONS, METADATA, OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from tests.fakes import answers

PARTITIONS_OF_GROUP = 4
_BROKERS = 3
_OFFSETS_PARTITIONS = 50
_AFTER_ID_IN_REQUEST = 7  # no member id, member epoch, all topics, no tags
_ROW = struct.Struct(">iqibhb")


def _group_tail() -> bytes:
    """Write what follows the id of a group: one topic with its partitions, no error."""
    rows = b"".join(_ROW.pack(partition, 1_000 + partition, 3, 1, 0, 0) for partition in range(PARTITIONS_OF_GROUP))
    return b"\x02" + b"\x0cthe-topic-0" + bytes([PARTITIONS_OF_GROUP + 1]) + rows + b"\x00" + b"\x00\x00" + b"\x00"


_GROUP_TAIL = _group_tail()


class RawCluster:
    """Brokers on loopback ports; an async context manager.

    :param batched: whether OffsetFetch takes many groups (v9), or one a request (v7), as up to Kafka 2.8.
    """

    def __init__(self, *, batched: bool = True) -> None:
        self.offset_fetch_version = 9 if batched else 7
        self.ports: dict[int, int] = {}
        self._servers: list[asyncio.Server] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for broker_id in range(1, _BROKERS + 1):
            server = await loop.create_server(lambda: _Broker(self), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports[broker_id] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    def answer(self, api_key: int, version: int, body: bytes) -> bytes:
        """Make the answer to a request, from the tags of its header on."""
        if api_key == API_VERSIONS.key:
            fetch = (2, self.offset_fetch_version)
            return encode_body(answers.api_versions({3: (0, 12), 9: fetch, 10: (0, 4), 18: (0, 0)}))
        if api_key == METADATA.key:
            leaders = [index % _BROKERS + 1 for index in range(_OFFSETS_PARTITIONS)]
            return b"\x00" + encode_body(answers.metadata(version, self.ports, {OFFSETS_TOPIC: leaders}))
        assert api_key == OFFSET_FETCH.key
        if version < 8:  # one group: its answer does not name it
            return b"\x00\x00\x00\x00\x00" + _GROUP_TAIL
        count, start = _uvarint(body)
        parts = [b"\x00\x00\x00\x00\x00", body[:start]]
        for _ in range(count - 1):
            end = start + body[start]
            parts += (body[start:end], _GROUP_TAIL)
            start = end + _AFTER_ID_IN_REQUEST
        return b"".join([*parts, b"\x00"])


class _Broker(asyncio.Protocol):
    """One connection to one broker."""

    def __init__(self, cluster: RawCluster) -> None:
        self._cluster = cluster
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        done, written = 0, []
        while len(self._received) - done >= 4:
            end = done + 4 + int.from_bytes(self._received[done : done + 4], "big")
            if end > len(self._received):
                break
            frame = bytes(self._received[done + 4 : end])
            done = end
            after_client_id = 10 + int.from_bytes(frame[8:10], "big")
            api_key = int.from_bytes(frame[0:2], "big")
            body = frame[after_client_id + 1 :]  # past the tags of a flexible header
            answer = frame[4:8] + self._cluster.answer(api_key, int.from_bytes(frame[2:4], "big"), body)
            written.append(len(answer).to_bytes(4, "big") + answer)
        del self._received[:done]
        self._transport.write(b"".join(written))


def _uvarint(data: bytes) -> tuple[int, int]:
    value, shift, position = 0, 0, 0
    while data[position] >= 0x80:
        value |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | data[position] << shift, position + 1


async def _serve(*, batched: bool) -> None:
    async with RawCluster(batched=batched) as cluster:
        print(cluster.bootstrap, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    import sys

    asyncio.run(_serve(batched="--single" not in sys.argv))
