"""Committed offsets of groups that have no members, fast: OffsetCommit requests pipelined over several connections.

A broker works on one request of a connection at a time and lingers for company before it writes, so that one
connection alone manages some 200 commits a second; many connections share each write.
"""

import asyncio
import contextlib
import struct
import time
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v7 import OffsetCommitRequest, OffsetCommitResponse
from kio.schema.offset_commit.v7.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader
from kio.static.primitive import i32, i64

from tests.lab.errors import LabError
from tests.lab.wire import OFFSETS_TOPIC, Connection, connect_any, encode, frame, leaders

Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) -> offset."""

CONNECTIONS = 16  # to each broker
WINDOW = 8  # requests under way on each connection
TRIES = 20
_TIMEOUT_S = 60.0
_LOADING_S = 30.0
_MOVED = {ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}


def seed_groups(bootstrap: str, group_ids: Iterable[str], offsets: Offsets) -> None:
    """Commit the same offsets for many groups; the fastest way to fill a cluster."""
    tail = _encode_tail(offsets)
    _commit_all(bootstrap, {group_id: tail for group_id in group_ids})


def commit_offsets(bootstrap: str, offsets: Mapping[str, Offsets]) -> None:
    """Commit offsets as a client without members does; a group that is not there is created.

    :param offsets: group id -> its offsets.

    Raises LabError when a broker refuses, for example because the group has members.
    """
    _commit_all(bootstrap, {group_id: _encode_tail(of_group) for group_id, of_group in offsets.items()})


class ListedGroup(NamedTuple):
    """Return what a broker's listing tells of a group, in the broker's spelling."""

    type: str
    state: str


def list_groups(bootstrap: str) -> dict[str, ListedGroup]:
    """Return every group with its type and state, as brokers from 3.8 on tell them; share groups included.

    Raises LabError when a broker does not list its groups, also after it had the time to load them.
    """
    listed = {}
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        deadline = time.monotonic() + _LOADING_S
        with Connection(host, int(port), timeout=_TIMEOUT_S) as connection:
            answer = connection.list_groups()
            while answer.error_code == ErrorCode.coordinator_load_in_progress and time.monotonic() < deadline:
                time.sleep(0.1)
                answer = connection.list_groups()
        if answer.error_code != ErrorCode.none:
            raise LabError(f"The broker at {address} does not list its groups: {answer.error_code.name}.")
        for group in answer.groups:
            listed[str(group.group_id)] = ListedGroup(str(group.group_type).lower(), group.group_state)
    return listed


def coordinator_partition(group_id: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that keeps a group: Java's ``abs(hashCode) % partitions``."""
    code = 0
    for unit in array("H", group_id.encode("utf-16-le", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def _encode_tail(offsets: Offsets) -> bytes:
    """Encode a request without its first field, the group id, which differs when nothing else does."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        by_topic[topic].append(
            OffsetCommitRequestPartition(
                partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
            )
        )
    topics = tuple(
        OffsetCommitRequestTopic(name=TopicName(topic), partitions=tuple(partitions))
        for topic, partitions in by_topic.items()
    )
    return encode(OffsetCommitRequest(group_id=GroupId(""), member_id="", topics=topics))[2:]


def _request(group_id: str, tail: bytes) -> bytes:
    name = group_id.encode()
    return frame(8, 7, struct.pack(">h", len(name)) + name + tail)


def _commit_all(bootstrap: str, tails: Mapping[str, bytes]) -> None:
    waiting = dict(tails)
    for _ in range(TRIES):
        if not waiting:
            return
        moved = asyncio.run(_commit_once(bootstrap, waiting))
        waiting = {group_id: waiting[group_id] for group_id in moved}
    if waiting:
        raise LabError(f"{len(waiting)} groups have no coordinator that takes their offsets: {sorted(waiting)[:3]} …")


async def _commit_once(bootstrap: str, tails: Mapping[str, bytes]) -> list[str]:
    """Send everything to the coordinators as of now; return the groups whose coordinator has moved."""
    routes = await asyncio.to_thread(_routes, bootstrap)
    by_address: dict[tuple[str, int], list[str]] = defaultdict(list)
    moved = []
    for group_id in tails:
        address = routes.get(coordinator_partition(group_id, len(routes)))
        if address is None:
            moved.append(group_id)
        else:
            by_address[address].append(group_id)
    senders = [
        _send(host, port, share, tails)
        for (host, port), group_ids in by_address.items()
        for share in _shares(group_ids)
    ]
    for answer in await asyncio.gather(*senders):
        moved += answer
    if moved:
        await asyncio.sleep(0.25)
    return moved


def _shares(group_ids: Sequence[str]) -> list[Sequence[str]]:
    """Divide groups among as many connections as keep busy."""
    count = min(CONNECTIONS, -(-len(group_ids) // WINDOW))
    return [group_ids[start::count] for start in range(count)]


def _routes(bootstrap: str) -> dict[int, tuple[str, int] | None]:
    """Return offsets partition -> address of its leader, ``None`` while it has none."""
    with connect_any(bootstrap, timeout=_TIMEOUT_S) as connection:
        connection.find_group_coordinator("lab-seed")  # creates the offsets topic on a new cluster
        metadata = connection.metadata((OFFSETS_TOPIC,))
    addresses = {int(broker.node_id): (str(broker.host), int(broker.port)) for broker in metadata.brokers}
    known = leaders(metadata, OFFSETS_TOPIC)
    count = sum(len(topic.partitions) for topic in metadata.topics)
    return {index: addresses.get(known.get(index, -1)) for index in range(max(count, 1))}


async def _send(host: str, port: int, group_ids: Sequence[str], tails: Mapping[str, bytes]) -> list[str]:
    """Commit over one connection; return the groups to try again, those of a lost connection among them."""
    moved = set(group_ids)
    with contextlib.suppress(OSError, EOFError):  # a commit may be repeated: it says the same again
        reader, writer = await asyncio.open_connection(host, port)
        writing = asyncio.create_task(_write(writer, group_ids, tails, room := asyncio.Semaphore(WINDOW)))
        try:
            for group_id in group_ids:
                async with asyncio.timeout(_TIMEOUT_S):
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    answer = await reader.readexactly(size)
                room.release()
                if not _has_moved(group_id, answer):
                    moved.discard(group_id)
        finally:
            writing.cancel()
            writer.close()
    return [group_id for group_id in group_ids if group_id in moved]


async def _write(
    writer: asyncio.StreamWriter, group_ids: Sequence[str], tails: Mapping[str, bytes], room: asyncio.Semaphore
) -> None:
    with contextlib.suppress(OSError):  # the reading side notices
        for group_id in group_ids:
            await room.acquire()
            writer.write(_request(group_id, tails[group_id]))
            await writer.drain()


def _has_moved(group_id: str, answer: bytes) -> bool:
    for error in _errors(answer):
        if error in _MOVED:
            return True
        if error != ErrorCode.none:
            raise LabError(f"The broker refused the offsets of {group_id!r}: {error.name}.")
    return False


def _errors(answer: bytes) -> Iterator[ErrorCode]:
    response, _ = entity_reader(OffsetCommitResponse)(answer, 4)  # after the correlation id
    for topic in response.topics:
        for partition in topic.partitions:
            yield partition.error_code
