"""The trigger that starts DAGs when groups become empty, stale or lagging, or families of them grow too fast.

An asset watches it (``AssetWatcher``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.hooks.retries import why_not_yet
from airflow_kafka_groups.shown import one_line, storable
from airflow_kafka_groups.triggers.clients import SharedClient, shared_client
from airflow_kafka_groups.triggers.poll import serialized, wait_before_poll

if TYPE_CHECKING:
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.triggers.watch import GroupWatch, WatchResult

WATCH_VERSION = 1
MAX_EVENT_GROUPS = 1_000
"""The maximum number of groups in one event; ``count`` is the total."""
_FIRST_REASONS = 20


class GroupsEventTrigger(BaseEventTrigger):
    """An event for each poll that finds groups which have become empty, stale or lagging, or families that grow.

    A group is reported when it becomes so, and again after it was otherwise in between. All groups found by one poll
    are one event, with the payload ``{"version", "event", "count", "groups", "reasons", "observed_at",
    "kafka_groups_conn_id"}``: the first 1,000 groups and the first 20 reasons. For
    ``"growing"``, ``count`` and ``reasons`` are about families, which ``families`` names, and ``groups`` are their new
    groups, the newest first. A group or cluster that cannot be read causes no event, and the watch continues. The
    connection is read in the triggerer; all triggers of one connection share one client.

    :param event: ``"empty"`` (no members), ``"stale"`` (empty, and no commit moved for ``seconds``), ``"lagging"``
        (more than ``max_lag`` messages behind) or ``"growing"`` (a family of ids such as ``report-<uuid>`` got more new
        groups within a day than its rule allows).
    :param kafka_groups_conn_id: the connection. Default ``kafka_groups_default``.
    :param include: patterns of the groups to watch. Default: all.
    :param exclude: patterns of the groups to ignore. Default: none.
    :param seconds: for ``"stale"``: the idle time, such as ``"1h"``, counted from when the triggerer starts to watch.
    :param max_lag: for ``"lagging"``: the highest acceptable lag of a group, in messages.
    :param max_growth_per_day: for ``"growing"`` without a policy file: how many new groups a day a family may get. They
        are counted from when the triggerer starts to watch.
    :param policy_file: for ``"growing"``: a policy file, whose rules have a ``max_growth_per_day``: an absolute path or
        a URL that the triggerer can read. It is read again at each poll.
    :param report_present: also report groups that match at the first poll, e.g. after a restart of the triggerer.
        Default false: only changes after the first poll are reported. Of a group that it could not see, such as one of
        a broker that did not answer, the poll that sees it is the first one.
    :param poll_interval: seconds between polls. Default 60.

    Raises ``ConfigurationError`` for invalid arguments.
    """

    def __init__(
        self,
        *,
        event: Literal["empty", "stale", "lagging", "growing"],
        kafka_groups_conn_id: str = "kafka_groups_default",
        include: Sequence[str] = ("*",),
        exclude: Sequence[str] = (),
        seconds: float | str | None = None,
        max_lag: int | None = None,
        max_growth_per_day: float | None = None,
        policy_file: str | None = None,
        report_present: bool = False,
        poll_interval: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        from airflow_kafka_groups.hooks.arguments import (
            listed,
            optional,
            read_duration,
            read_flag,
            read_integer,
            read_number,
            read_patterns,
            read_storage_path,
            read_text,
        )

        include, exclude = listed(include), listed(exclude)
        given = {"kafka_groups_conn_id": kafka_groups_conn_id, "include": include, "exclude": exclude}
        _refuse_templates({**given, "policy_file": policy_file})
        self.event = event
        self.kafka_groups_conn_id = read_text("kafka_groups_conn_id", kafka_groups_conn_id)
        self.include = list(read_patterns("include", include))
        self.exclude = list(read_patterns("exclude", exclude))
        self.seconds = optional(read_duration)("seconds", seconds)
        self.max_lag = optional(read_integer)("max_lag", max_lag)
        self.max_growth_per_day = optional(read_number)("max_growth_per_day", max_growth_per_day)
        # Stored with the asset, so a password in its URL is refused.
        self.policy_file = optional(read_storage_path)("policy_file", policy_file)
        self.report_present = read_flag("report_present", report_present)
        self.poll_interval = read_number("poll_interval", poll_interval, minimum=1, maximum=86_400)
        self._check()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll forever; yield an event for each poll that found groups which did not match before."""
        watch = self._watch()
        matched, seen = set[str](), set[str]()
        # No family has grown at the first poll: what the first result has is new.
        began = self.report_present or self.event == "growing"
        failures = polls = 0
        async with shared_client(self.kafka_groups_conn_id) as shared:
            while True:
                found = await self._poll(shared, watch)
                polls += 1
                failures = 0 if found else failures + 1
                if found is not None:
                    # Until a listing is complete, a group that is new in it may have been there, and so, all the time.
                    first_seen = set() if began else found.listed - seen
                    new = sorted(found.matching.keys() - matched - first_seen)
                    matched = matching_groups(matched | first_seen, found)
                    began = began or found.complete
                    seen = set() if began else seen | found.listed
                    if new:
                        what = "families" if self.event == "growing" else "groups"
                        self.log.info("%d %s became %s, first %s", len(new), what, self.event, one_line(new[0]))
                        yield TriggerEvent(self._payload(new, found, watch))  # type: ignore[no-untyped-call]  # Airflow's
                spread = random.random()  # noqa: S311 - spreads load, hides nothing
                wait = wait_before_poll(
                    self.poll_interval, polls=polls, failures=failures, backoff=False, spread=spread
                )
                await asyncio.sleep(wait)

    async def _poll(self, shared: SharedClient, watch: GroupWatch) -> WatchResult | None:
        """Poll once; ``None`` if that failed. The watch continues: a password or a policy file may be corrected."""
        try:
            return await shared.run(watch.poll)
        except KafkaGroupsError as error:
            watch.missed()
            self.log.warning("Poll failed: %s", why_not_yet(error) or error)
            return None

    def _payload(self, new: list[str], found: WatchResult, watch: GroupWatch) -> dict[str, Any]:
        first = new[:MAX_EVENT_GROUPS]
        named: dict[str, Any] = {"groups": first}
        if self.event == "growing":
            named = {"groups": [*islice(watch.growth.members(new), MAX_EVENT_GROUPS)], "families": first}
        payload = {
            "version": WATCH_VERSION,
            "event": str(self.event),
            "count": len(new),
            **named,
            "reasons": {name: found.matching[name] for name in new[:_FIRST_REASONS]},
            "observed_at": datetime.now(UTC).isoformat(),
            "kafka_groups_conn_id": self.kafka_groups_conn_id,
        }
        return storable(payload)

    def _check(self) -> None:
        if self.event not in ("empty", "stale", "lagging", "growing"):
            raise ConfigurationError("event", self.event, 'must be "empty", "stale", "lagging" or "growing"')
        for name, event in (("seconds", "stale"), ("max_lag", "lagging")):
            if ((value := getattr(self, name)) is not None) != (self.event == event):
                raise ConfigurationError(name, value, f'is required for event="{event}" and not allowed otherwise')
        limits = {name: getattr(self, name) for name in ("max_growth_per_day", "policy_file")}
        given = [name for name, value in limits.items() if value is not None]
        if len(given) != (self.event == "growing"):
            name = given[-1] if given else "max_growth_per_day"
            remedy = 'event="growing" needs either this or policy_file, and other events neither'
            raise ConfigurationError(name, limits[name], remedy)

    def _watch(self) -> GroupWatch:
        from airflow_kafka_groups.hooks.floors import configured_floors
        from airflow_kafka_groups.hooks.storage import open_policy
        from airflow_kafka_groups.observe.patterns import GroupFilter
        from airflow_kafka_groups.triggers.watch import FamilyGrowth, GroupEvent, GroupWatch

        def policy() -> PolicyFile:
            return open_policy("policy_file", self.policy_file, configured_floors())

        return GroupWatch(
            event=GroupEvent(self.event),
            groups=GroupFilter(tuple(self.include), tuple(self.exclude)),
            seconds=self.seconds or 0.0,
            max_lag=self.max_lag or 0,
            growth=FamilyGrowth(self.max_growth_per_day or 0.0),
            policy=None if self.policy_file is None else policy,
        )


def _refuse_templates(arguments: Mapping[str, Any]) -> None:
    """Raise ``ConfigurationError`` for an argument with a template: nobody renders it, and it is read as it is."""
    from airflow_kafka_groups.hooks.argument_validation import is_template

    for name, value in arguments.items():
        if is_template(value):  # it may be a URL with a password, which is not shown
            remedy = "has a template, and Airflow renders none for the trigger of an asset: write the value itself"
            raise ConfigurationError(name, None, remedy)


def matching_groups(before: set[str], found: WatchResult) -> set[str]:
    """Return the groups that match now, and those whose state is unknown that matched before."""
    unclear = {group_id for group_id in before if group_id not in found.known}
    if found.complete:
        unclear &= found.listed
    return unclear | found.matching.keys()
