"""Assignment of the numbered parts of a job to tasks, by Kafka's group protocol.

Every task is a member of one group. The leader assigns the parts that are neither done nor in progress; each rebalance
(a task joined, left or died, or has no parts left) assigns them again. So any number of tasks can share a job, at once
or one after the other, and any of them may fail.

The group does not store which parts are done: ``is_done`` finds out from the results. A part is done by exactly one
task while tasks live. A task that lost its membership (it stalled for a session timeout) may still be working on a part
that was assigned to another: write the result of a part in one step, under a name of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from airflow_kafka_groups.exceptions import ConfigurationError, MembershipError
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.membership.member import GroupMember, GroupProtocol, JoinedMember, MemberOptions
from airflow_kafka_groups.kafka.membership.session import MemberSession

PROTOCOL_TYPE = "airflow-kafka-groups"
PROTOCOL = "shares-v1"
_POLL_SECONDS = 0.5
_REBALANCE_AFTER_SECONDS = 2.0


def divide(free: Sequence[int], members: Sequence[str]) -> dict[str, list[int]]:
    """Assign each member a contiguous range of parts, as evenly as possible: what is left over to the last ones."""
    count = len(members)
    return {
        member: list(free[len(free) * i // count : len(free) * (i + 1) // count]) for i, member in enumerate(members)
    }


class KafkaGroupMember:
    """A task's membership in the group that divides the parts of a job. For plain (not ``async``) code.

    ::

        with KafkaGroupMember(config, group_id=f"my-job-{run_id}", parts=50, is_done=lambda n: path(n).exists()) as me:
            for part in me.assigned_parts():
                write(path(part), work_on(part))  # the part is done at the end of this iteration

    :param config: the cluster, e.g. ``hook.client_config()``.
    :param group_id: the group of this job: the same for all its tasks, and unique to the job. This user needs READ on
        it.
    :param parts: the number of parts, numbered from 0.
    :param is_done: returns whether the result of a part exists. Called in several threads.
    :param session_timeout: seconds after which the parts of a dead task are reassigned. Default 30.

    ``assigned_parts()`` ends when all parts are done, by whichever task. It raises the error that ended the membership,
    and ``MembershipError`` when a part is not done after it was processed. Leaving the block leaves the group.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        group_id: str,
        parts: int,
        is_done: Callable[[int], bool],
        session_timeout: float = 30.0,
    ) -> None:
        if type(parts) is not int or parts < 0:
            raise ConfigurationError("parts", parts, "must be the number of parts, an integer of at least 0")
        self._options = MemberOptions(
            group_id=group_id,
            session_timeout=session_timeout,
            rebalance_timeout=2 * session_timeout,
            heartbeat_interval=min(1.0, session_timeout / 3),
        )
        self._config = config
        self._is_done = is_done
        self._member = _WorkMember(parts, is_done)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._session: MemberSession | None = None
        self._error: BaseException | None = None
        self._process: int | None = None

    def __enter__(self) -> Self:
        self._error = self._loop = self._stop = None
        self._process = os.getpid()
        self._member.forget()
        self._member.stopped = False
        if self._member.open_parts():  # otherwise there is no reason to join
            self._thread = threading.Thread(target=self._run, name=f"member of {self._options.group_id}", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._is_fork():
            return
        with self._member.changed:
            loop, stop = self._loop, self._stop
            self._member.stopped = True
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # an error has closed the loop
                loop.call_soon_threadsafe(stop.set)
        thread.join()
        self._member.forget()

    def assigned_parts(self) -> Iterator[int]:
        """Yield the parts assigned to this task, until all parts of the job are done."""
        while (part := self._next()) is not None:
            yield part
            if not self._is_done(part):
                reason = f"part {part} was processed, but is_done({part}) is still false"
                raise MembershipError(self._options.group_id, reason)

    def _is_fork(self) -> bool:
        """Return whether this process is a copy of the one that joined: it has no thread, and its lock may be held."""
        return self._process not in (None, os.getpid())

    def _next(self) -> int | None:
        if self._is_fork():
            reason = "joined in another process, of which this one is a fork: use the member where its with block began"
            raise MembershipError(self._options.group_id, reason)
        waited = 0.0
        changed = self._member.changed
        while True:
            with changed:
                self._member.busy = None
                if self._error is not None:
                    raise self._error
                if (part := self._member.take()) is not None:
                    return part
            if not self._member.open_parts():
                return None
            if self._thread is None:
                raise MembershipError(self._options.group_id, "not joined: use the member in a with block")
            with changed:
                # Parts that others have not started can be reassigned; parts in progress only when their task dies.
                if not self._member.todo and self._member.waiting and waited >= _REBALANCE_AFTER_SECONDS:
                    self._request_rebalance()
                    waited = 0.0
                changed.wait(_POLL_SECONDS)
            waited += _POLL_SECONDS

    def _request_rebalance(self) -> None:
        if self._loop is not None and (session := self._session) is not None:
            self._member.asked += 1
            with suppress(RuntimeError):  # as above; the error will be raised by _next
                self._loop.call_soon_threadsafe(session.rejoin, "has no parts left")

    def _run(self) -> None:
        try:
            asyncio.run(self._take_part())
        except BaseException as error:  # noqa: BLE001  # any error is raised in the task's own thread
            with self._member.changed:
                self._error = error
                self._member.changed.notify_all()

    async def _take_part(self) -> None:
        stop = asyncio.Event()
        with self._member.changed:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            if self._member.stopped:
                return
        async with (
            ClusterClient(self._config) as cluster,
            MemberSession(cluster, self._member, self._options) as session,
        ):
            self._session = session
            stopping = asyncio.create_task(stop.wait())
            try:
                while not stopping.done():
                    change = asyncio.create_task(session.wait_change())
                    await asyncio.wait({stopping, change}, return_when=asyncio.FIRST_COMPLETED)
                    if change.done():
                        change.result()
                    change.cancel()
            finally:
                stopping.cancel()
                self._session = None


class _WorkMember(GroupMember):
    """The callbacks: send the part in progress, receive the parts to do. ``changed`` guards both threads' access."""

    def __init__(self, parts: int, is_done: Callable[[int], bool]) -> None:
        self.changed = threading.Condition()
        self.todo: deque[int] = deque()
        self.busy: int | None = None
        self.waiting = False
        self.asked = 0
        self.stopped = False
        self._open = set(range(parts))
        self._is_done = is_done

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def forget(self) -> None:
        """Forget an ended membership: what was assigned in it may be another task's by now."""
        with self.changed:
            self.todo.clear()
            self.busy, self.waiting = None, False

    def open_parts(self) -> list[int]:
        """Return the parts that are not done."""
        self._open = {part for part in self._open if not self._is_done(part)}
        return sorted(self._open)

    def take(self) -> int | None:
        """Start the next assigned part."""
        while self.todo:
            part = self.todo.popleft()
            if not self._is_done(part):
                self.busy = part
                return part
        return None

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        with self.changed:
            self.todo.clear()

    def metadata(self) -> Sequence[GroupProtocol]:
        with self.changed:
            # A broker begins no round for a member that does not lead and joins with the metadata that it had before.
            asked = {"asked": self.asked} if self.asked else {}
            return [GroupProtocol(PROTOCOL, json.dumps({"busy": self.busy, **asked}).encode())]

    def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        busy = {member.member_id: _busy(member.metadata) for member in all_member_metadata}
        free = [part for part in self.open_parts() if part not in busy.values()]
        assignment = divide(free, sorted(busy, key=lambda member: (busy[member] is None, member)))
        return {
            member: json.dumps({"todo": todo, "waiting": len(free) > len(todo)}).encode()
            for member, todo in assignment.items()
        }

    def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        received: Any = json.loads(assignment)
        with self.changed:
            self.todo = deque(received["todo"])
            self.waiting = bool(received["waiting"])
            self.changed.notify_all()


def _busy(metadata: bytes) -> int | None:
    try:
        part = json.loads(metadata).get("busy")
    except (ValueError, AttributeError, RecursionError):
        return None
    return part if isinstance(part, int) else None
