"""Share out the numbered parts of a job among tasks: by the group protocol, and with what is done already left out.

Every task is a member of one group. Whoever leads deals out the parts that are neither done nor being worked on; each
new round (a task came, went or died, or has nothing left to do) deals them out anew. So the job does not care how many
tasks there are, whether they run at once or one after the other, and which of them survive.

What is done is not kept in the group, which forgets: ``is_done`` tells, from where the results are. A part is done by
exactly one task as long as tasks live. One that lost its membership (it stalled for a session timeout) may still be at
work on a part that another has been given: a part has to write its result in one step, under a name of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from airflow_kafka_groups.cluster.client import ClusterClient
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import ConfigurationError, MembershipError
from airflow_kafka_groups.membership.member import GroupMember, GroupProtocol, JoinedMember
from airflow_kafka_groups.membership.options import MemberOptions
from airflow_kafka_groups.membership.session import MemberSession

PROTOCOL_TYPE = "airflow-kafka-groups"
PROTOCOL = "shares-v1"
_LOOK_SECONDS = 0.5
_ASK_SECONDS = 2.0


def deal(free: Sequence[int], members: Sequence[str]) -> dict[str, list[int]]:
    """Give each member a run of neighbouring parts, as many as any other, give or take one."""
    count = len(members)
    return {
        member: list(free[len(free) * i // count : len(free) * (i + 1) // count])
        for i, member in enumerate(sorted(members))
    }


class KafkaGroupMember:
    """Take part, from a task, in sharing out the parts of a job. For plain (not ``async``) code.

    ::

        with KafkaGroupMember(config, group_id=f"my-job-{run_id}", parts=50, is_done=lambda n: path(n).exists()) as me:
            for part in me.shares():
                write(path(part), work_on(part))  # done, when this iteration ends

    :param config: how to reach the cluster, e.g. ``hook.client_config()``.
    :param group_id: the group of this job: the same for all its tasks, and another for each job. This user needs READ.
    :param parts: how many parts there are, numbered from 0.
    :param is_done: says whether the result of a part is there. Called in other threads, too.
    :param session_timeout: seconds after which the parts of a task that died are dealt out again. Default 30.

    ``shares()`` ends when all parts are done, by whichever task. It raises what ended the membership, and
    ``MembershipError`` when a part is not done although it was worked on. Leaving the block leaves the group.
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
            raise ConfigurationError("parts", parts, "give a whole number of parts, 0 or more")
        self._options = MemberOptions(
            group_id=group_id,
            session_timeout=session_timeout,
            rebalance_timeout=2 * session_timeout,
            heartbeat_interval=min(1.0, session_timeout / 3),
        )
        self._config = config
        self._is_done = is_done
        self._member = _ShareMember(parts, is_done)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._session: MemberSession | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        if self._member.open_parts():  # else there is nothing to join for
            self._thread = threading.Thread(target=self._run, name=f"member of {self._options.group_id}", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._member.changed:
            loop, stop = self._loop, self._stop
            self._member.stopped = True
        if loop is not None and stop is not None:
            with suppress(RuntimeError):  # the loop is closed: an error has ended it
                loop.call_soon_threadsafe(stop.set)
        thread.join()

    def shares(self) -> Iterator[int]:
        """Give the parts this task is to do, one after the other, until all parts of the job are done."""
        while (part := self._next()) is not None:
            yield part
            if not self._is_done(part):
                reason = f"part {part} was worked on, and is_done({part}) is still false"
                raise MembershipError(self._options.group_id, reason)

    def _next(self) -> int | None:
        asked = 0.0
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
                raise MembershipError(self._options.group_id, "is not joined: use it in a with block")
            with changed:
                # What others have not begun may be dealt out anew; what they are at comes back only if they die.
                if not self._member.todo and self._member.waiting and asked >= _ASK_SECONDS:
                    self._ask()
                    asked = 0.0
                changed.wait(_LOOK_SECONDS)
            asked += _LOOK_SECONDS

    def _ask(self) -> None:
        if self._loop is not None and (session := self._session) is not None:
            with suppress(RuntimeError):  # as above; the error is on its way
                self._loop.call_soon_threadsafe(session.rejoin, "has nothing left to do")

    def _run(self) -> None:
        try:
            asyncio.run(self._take_part())
        except BaseException as error:  # noqa: BLE001  # whatever it is belongs to the task's own thread
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


class _ShareMember(GroupMember):
    """Say which part is being worked on, and hold what is to do. ``changed`` guards it: two threads look at it."""

    def __init__(self, parts: int, is_done: Callable[[int], bool]) -> None:
        self.changed = threading.Condition()
        self.todo: deque[int] = deque()
        self.busy: int | None = None
        self.waiting = False
        self.stopped = False
        self._open = set(range(parts))
        self._is_done = is_done

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def open_parts(self) -> list[int]:
        """Give the parts that are not done; what is done once stays so."""
        self._open = {part for part in self._open if not self._is_done(part)}
        return sorted(self._open)

    def take(self) -> int | None:
        """Begin with the next part of this member's share."""
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
            return [GroupProtocol(PROTOCOL, json.dumps({"busy": self.busy}).encode())]

    def perform_assignment(
        self, leader_id: str, protocol: str, all_member_metadata: Sequence[JoinedMember]
    ) -> Mapping[str, bytes]:
        busy = {member.member_id: _busy(member.metadata) for member in all_member_metadata}
        free = [part for part in self.open_parts() if part not in busy.values()]
        dealt = deal(free, list(busy))
        return {
            member: json.dumps({"todo": todo, "waiting": len(free) > len(todo)}).encode()
            for member, todo in dealt.items()
        }

    def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        given: Any = json.loads(assignment)
        with self.changed:
            self.todo = deque(given["todo"])
            self.waiting = bool(given["waiting"])
            self.changed.notify_all()


def _busy(metadata: bytes) -> int | None:
    try:
        said = json.loads(metadata).get("busy")
    except (ValueError, AttributeError):
        return None
    return said if isinstance(said, int) else None
