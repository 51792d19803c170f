"""The runner of a ``GroupMember``: performs the actions that ``Membership`` requests. Makes no decisions itself.

One task performs the actions (find, join, callbacks, sync); the other sends heartbeats when they are due, also during
callbacks. Leaving the ``async with`` block leaves the group, whether by its end, an error or cancellation.

A broker holds back JoinGroup and SyncGroup responses until all members have joined, and with them all later responses
on that connection. So a member has its own connection to the coordinator, as in Java's client.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    CallbackFailedError,
    ClientClosedError,
    ConnectionFailedError,
    KafkaGroupsError,
    MembershipError,
    MissingAnswerError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.membership.member import GroupMember, MemberOptions
from airflow_kafka_groups.kafka.membership.state import Heartbeat, Membership, NextAction, Phase
from airflow_kafka_groups.kafka.models import BrokerId, CoordinatorType, MemberToRemove
from airflow_kafka_groups.kafka.protocol.api_versions import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    Api,
)
from airflow_kafka_groups.kafka.protocol.apis import find_coordinator, membership
from airflow_kafka_groups.kafka.protocol.codec import Message
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection

log = logging.getLogger(__name__)

_LEAVE_SECONDS = 5.0
_JOIN_GRACE_SECONDS = 5.0  # as in Java: the broker answers a join by the end of the rebalance timeout

_FATAL = (AuthenticationFailedError, ClientClosedError, UnsupportedVersionError)
"""Errors that a retry cannot solve."""


class CoordinatorLink:
    """Finds the coordinator of one group and keeps one connection to it.

    :param cluster: provides the brokers. Its own connections are used only to find the coordinator.
    """

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self.coordinator: BrokerId | None = None
        self._cluster = cluster
        self._group_id = group_id
        self._connection: BrokerConnection | None = None
        self._opened: list[BrokerConnection] = []
        self._opening = asyncio.Lock()

    async def find(self) -> ErrorCode:
        """Ask a broker for the coordinator, and store it in ``coordinator`` unless an error code is returned."""
        # The last coordinator comes last: it may hang, and be the reason for the question.
        avoid = () if self.coordinator is None else (self.coordinator,)
        broker_id, connection = await self._cluster.any_connection(avoid)
        version = connection.versions.choose(FIND_COORDINATOR)
        request = find_coordinator.build([self._group_id], CoordinatorType.GROUP, version)
        sent = connection.send(FIND_COORDINATOR, version, request, self._cluster.config.request_timeout)
        response = await self._cluster.patience.wait(sent, broker_id)
        answer = find_coordinator.named(response, [self._group_id], version)
        for key, code, _ in answer.failed:
            if key == self._group_id:
                return code
        if self._group_id not in answer.found:
            raise MissingAnswerError(f"FindCoordinator: broker {broker_id} left out group {self._group_id!r}")
        found = answer.found[self._group_id]
        self._cluster.learn(found)
        if self.coordinator != found.broker_id:
            self.coordinator, self._connection = found.broker_id, None
        return ErrorCode.none

    async def open(self) -> BrokerConnection:
        """Return the connection to the coordinator, opened if necessary. Raises ``ConnectionFailedError``."""
        async with self._opening:
            if self._connection is None or not self._connection.usable:
                await self.aclose()
                if self.coordinator is None:
                    raise ConnectionFailedError(f"group {self._group_id!r}", "its coordinator is not known yet")
                self._connection = await self._cluster.private_connection(self.coordinator)
                self._opened.append(self._connection)
            return self._connection

    async def send(
        self, connection: BrokerConnection, api: Api, build: Callable[[int], Message], timeout: float
    ) -> Message:
        """Send one request on a connection that ``open`` returned.

        After a cancellation or an error the response may still arrive, so the connection is used no more.
        """
        version = connection.versions.choose(api)
        try:
            return await connection.send(api, version, build(version), timeout)
        except (KafkaGroupsError, asyncio.CancelledError):
            if connection is self._connection:
                self._connection = None
            raise

    async def aclose(self) -> None:
        """Close the connection, and those that are used no more."""
        self._connection = None
        while self._opened:
            await self._opened.pop().aclose()


class MemberSession:
    """A membership from ``async with`` to the end of the block.

    :param cluster: an open ``ClusterClient``; sessions may share it.
    :param member: the callbacks.
    :param options: group and timeouts.
    :param now: the clock. Replaced in tests.

    Entering starts the join without waiting for it; use ``await wait_stable()`` to wait. An error that ends the
    membership is raised by ``wait_stable``, ``wait_change`` and ``check``, or else at the end of the block.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        member: GroupMember,
        options: MemberOptions,
        *,
        now: clock.Clock = clock.now,
    ) -> None:
        self.membership = Membership(options, member.protocol_type)
        self.trouble: KafkaGroupsError | None = None  # why the coordinator could not be asked, the last time
        self._member = member
        self._options = options
        self._request_timeout = cluster.config.request_timeout
        self._running: asyncio.Task[Any] | None = None  # the callback that was called last
        self._link = CoordinatorLink(cluster, options.group_id)
        self._now = now
        self._changed = asyncio.Event()
        self._finding = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._leaving = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"member of {self._options.group_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        if error is None:
            self.check()

    async def aclose(self, *, leave: bool = True) -> None:
        """Stop, and leave the group.

        :param leave: call ``on_leave_prepare``, and send LeaveGroup unless the member is static. Otherwise the other
            members wait for the session timeout, as after a crash.
        """
        task, self._task = self._task, None
        if task is None:
            return
        if not self._leaving:  # after a failure the task leaves the group itself
            task.cancel()
        try:
            await asyncio.gather(task, return_exceptions=True)
            await self._leave_group(leave)
        finally:  # also for a caller that is cancelled meanwhile
            await self._link.aclose()
            self._notify()

    def check(self) -> None:
        """Raise the error that ended the membership, if there is one."""
        if self.membership.failure is not None:
            raise self.membership.failure

    def rejoin(self, reason: str) -> None:
        """Start a new round because ``metadata()`` has changed. Call it in the event loop's thread.

        A broker starts none for a member that is not the leader and whose metadata is what it was.
        """
        self.membership.rejoin(reason)
        self._notify()

    def demand_heartbeat(self) -> int:
        """Send a heartbeat at once, and return its number. ``Synced.heartbeat`` has it when it was accepted."""
        number = self.membership.demand_heartbeat(self._now())
        self._notify()
        return number

    async def wait_stable(self, timeout: float | None = None) -> None:
        """Wait until this member has joined and its ``on_join_complete`` has returned.

        Raises the error that ended the membership, and ``TimeoutError`` after ``timeout`` seconds.
        """
        async with asyncio.timeout(timeout):
            while self.membership.phase is not Phase.STABLE:
                await self.wait_change()

    async def wait_change(self, timeout: float | None = None) -> None:
        """Wait for the next change, including a heartbeat response. Raises the error that ended the membership."""
        self.check()
        if self._task is None or self._task.done():
            raise MembershipError(self._options.group_id, "the session is closed")
        await self._sleep(timeout)
        self.check()

    # The two tasks

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                heartbeats = tasks.create_task(self._send_heartbeats())
                await self._perform_actions()
                heartbeats.cancel()
        except* Exception as errors:  # noqa: BLE001  # our own errors are handled: an unexpected one must end the membership
            self._stop(MembershipError(self._options.group_id, f"internal error: {errors.exceptions[0]!r}"))
        await self._leave_group(True)
        self._notify()

    async def _perform_actions(self) -> None:
        while True:
            match self.membership.next_action(self._now()):
                case NextAction.STOP:
                    return
                case NextAction.PAUSE:
                    await self._sleep(self.membership.pause_until - self._now())
                case NextAction.IDLE:
                    await self._sleep(None)
                case action:
                    try:
                        await self._act(action)
                    except KafkaGroupsError as error:
                        self._stop(error)
                    self._notify()

    async def _send_heartbeats(self) -> None:
        while True:
            due = self.membership.heartbeat_at()
            wait = None if due is None else due - self._now()
            if wait is None or wait > 0:
                await self._sleep(wait)
                continue
            sent = self.membership.next_heartbeat(self._now())
            try:
                await self._send_heartbeat(sent)
            except _FATAL as error:
                self._stop(error)
            except KafkaGroupsError as error:
                log.info("group %s: heartbeat failed: %s", self._options.group_id, error)
                self.membership.on_heartbeat_lost(sent, self._now())
            self._notify()

    async def _send_heartbeat(self, sent: Heartbeat) -> None:
        await self._find()
        if not self.membership.coordinator_known:
            return
        connection = await self._link.open()
        if self.membership.heartbeat_at() is None:
            return  # a join has begun meanwhile: behind it, this would wait for all members
        response = await self._link.send(
            connection,
            HEARTBEAT,
            lambda version: membership.build_heartbeat(
                self._options.group_id, sent.generation, sent.member_id, self._options.group_instance_id, version
            ),
            min(self._request_timeout, self._options.session_timeout / 3),
        )
        self.membership.on_heartbeat(sent, response.error, self._now())

    # Actions

    async def _act(self, action: NextAction) -> None:
        state, member, call = self.membership, self._member, self._call
        match action:
            case NextAction.PREPARE:
                await call(member.on_join_prepare, state.generation, state.member_id)
                state.on_prepared()
            case NextAction.FIND:
                try:
                    await self._find()
                except _FATAL:
                    raise
                except KafkaGroupsError as error:
                    self._lost(error)
            case NextAction.JOIN:
                await self._join()
            case NextAction.ASSIGN:
                state.on_assigned(await call(member.perform_assignment, state.member_id, state.protocol, state.members))
            case NextAction.SYNC:
                await self._sync()
            case NextAction.COMPLETE if (synced := state.synced) is not None:
                round_ = synced.generation, synced.member_id, synced.protocol, synced.assignment
                try:
                    await call(member.on_join_complete, *round_)
                    state.on_completed()
                except CallbackFailedError as error:
                    log.warning("%s", error, exc_info=True)
                    cause = error.__cause__
                    state.on_complete_failed(cause if isinstance(cause, Exception) else error, self._now())

    async def _join(self) -> None:
        before = (self.membership.generation, self.membership.member_id)
        protocols = await self._call(self._member.metadata)
        if before != (self.membership.generation, self.membership.member_id):
            return  # removed from the group meanwhile: the metadata may describe a generation that is lost
        request = self.membership.join(protocols)
        response = await self._ask(JOIN_GROUP, lambda version: membership.build_join(request, version))
        if response is not None:
            self.membership.on_joined(response, self._now())

    async def _sync(self) -> None:
        request, sent_at = self.membership.sync(), self._now()
        response = await self._ask(SYNC_GROUP, lambda version: membership.build_sync(request, version))
        if response is not None:
            self.membership.on_synced(response, sent_at, self._now())

    async def _ask(self, api: Api, build: Callable[[int], Message]) -> Message | None:
        timeout = max(self._request_timeout, self._options.rebalance_timeout + _JOIN_GRACE_SECONDS)
        try:
            return await self._link.send(await self._link.open(), api, build, timeout)
        except _FATAL:
            raise
        except KafkaGroupsError as error:
            self._lost(error)
            return None

    async def _find(self) -> None:
        async with self._finding:
            if not self.membership.coordinator_known:
                self.membership.on_found(await self._link.find(), self._now())

    async def _leave_group(self, leave: bool) -> None:
        member_id = self.membership.member_id
        was_member = self.membership.leave() and leave and not self._leaving
        self._leaving = True
        if not was_member:
            return
        try:  # heartbeats have stopped: after a session timeout there is nothing left to leave
            async with asyncio.timeout(self._options.session_timeout):
                await self._call(self._member.on_leave_prepare)
        except (CallbackFailedError, TimeoutError) as error:
            log.warning("group %s: leaving although on_leave_prepare() failed: %r", self._options.group_id, error)
        if self._options.group_instance_id is not None:  # it may return under this name
            return
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._find()
                response = await self._link.send(
                    await self._link.open(),
                    LEAVE_GROUP,
                    lambda version: membership.build_leave(
                        self._options.group_id, (MemberToRemove(member_id),), version, "closing"
                    ),
                    _LEAVE_SECONDS,
                )
            log.debug("group %s: left, %s", self._options.group_id, response.error.name)
        except (KafkaGroupsError, TimeoutError) as error:
            log.warning(
                "group %s: LeaveGroup failed, the session timeout has to pass: %s", self._options.group_id, error
            )

    # Callbacks

    async def _call(self, callback: Callable[..., Any], *arguments: object) -> Any:
        """Call a callback and return its result. Raises ``CallbackFailedError`` from what it raises.

        A plain function goes on in its thread when its caller is cancelled, so the next call waits for it.
        """
        if self._running is not None:
            await asyncio.wait([self._running])
        is_coroutine = inspect.iscoroutinefunction(callback)
        called = callback(*arguments) if is_coroutine else asyncio.to_thread(callback, *arguments)
        self._running = running = asyncio.create_task(called)
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            if is_coroutine:
                running.cancel()
            raise
        try:
            result = running.result()
            return await result if inspect.isawaitable(result) else result
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise  # of our own: any other one is of a task that the callback has cancelled
            name = getattr(callback, "__name__", "a callback")
            raise CallbackFailedError(self._options.group_id, f"{name}() raised {error!r}") from error

    def _stop(self, error: KafkaGroupsError) -> None:
        self.membership.stop(error)
        self._notify()

    def _lost(self, error: KafkaGroupsError) -> None:
        log.info("group %s: %s", self._options.group_id, error)
        self.trouble = error
        self.membership.on_lost(self._now())

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _sleep(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
