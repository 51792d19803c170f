"""The little of Kafka's protocol the lab speaks itself: one blocking socket, one request at a time.

Light enough to ask every broker ten times a second whether it is ready, without a client library's threads and
warnings. Metadata v7, FindCoordinator v2 and OffsetCommit v7 are known to all brokers from 2.8 to 4.4; ListGroups v5,
which tells a group's type, from 3.8 on.
"""

import io
import socket
import struct
from collections.abc import Mapping
from typing import Self, TypeVar

from kio.schema.find_coordinator.v2 import FindCoordinatorRequest, FindCoordinatorResponse
from kio.schema.list_groups.v5 import ListGroupsRequest, ListGroupsResponse
from kio.schema.metadata.v7 import MetadataRequest, MetadataResponse
from kio.schema.metadata.v7.request import MetadataRequestTopic
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8
from kio.static.protocol import Payload

from tests.lab.errors import LabError

OFFSETS_TOPIC = "__consumer_offsets"
CLIENT_ID = b"lab"
_Response = TypeVar("_Response", bound=Payload)


def frame(api_key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
    """Put length and header (v1, or v2 for a flexible version) before a request's body."""
    header = struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def encode(request: Payload) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(request))(buffer, request)
    return buffer.getvalue()


class Connection:
    """One connection to one broker. OSError and ConnectionError pass through: callers try again."""

    def __init__(self, host: str, port: int, *, timeout: float) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Payload, response: type[_Response]) -> _Response:
        flexible = response.__flexible__
        api_key, version = int(request.__api_key__), int(request.__version__)
        self._socket.sendall(frame(api_key, version, encode(request), flexible=flexible))
        (size,) = struct.unpack(">i", self._read(4))
        header = 5 if flexible else 4  # the correlation id, and no tagged fields
        answer, _ = entity_reader(response)(self._read(size), header)
        return answer

    def metadata(self, topics: tuple[str, ...] | None = ()) -> MetadataResponse:
        """Ask for the brokers, and for these topics; ``None`` asks for all."""
        asked = None if topics is None else tuple(MetadataRequestTopic(name=TopicName(topic)) for topic in topics)
        return self.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), MetadataResponse)

    def find_group_coordinator(self, group: str) -> FindCoordinatorResponse:
        """Ask for a group's coordinator, which creates ``__consumer_offsets`` on a new cluster."""
        return self.ask(FindCoordinatorRequest(key=group, key_type=i8(0)), FindCoordinatorResponse)

    def list_groups(self) -> ListGroupsResponse:
        """Ask for the groups that this broker coordinates."""
        return self.ask(ListGroupsRequest(states_filter=(), types_filter=()), ListGroupsResponse)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts += part
        return bytes(parts)


def connect_any(bootstrap: str, *, timeout: float) -> Connection:
    """Connect to the first of the bootstrap servers that is there; raises LabError when none is."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            return Connection(host, int(port), timeout=timeout)
        except OSError as exc:
            reasons.append(f"{address}: {exc}")
    raise LabError(f"No broker answers at {'; '.join(reasons)}.")


def leaders(metadata: MetadataResponse, topic: str) -> Mapping[int, int]:
    """Return partition -> leader's node id, of the partitions that have one."""
    return {
        int(partition.partition_index): int(partition.leader_id)
        for found in metadata.topics
        if found.name == topic
        for partition in found.partitions
        if int(partition.leader_id) >= 0
    }
