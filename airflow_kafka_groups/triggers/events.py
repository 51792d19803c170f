"""Start DAGs when groups become empty, stale or lag: a trigger that an asset watches with (``AssetWatcher``)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.triggers.clients import SharedClient, shared_client
from airflow_kafka_groups.triggers.poll import wait_before_poll

if TYPE_CHECKING:
    from airflow_kafka_groups.triggers.watch import GroupWatch, Sighting

WATCH_VERSION = 1
MAX_EVENT_GROUPS = 1_000
"""How many groups one event names; ``count`` is always that of all."""
_FIRST_REASONS = 20
_ARGUMENTS = [
    "event",
    "kafka_groups_conn_id",
    "include",
    "exclude",
    "seconds",
    "max_lag",
    "report_present",
    "poll_interval",
]


class GroupsEventTrigger(BaseEventTrigger):
    """Fire when groups become empty, stale or lag; go on watching.

    A group counts when it becomes so, and again after it was otherwise in between. All groups that became so since the
    poll before are one event: its payload is ``{"version", "event", "count", "groups", "reasons", "observed_at",
    "kafka_groups_conn_id"}``, with the first 1,000 groups and the first 20 reasons. What cannot be read, or a cluster
    that cannot be asked, is no event and ends nothing. The connection is read in the triggerer; all triggers of one
    connection share one client.

    :param event: ``"empty"`` (no members), ``"stale"`` (empty, and no commit moved for ``seconds``) or ``"lagging"``
        (more than ``max_lag`` messages behind).
    :param kafka_groups_conn_id: the connection, default ``kafka_groups_default``.
    :param include: patterns of the groups to watch, default all.
    :param exclude: patterns of the groups to leave out, default none.
    :param seconds: with ``"stale"``: the time, in seconds, as watched since the triggerer began.
    :param max_lag: with ``"lagging"``: the highest lag of a group that is still fine, in messages.
    :param report_present: also fire for groups that are so at the first poll, e.g. after a restart of the triggerer;
        default false: they are where the watching begins.
    :param poll_interval: seconds between polls, default 60.

    Raises ``ConfigurationError`` at once for arguments that cannot be.
    """

    def __init__(
        self,
        *,
        event: Literal["empty", "stale", "lagging"],
        kafka_groups_conn_id: str = "kafka_groups_default",
        include: Sequence[str] = ("*",),
        exclude: Sequence[str] = (),
        seconds: float | None = None,
        max_lag: int | None = None,
        report_present: bool = False,
        poll_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.event = event
        self.kafka_groups_conn_id = kafka_groups_conn_id
        self.include = list(include) if isinstance(include, list | tuple) else include
        self.exclude = list(exclude) if isinstance(exclude, list | tuple) else exclude
        self.seconds = seconds
        self.max_lag = max_lag
        self.report_present = report_present
        self.poll_interval = poll_interval
        self._check()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give the class and exactly what its constructor takes."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {name: getattr(self, name) for name in _ARGUMENTS}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll for ever; give an event for each poll that found groups which were not so before."""
        watch = self._watch()
        inside: set[str] | None = set() if self.report_present else None
        failures = polls = 0
        async with shared_client(self.kafka_groups_conn_id) as shared:
            while True:
                sighting = await self._look(shared, watch)
                polls += 1
                failures = 0 if sighting else failures + 1
                if sighting is not None:
                    new = [] if inside is None else sorted(sighting.matching.keys() - inside)
                    inside = still_inside(inside or set(), sighting)
                    if new:
                        self.log.info("%d groups became %s, first %s", len(new), self.event, new[0])
                        yield TriggerEvent(self._payload(new, sighting))  # type: ignore[no-untyped-call]  # Airflow's
                spread = random.random()  # noqa: S311 - spreads load, hides nothing
                wait = wait_before_poll(
                    self.poll_interval, polls=polls, failures=failures, backoff=False, spread=spread
                )
                await asyncio.sleep(wait)

    async def _look(self, shared: SharedClient, watch: GroupWatch) -> Sighting | None:
        """Look once; ``None`` when the cluster could not be asked. A watch goes on: a password may be mended."""
        client = None
        try:
            client = await shared.get()
            return await watch.look(client)
        except KafkaGroupsError as error:
            if client is not None:
                await shared.discard(client)
            self.log.warning("Not watched, the cluster cannot be asked: %s", error)
            return None

    def _payload(self, new: list[str], sighting: Sighting) -> dict[str, Any]:
        return {
            "version": WATCH_VERSION,
            "event": str(self.event),
            "count": len(new),
            "groups": new[:MAX_EVENT_GROUPS],
            "reasons": {group_id: sighting.matching[group_id] for group_id in new[:_FIRST_REASONS]},
            "observed_at": datetime.now(UTC).isoformat(),
            "kafka_groups_conn_id": self.kafka_groups_conn_id,
        }

    def _check(self) -> None:
        from airflow_kafka_groups.hooks.arguments import read_integer, read_number, read_patterns, read_text

        if self.event not in ("empty", "stale", "lagging"):
            raise ConfigurationError("event", self.event, 'must be "empty", "stale" or "lagging"')
        for name, event in (("seconds", "stale"), ("max_lag", "lagging")):
            if (getattr(self, name) is not None) != (self.event == event):
                raise ConfigurationError(name, getattr(self, name), f'belongs to event="{event}", and only to it')
        read_text("kafka_groups_conn_id", self.kafka_groups_conn_id)
        read_patterns("include", self.include)
        read_patterns("exclude", self.exclude)
        read_number("poll_interval", self.poll_interval, minimum=1, maximum=86_400)
        if self.seconds is not None:
            read_number("seconds", self.seconds, minimum=0)
        if self.max_lag is not None:
            read_integer("max_lag", self.max_lag)
        if not isinstance(self.report_present, bool):
            raise ConfigurationError("report_present", self.report_present, "must be True or False")

    def _watch(self) -> GroupWatch:
        from airflow_kafka_groups.maintenance.patterns import GroupFilter
        from airflow_kafka_groups.triggers.watch import GroupEvent, GroupWatch

        return GroupWatch(
            event=GroupEvent(self.event),
            groups=GroupFilter(tuple(self.include), tuple(self.exclude)),
            seconds=self.seconds or 0.0,
            max_lag=self.max_lag or 0,
        )


def still_inside(before: set[str], sighting: Sighting) -> set[str]:
    """Give the groups that are so now; of those that could not be looked at, the ones that were so before."""
    unclear = {group_id for group_id in before if group_id not in sighting.clear}
    if sighting.complete:
        unclear &= sighting.listed
    return unclear | sighting.matching.keys()
