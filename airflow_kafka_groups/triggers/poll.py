"""The trigger of all sensors: polls a condition until it is reached, fails or times out."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from inspect import signature
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.hooks.retries import is_final, why_not_yet
from airflow_kafka_groups.shown import storable
from airflow_kafka_groups.triggers.clients import SharedClient, shared_client

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.conditions import Condition

EVENT_VERSION = 1
FIRST_POLL_AFTER = 5.0
"""Airflow 3.3.2 may lose a task whose trigger fires within the first seconds (apache/airflow#66374)."""
_MOST_BETWEEN_POLLS = 300.0
_JITTER = 0.1


class EventStatus(StrEnum):
    """How a trigger ended."""

    REACHED = "reached"
    TIMEOUT = "timeout"
    FAILED = "failed"


def wait_before_poll(
    interval: float, *, polls: int, failures: int, backoff: bool, most: float | None = None, spread: float = 0.5
) -> float:
    """Return the seconds to wait before the next poll.

    :param failures: the number of latest polls that could not reach the cluster; each doubles the time.
    :param backoff: double the time after every poll.
    :param most: with backoff, the most seconds to wait. Default: five minutes, or the interval if it is longer.
    :param spread: a random number from 0 to 1, so that many triggers do not poll at once.
    """
    doublings = min(max(failures, polls if backoff else 0), 20)
    wait = min(interval * 2.0**doublings, max(interval, _MOST_BETWEEN_POLLS))
    wait *= 1 - _JITTER + 2 * _JITTER * spread
    if backoff and most is not None:
        wait = min(wait, most)
    return wait if polls else max(wait, FIRST_POLL_AFTER)


def serialized(trigger: BaseTrigger) -> tuple[str, dict[str, Any]]:
    """Return the class path of a trigger and the arguments of its constructor, which are attributes of these names."""
    kind = type(trigger)
    arguments = {name: getattr(trigger, name) for name in signature(kind).parameters}
    return f"{kind.__module__}.{kind.__qualname__}", arguments


class ConditionTrigger(BaseTrigger):
    """A wait for a condition, polled until it is reached.

    One trigger serves every sensor, because the condition is data (see ``triggers.clients``). Triggers of the same
    connection share one client. The connection is read in the triggerer; no argument and no event contains a secret.

    :param kafka_groups_conn_id: the connection.
    :param condition: the condition, as returned by ``condition_to_json()``.
    :param poll_interval: seconds between polls.
    :param deadline: when to give up, in seconds since 1970; ``None`` for never.
    :param backoff: double the time after every poll, up to five minutes. Default false.
    :param max_wait: with ``backoff``, the most seconds between polls. Default: no other limit.
    :param silent_fail: go on polling after any error but a wrong password, as Airflow's sensors do. Default false.
    """

    def __init__(
        self,
        *,
        kafka_groups_conn_id: str,
        condition: Mapping[str, Any],
        poll_interval: float = 60.0,
        deadline: float | None = None,
        backoff: bool = False,
        max_wait: float | None = None,
        silent_fail: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.kafka_groups_conn_id = kafka_groups_conn_id
        self.condition = dict(condition)
        self.poll_interval = poll_interval
        self.deadline = deadline
        self.backoff = backoff
        self.max_wait = max_wait
        self.silent_fail = silent_fail

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll, and yield one event. On exit, also by cancellation, the client is closed if nobody else uses it."""
        try:
            async with shared_client(self.kafka_groups_conn_id) as shared:
                event = await self._poll(shared)
        except KafkaGroupsError as error:
            event = _event(EventStatus.FAILED, f"{type(error).__name__}: {error}", is_final(error))
        yield event

    async def _poll(self, shared: SharedClient) -> TriggerEvent:
        from airflow_kafka_groups.triggers.clients import condition_from_json
        from airflow_kafka_groups.triggers.conditions import Watching

        condition = condition_from_json(self.condition)
        polls = failures = 0
        while True:
            wait = wait_before_poll(
                self.poll_interval,
                polls=polls,
                failures=failures,
                backoff=self.backoff,
                most=self.max_wait,
                spread=random.random(),  # noqa: S311 - spreads load, hides nothing
            )
            left = float("inf") if self.deadline is None else self.deadline - time.time()
            soonest = 0.0 if polls else min(wait, FIRST_POLL_AFTER)  # also where the deadline is nearer
            await asyncio.sleep(max(min(wait, left), soonest))
            result, message = await self._poll_once(shared, condition)
            if result is None and isinstance(condition, Watching):
                condition.missed()
            polls += 1
            failures = failures + 1 if result is None else 0
            self.log.info("%s: %s", "Reached" if result else "Not reached", message)
            if result:
                return _event(EventStatus.REACHED, message)
            if left <= wait:
                return _event(EventStatus.TIMEOUT, message)

    async def _poll_once(self, shared: SharedClient, condition: Condition) -> tuple[bool | None, str]:
        try:
            result = await shared.run(condition.check)
        except KafkaGroupsError as error:
            if (why := why_not_yet(error, silent_fail=self.silent_fail)) is None:
                raise
            return None, why
        return result.reached, str(result)


def _event(status: EventStatus, message: str, final: bool = False) -> TriggerEvent:
    payload = {"version": EVENT_VERSION, "status": status.value, "message": storable(message), "final": final}
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow's own
