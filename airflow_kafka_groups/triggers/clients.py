"""One client per connection in a triggerer, shared by all triggers that use it.

A client lives as long as it has users. A client that fails is discarded for all of them: the next user reads the
connection again, so that a changed password or address takes effect. It is also read for each trigger that begins, and
every five minutes: the cluster of before an edit may run on, and what is true there says nothing of the cluster that a
trigger is to wait for. While it cannot be read, those go on that have a client. Users that need a client at once share
the attempt to connect: when it fails, it fails for all of them, and nobody waits for one attempt after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from airflow_kafka_groups.exceptions import AirflowUnavailableError, ConfigurationError, ConnectionFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.triggers import conditions
from airflow_kafka_groups.triggers.conditions import Condition

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


T = TypeVar("T")
CONDITIONS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        conditions.CoordinatorsAvailable,
        conditions.GroupsGone,
        conditions.OffsetsReached,
        conditions.LagAtMost,
        conditions.GroupsExist,
        conditions.GroupsEmpty,
        conditions.EndReached,
        conditions.NoProgress,
    )
}
_NOT_CARRIED = frozenset({"clock"})


def condition_to_json(condition: Condition) -> dict[str, Any]:
    """Return a condition as ``{"kind": …, …}``: its constructor's arguments as JSON values."""
    data: dict[str, Any] = {"kind": type(condition).__name__}
    for item in fields(CONDITIONS[data["kind"]]):
        if item.init and item.name not in _NOT_CARRIED:
            value = getattr(condition, item.name)
            data[item.name] = list(value) if isinstance(value, tuple) else value
    if "targets" in data:
        data["targets"] = [
            [group_id, *where, offset]
            for group_id, offsets in data["targets"].items()
            for where, offset in offsets.items()
        ]
    return data


def condition_from_json(data: Mapping[str, Any]) -> Condition:
    """Build a condition from the result of ``condition_to_json()``.

    Raises ``ConfigurationError`` for anything that this version did not write.
    """
    try:
        arguments = dict(data)
        kind = CONDITIONS[arguments.pop("kind")]
        if "targets" in arguments:
            targets: dict[str, dict[TopicPartition, int]] = {}
            for group_id, topic, partition, offset in arguments["targets"]:
                targets.setdefault(group_id, {})[TopicPartition(topic, partition)] = offset
            arguments["targets"] = targets
        if "group_ids" in arguments:
            arguments["group_ids"] = tuple(arguments["group_ids"])
        condition: Condition = kind(**arguments)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise ConfigurationError(
            "condition",
            None,
            f"cannot be read ({type(exc).__name__}: {exc}). Was the task deferred by another version of the package?",
        ) from exc
    return condition


READ_AGAIN_SECONDS = 300.0
"""How old what was read of a connection may be: the cluster of before may run on after an edit."""


class _Holder:
    """The client of one connection, created on first use."""

    def __init__(self, conn_id: str) -> None:
        self._conn_id = conn_id
        self._client: AdminClient | None = None
        self._opening: asyncio.Task[AdminClient] | None = None
        self._read_at = self._tried_at = -READ_AGAIN_SECONDS
        self.users = 0

    async def get(self, since: float) -> AdminClient:
        """Return the connected client of the connection as it was read after a time, or as it is read now."""
        client, is_read = self._client, self._read_at >= since
        if client is not None and is_read and asyncio.get_running_loop().time() - self._tried_at < READ_AGAIN_SECONDS:
            return client
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name=f"connect by {self._conn_id}")
            self._opening.add_done_callback(self._opened)
        try:
            # Shielded: others may wait for the same attempt when the one who began it is cancelled.
            return await asyncio.shield(self._opening)
        except AirflowUnavailableError:
            if client is None or not is_read:
                raise
            return client  # until Airflow is back

    async def _open(self) -> AdminClient:
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        self._tried_at = begun = asyncio.get_running_loop().time()
        found: AdminClient = await KafkaGroupsHook(self._conn_id).aget_conn()
        self._read_at = begun
        if self._client is not None:
            if _settings_of(found) == _settings_of(self._client):
                return self._client
            await self.discard(self._client)
        self._client = await found.__aenter__()
        return self._client

    def _opened(self, task: asyncio.Task[AdminClient]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # everybody who waited may be gone

    async def discard(self, client: AdminClient) -> None:
        """Close a client that failed, or that is of another connection by now, unless it was replaced meanwhile."""
        if self._client is client:
            self._client = None
            await client.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """Close the client, if there is one."""
        if (opening := self._opening) is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            await client.__aexit__(None, None, None)


class SharedClient:
    """The client of a connection, for one of its users."""

    def __init__(self, holder: _Holder) -> None:
        self._holder = holder
        self._since = asyncio.get_running_loop().time()

    async def run(self, function: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Run a function with the connected client. One that fails is closed, unless it was replaced meanwhile."""
        client = await self._holder.get(self._since)
        try:
            return await function(client)
        except ConnectionFailedError:
            await self._holder.discard(client)
            raise


def _settings_of(client: AdminClient) -> object:
    return getattr(client, "policy", None)  # of a connection, its settings


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Holder]] = WeakKeyDictionary()


@asynccontextmanager
async def shared_client(conn_id: str) -> AsyncIterator[SharedClient]:
    """Provide the shared client of a connection. The last user closes it, also on cancellation."""
    of_loop = _clients.setdefault(asyncio.get_running_loop(), {})
    holder = of_loop.setdefault(conn_id, _Holder(conn_id))
    holder.users += 1
    try:
        yield SharedClient(holder)
    finally:
        holder.users -= 1
        if not holder.users:
            if of_loop.get(conn_id) is holder:
                del of_loop[conn_id]
            await holder.aclose()
