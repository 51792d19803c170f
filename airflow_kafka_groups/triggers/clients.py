"""Conditions as JSON, and one client per connection in a triggerer, shared by all triggers that use it.

A trigger reads its connection when it begins, and again when its client has failed: so an edit takes effect. It joins
those whose client has the same settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from airflow_kafka_groups.exceptions import AuthenticationFailedError, ConfigurationError, ConnectionFailedError
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


def condition_to_json(condition: Condition) -> dict[str, Any]:
    """Return a condition as ``{"kind": …, …}``: its constructor's arguments as JSON values."""
    data: dict[str, Any] = {"kind": type(condition).__name__}
    for item in fields(CONDITIONS[data["kind"]]):
        if item.init and item.name != "clock":
            value = getattr(condition, item.name)
            data[item.name] = list(value) if isinstance(value, tuple) else value
    if "targets" in data:
        targets = data["targets"].items()
        data["targets"] = [[id_, *where, offset] for id_, offsets in targets for where, offset in offsets.items()]
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
        remedy = "Was the task deferred by another version of the package?"
        why = f"cannot be read ({type(exc).__name__}: {exc}). {remedy}"
        raise ConfigurationError("condition", None, why) from exc
    return condition


class OpenClient:
    """A client that is connected once for all of its users."""

    def __init__(self, conn_id: str, client: AdminClient) -> None:
        self.conn_id = conn_id
        self.client = client
        self.connected = asyncio.create_task(client.__aenter__(), name=f"connect by {conn_id}")
        self.users = 0

    async def aclose(self) -> None:
        """Close the client, or end the attempt to connect."""
        self.connected.cancel()
        (outcome,) = await asyncio.gather(self.connected, return_exceptions=True)
        if not isinstance(outcome, BaseException):
            await self.client.__aexit__(None, None, None)


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, list[OpenClient]] = WeakKeyDictionary()
"""The clients that a trigger may join."""


class SharedClient:
    """The client of a connection, for one of its users."""

    def __init__(self, conn_id: str) -> None:
        self._conn_id = conn_id
        self._joined: OpenClient | None = None
        self._others = _clients.setdefault(asyncio.get_running_loop(), [])

    async def run(self, function: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Run a function with the connected client. One that fails is left: the next call reads the connection.

        Where a login is refused that was accepted before, and the connection has other settings by now, they are tried.
        """
        before = self._joined
        try:
            return await self._run(function)
        except AuthenticationFailedError:
            made = await self._read()
            if before is None or _settings_of(made) == _settings_of(before.client):
                raise
            self._join(made)
            return await self._run(function)

    async def _run(self, function: Callable[[AdminClient], Awaitable[T]]) -> T:
        joined = self._joined or self._join(await self._read())
        try:
            # Shielded: others may wait for the same attempt when the one who began it is cancelled.
            client = await asyncio.shield(joined.connected)
        except Exception:
            await self.leave(failed=True)
            raise
        try:
            return await function(client)
        except ConnectionFailedError:
            await self.leave(failed=True)
            raise

    async def _read(self) -> AdminClient:
        """Return a client with the connection's present settings, which is not connected."""
        from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

        made: AdminClient = await KafkaGroupsHook(self._conn_id).aget_conn()
        return made

    def _join(self, made: AdminClient) -> OpenClient:
        for joined in self._others:
            if joined.conn_id == self._conn_id and _settings_of(joined.client) == _settings_of(made):
                break
        else:
            joined = OpenClient(self._conn_id, made)
            self._others.append(joined)
        joined.users += 1
        self._joined = joined
        return joined

    async def leave(self, *, failed: bool = False) -> None:
        """Leave the client; the last user closes it. Nobody joins one that failed."""
        left, self._joined = self._joined, None
        if left is None:
            return
        left.users -= 1
        if left in self._others and (failed or not left.users):
            self._others.remove(left)
        if not left.users:
            await left.aclose()


def _settings_of(client: AdminClient) -> object:
    return getattr(client, "policy", None)  # of a connection, its settings


@asynccontextmanager
async def shared_client(conn_id: str) -> AsyncIterator[SharedClient]:
    """Provide the shared client of a connection. The last user closes it, also on cancellation."""
    shared = SharedClient(conn_id)
    try:
        yield shared
    finally:
        await shared.leave()
