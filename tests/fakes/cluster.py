"""A scripted Kafka cluster that speaks the protocol over sockets: for what real brokers cannot be made to do on cue.

Each broker has versions of its own; groups have coordinators that can be moved; ``control(api, fn)`` answers a request
itself, delays it, drops it, cuts it in half, announces too large a one, or sends noise. Every request is on record.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kio.index import load_request_schema
from kio.serial import entity_reader

from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC, offsets_partitions
from airflow_kafka_groups.kafka.protocol.api_versions import API_VERSIONS, Api
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.apis import ALL_APIS

MODERN: Mapping[str, tuple[int, int]] = {api.name: (api.min_version, api.max_version) for api in ALL_APIS}
OLD: Mapping[str, tuple[int, int]] = {
    **{
        name: versions for name, versions in MODERN.items() if not name.endswith(("GroupDescribe", "ShareGroupOffsets"))
    },
    "FindCoordinator": (0, 3),
    "OffsetFetch": (0, 7),
    "ListGroups": (0, 4),
}
_BY_KEY = {api.key: api for api in ALL_APIS}
PARTITIONS = 50


@dataclass(frozen=True)
class Sent:
    """A request that a broker got."""

    broker_id: int
    api: str
    version: int
    keys: tuple[str, ...]
    at: float


class Drop:
    """Never answer."""


class Cut:
    """Send half of the answer, then hang up."""


class Oversize:
    """Announce more bytes than any client takes."""


@dataclass(frozen=True)
class Noise:
    """Send these bytes as the body of the answer."""

    data: bytes


Control = Callable[[int, int, Any], Any]
"""(broker id, version, request) -> None to let it pass, a response, or Drop, Cut, Oversize, Noise; may be async."""


@dataclass
class FakeCluster:
    """Run scripted brokers on loopback ports; an async context manager.

    :param versions: the API versions of each broker.
    :param groups: the groups, each with the same committed offsets.
    :param own_hash: place groups otherwise than Kafka does, as compatible brokers may.
    :param cluster_id: what Metadata calls it.
    :param topic_hidden: keep ``__consumer_offsets`` out of Metadata, as for a user who may not describe it.
    :param more_apis: API keys that no client knows, with their versions, as a product of its own announces them.

    ``leaders`` names the leader of single partitions of ``__consumer_offsets``; -1: none.
    """

    versions: Mapping[int, Mapping[str, tuple[int, int]]] = field(default_factory=lambda: {1: MODERN, 2: MODERN})
    groups: set[str] = field(default_factory=set)
    own_hash: bool = False
    topic_hidden: bool = False
    cluster_id: str = "fake"
    more_apis: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sent: list[Sent] = []
        self.moved: dict[str, int] = {}
        self.leaders: dict[int, int] = {}
        self.open_connections = 0
        self._silent: set[asyncio.StreamWriter] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._controls: dict[str, Control] = {}
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        self._handlers: set[asyncio.Task[None]] = set()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    async def __aenter__(self) -> Self:
        for broker_id in self.versions:
            server = await asyncio.start_server(self._serve(broker_id), "127.0.0.1", 0)
            self._servers[broker_id] = server
            self._ports[broker_id] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()
        for task in list(self._handlers):
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def control(self, api: Api, answer: Control) -> None:
        """Let ``answer`` decide about each request of an API from now on."""
        self._controls[api.name] = answer

    def silence(self) -> None:
        """Answer nothing more over the connections that are open, as a proxy that has lost the other side."""
        self._silent |= self._writers

    def requests(self, api: Api) -> list[Sent]:
        """Return the requests of one API, in the order in which they came."""
        return [sent for sent in self.sent if sent.api == api.name]

    def coordinator(self, group_id: str) -> int:
        """Return the broker that coordinates a group now."""
        # Not Kafka's hash of the same letters in another order: that has the same parity, and so the same one of two.
        own = zlib.crc32(group_id.encode()) % PARTITIONS
        partition = own if self.own_hash else offsets_partitions([group_id], PARTITIONS)[0]
        return self.moved.get(group_id, self._leader(partition))

    def metadata(
        self, version: int, *, brokers: Collection[int] | None = None, ports: Mapping[int, int] | None = None
    ) -> Any:
        """Make the answer to Metadata, with some of the brokers only, or with other ports."""
        shown = {one: port for one, port in (ports or self._ports).items() if brokers is None or one in brokers}
        leaders = None if self.topic_hidden else [self._leader(partition) for partition in range(PARTITIONS)]
        return answers.metadata(version, shown, {OFFSETS_TOPIC: leaders} if leaders else {}, self.cluster_id)

    def _leader(self, partition: int) -> int:
        if partition in self.leaders:
            return self.leaders[partition]
        brokers = sorted(self.versions)
        return brokers[partition % len(brokers)]

    # The wire

    def _serve(self, broker_id: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._handlers.add(task)
            self.open_connections += 1
            self._writers.add(writer)
            try:
                while True:
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    await self._answer(broker_id, await reader.readexactly(size), writer)
            except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                return
            finally:
                self.open_connections -= 1
                self._writers.discard(writer)
                self._handlers.discard(task)
                with contextlib.suppress(ConnectionError):
                    writer.close()

        return serve

    async def _answer(self, broker_id: int, frame: bytes, writer: asyncio.StreamWriter) -> None:
        if writer in self._silent:
            return
        api = _BY_KEY[int.from_bytes(frame[0:2], "big")]
        version = int.from_bytes(frame[2:4], "big")
        schema = load_request_schema(api.key, version)
        _, header_size = entity_reader(schema.__header_schema__)(frame, 0)
        request: Any = entity_reader(schema)(frame, header_size)[0]
        now = asyncio.get_running_loop().time()
        self.sent.append(Sent(broker_id, api.name, version, _keys(request), now))
        response = None
        if api.name in self._controls:
            response = self._controls[api.name](broker_id, version, request)
            if asyncio.iscoroutine(response):
                response = await response
        if response is Drop:
            return
        if response is Oversize:
            writer.write(b"\x7f\xff\xff\xff")
            return
        if response is None or response is Cut:
            body = encode_body(self._usual(api, broker_id, version, request))
        else:
            body = response.data if isinstance(response, Noise) else encode_body(response)
        flexible = api is not API_VERSIONS and _is_flexible(api, version)
        head = frame[4:8] + (b"\x00" if flexible else b"")
        data = (len(head) + len(body)).to_bytes(4, "big") + head + body
        writer.write(data[: len(data) // 2] if response is Cut else data)
        await writer.drain()
        if response is Cut:
            raise ConnectionResetError

    # What an obedient broker says

    def _usual(self, api: Api, broker_id: int, version: int, request: Any) -> Any:
        match api.name:
            case "ApiVersions":
                ranges = self.versions[broker_id]
                known = {one.key: ranges[one.name] for one in ALL_APIS if one.name in ranges}
                return answers.api_versions({**known, **self.more_apis})
            case "Metadata":
                return self.metadata(version)
            case "FindCoordinator":
                found = {key: self.coordinator(key) for key in _keys(request)}
                return answers.find_coordinators(version, found, self._ports)
            case "ListGroups":
                mine = tuple(group for group in sorted(self.groups) if self.coordinator(group) == broker_id)
                return answers.list_groups(version, ErrorCode.none, mine)
            case "ListOffsets":
                return answers.list_offsets(version, dict.fromkeys(_partitions(request), (7, ErrorCode.none)))
        return self._of_groups(api, version, request, {key: self._code(key, broker_id) for key in _keys(request)})

    def _of_groups(self, api: Api, version: int, request: Any, codes: dict[str, ErrorCode]) -> Any:
        match api.name:
            case "OffsetFetch":
                return answers.offset_fetch(version, codes, {("t", 0): (5, ErrorCode.none)})
            case "DeleteGroups":
                gone = {key for key, code in codes.items() if code is ErrorCode.none and key in self.groups}
                missing = {key: ErrorCode.group_id_not_found for key in codes if key not in self.groups}
                self.groups -= gone
                return answers.delete_groups(version, missing | {k: c for k, c in codes.items() if k not in missing})
            case "DescribeGroups":
                return answers.describe_groups(version, codes)
            case "OffsetCommit":
                return answers.offset_commit(version, dict.fromkeys(_partitions(request), codes[request.group_id]))
            case "OffsetDelete":
                code = codes[request.group_id]
                return answers.offset_delete(code, dict.fromkeys(_partitions(request), ErrorCode.none))
            case "DescribeShareGroupOffsets":
                return answers.share_offsets(version, codes)
            case "ConsumerGroupDescribe":
                return answers.modern_group_describe(api, version, codes)
        raise AssertionError(f"the scripted broker does not know {api.name}")

    def _code(self, group_id: str, broker_id: int) -> ErrorCode:
        return ErrorCode.none if self.coordinator(group_id) == broker_id else ErrorCode.not_coordinator


def _is_flexible(api: Api, version: int) -> bool:
    return bool(load_request_schema(api.key, version).__flexible__)


def _partitions(request: Any) -> list[tuple[str, int]]:
    return [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]


def _keys(request: Any) -> tuple[Any, ...]:
    for name in ("coordinator_keys", "groups_names", "groups", "group_ids"):
        keys = getattr(request, name, None)
        if keys:
            return tuple(getattr(key, "group_id", key) for key in keys)
    one = getattr(request, "key", None) or getattr(request, "group_id", None)
    return (one,) if one is not None else ()
