"""Keep groups alive: commit exactly the same offsets again, before the brokers forget them.

Where only a membership puts the brokers off, the group is joined and left, too, if that is allowed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_groups.change.restore.change_offsets import (
    ChangeTerms,
    Earlier,
    OffsetRequest,
    change_offsets,
    first_try,
)
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.current_logs import commits_of, why_kept
from airflow_kafka_groups.checks import check_integer, check_number
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.judge.broker_clock import BrokerClock, Remedy, remedy_for
from airflow_kafka_groups.kafka.admin.handlers.groups import OFFSETS_RETENTION
from airflow_kafka_groups.kafka.admin.results import GroupListings
from airflow_kafka_groups.kafka.maintenance_client import ASSIGNORS
from airflow_kafka_groups.kafka.models import GroupListing, GroupState
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult
from airflow_kafka_groups.ledger.records import WHAT, Verified, log_change
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.patterns import GroupFilter, check_group_ids
from airflow_kafka_groups.observe.readings import read_groups
from airflow_kafka_groups.storage.access import unless_warned
from airflow_kafka_groups.storage.layout import Clock, Layout, StoragePath, utc_now

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAliveRequest:
    """The groups to keep alive, and how. Raises ``ConfigurationError`` for invalid values.

    :param group_ids: the groups by name. Pass these or ``include``.
    :param include: patterns of the groups, see ``patterns``.
    :param exclude: patterns of groups to leave out of ``include``. Default: none.
    :param allow_membership: join and leave classic groups that had members, for which a commit does not help. It adds
        to the group's generation. Default false: such groups are reported.
    :param assignors: the assignors that the brief member offers. Default: those of Kafka's own clients.
    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``, for clusters that do not report it; a
        smaller value than the brokers' counts. Default: the brokers'.
    :param margin_seconds: a group is due when it has at most this time left. Default: a third of the retention, and at
        least two intervals.
    :param interval_seconds: the time between two runs. Default: not known.
    :param observe_seconds: the time between two readings of a group that must be equal. Default 10.
    """

    group_ids: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_membership: bool = False
    assignors: tuple[str, ...] = ASSIGNORS
    offsets_retention_minutes: int | None = None
    margin_seconds: float | None = None
    interval_seconds: float | None = None
    observe_seconds: float = 10.0

    def __post_init__(self) -> None:
        if bool(self.group_ids) == bool(self.include) or (self.group_ids and self.exclude):
            raise ConfigurationError(
                "group_ids, include", None, "name the groups, or give patterns (and exclude): one of the two"
            )
        object.__setattr__(self, "group_ids", tuple(check_group_ids(self.group_ids, allow_empty=True)))
        patterns = GroupFilter(self.include, self.exclude)
        object.__setattr__(self, "include", patterns.include)
        object.__setattr__(self, "exclude", patterns.exclude)
        if not self.assignors or not all(self.assignors):
            raise ConfigurationError("assignors", self.assignors, "must be names of assignors, such as ['range']")
        object.__setattr__(self, "assignors", tuple(dict.fromkeys(self.assignors)))
        if (minutes := self.offsets_retention_minutes) is not None:
            check_integer("offsets_retention_minutes", minutes, 1, "must be a number of minutes, at least 1")
        if check_number("observe_seconds", self.observe_seconds) < 0:
            raise ConfigurationError("observe_seconds", self.observe_seconds, "must be 0 or a number of seconds")

    async def carry_out(self, admin: MaintenanceClient, layout: Layout, terms: ChangeTerms) -> KeepAliveReport:
        """Keep the groups alive that are due, see ``keep_alive``."""
        return await keep_alive(admin, layout, self, terms)

    def select(self, listed: Collection[str]) -> list[str]:
        """Return the groups that the request is about: those named, or those listed that match."""
        if self.group_ids:
            return list(self.group_ids)
        patterns = GroupFilter(self.include, self.exclude)
        return [group_id for group_id in listed if patterns.selects(group_id)]


class KeepAliveOutcome(StrEnum):
    """The outcome of one group."""

    KEPT_ALIVE = "kept_alive"
    WOULD_KEEP_ALIVE = "would_keep_alive"
    NOT_DUE = "not_due"
    LEFT_ALONE = "left_alone"
    NEEDS_MEMBERSHIP = "needs_membership"
    MISSING = "missing"
    FAILED = "failed"
    UNKNOWN = "unknown"


NOT_KEPT = (
    KeepAliveOutcome.NEEDS_MEMBERSHIP,
    KeepAliveOutcome.MISSING,
    KeepAliveOutcome.FAILED,
    KeepAliveOutcome.UNKNOWN,
)
"""Outcomes of groups that brokers may forget, or have forgotten: somebody has to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeepAlive:
    """The result of one group.

    :param not_before: the time before which brokers do not forget it, ``None`` if it is not known.
    :param partitions: the number of offsets that were, or would be, committed again.
    """

    group_id: str
    outcome: KeepAliveOutcome
    reason: str
    not_before: datetime | None = None
    partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAliveReport:
    """The results of a run.

    :param groups: one result for each group that was named or matches, sorted by id.
    :param clock: the retention and the margin.
    :param missing_brokers: brokers (and partitions of ``__consumer_offsets``) whose groups could not be listed.
    :param path: the record of the results; ``None`` if all groups were kept alive recently enough.
    """

    groups: list[GroupKeepAlive]
    clock: BrokerClock
    missing_brokers: Mapping[str, str]
    path: StoragePath | None

    @property
    def counts(self) -> dict[str, int]:
        """The number of groups by outcome."""
        found = Counter(group.outcome for group in self.groups)
        return {outcome.value: found.get(outcome, 0) for outcome in KeepAliveOutcome}

    @property
    def next_due(self) -> datetime | None:
        """When the first of the groups kept alive is due again, ``None`` without any."""
        known = [group.not_before for group in self.groups if group.not_before is not None]
        return min(known) - self.clock.margin if known else None

    def problems(self) -> dict[str, KafkaGroupsError]:
        """Return the groups that were not kept alive and should be looked at, and the brokers that did not answer."""
        found = {item.group_id: KafkaGroupsError(item.reason) for item in self.groups if item.outcome in NOT_KEPT}
        return found | {f"broker {id_}": KafkaGroupsError(why) for id_, why in self.missing_brokers.items()}

    def summary(self) -> dict[str, Any]:
        """Return the numbers and times as JSON values."""
        due = self.next_due
        return {
            "counts": self.counts,
            "partitions": sum(group.partitions for group in self.groups),
            "retention_seconds": self.clock.retention.total_seconds(),
            "margin_seconds": self.clock.margin.total_seconds(),
            "next_due": None if due is None else due.isoformat(timespec="seconds"),
            "missing_brokers": dict(self.missing_brokers),
            "result_path": None if self.path is None else str(self.path),
        }


_CHUNK_GROUPS = 100
"""Few, so that little time passes between reading a group and committing its offsets."""
_MEMBERSHIPS_AT_ONCE = 20


_OUTCOMES = {
    ChangeOutcome.CHANGED: KeepAliveOutcome.KEPT_ALIVE,
    ChangeOutcome.WOULD_CHANGE: KeepAliveOutcome.WOULD_KEEP_ALIVE,
    ChangeOutcome.KEPT: KeepAliveOutcome.LEFT_ALONE,
    ChangeOutcome.UNCHANGED: KeepAliveOutcome.LEFT_ALONE,
    ChangeOutcome.FAILED: KeepAliveOutcome.FAILED,
    ChangeOutcome.UNKNOWN: KeepAliveOutcome.UNKNOWN,
}


async def keep_alive(
    admin: MaintenanceClient,
    layout: Layout,
    request: KeepAliveRequest,
    terms: ChangeTerms,
    *,
    now: Clock = utc_now,
) -> KeepAliveReport:
    """Keep the due groups of a request alive; one that the connection protects is left alone. No try is continued.

    What was kept alive before and cannot be read is due: the brokers must not forget it meanwhile. But what cannot be
    recorded, and added to the cluster's log, is not committed: a clean-up would not spare it.

    Raises ``ConfigurationError`` if the retention is not known, ``MaintenanceError`` or ``StorageError`` before
    anything is committed if the previous offsets cannot be recorded, or the log cannot be written, and
    ``KafkaGroupsError``. Groups that fail are in the report.
    """
    clock = BrokerClock.of(
        await _retention(admin, request.offsets_retention_minutes),
        margin_seconds=request.margin_seconds,
        interval_seconds=request.interval_seconds,
    )
    began = now()
    listings = await admin.list_groups()
    cluster_id = await admin.cluster_id()
    kept_at: Mapping[str, datetime] = {}
    with unless_warned("Which groups were kept alive before is not known, so each of them is due: %s"):
        last_kept = Ledger(layout, cluster_id).last_kept
        kept_at = await asyncio.to_thread(last_kept, began - clock.retention, clock.retention)
    found: dict[str, GroupKeepAlive] = {}
    due: dict[str, Remedy] = {}
    left: dict[str, str] = {}
    for group_id in request.select(listings):
        is_due, not_before = clock.is_due(kept_at.get(group_id), began), clock.not_before(kept_at.get(group_id))
        may_join = request.allow_membership or terms.protects(group_id)  # which keeps it from being joined in any case
        sorted_out = _sort_out(listings.get(group_id), listings, may_join, is_due)
        if isinstance(sorted_out, Remedy):
            due[group_id] = sorted_out
            continue
        outcome, reason = sorted_out
        known = None if outcome is KeepAliveOutcome.MISSING else not_before
        found[group_id] = GroupKeepAlive(group_id=group_id, outcome=outcome, reason=reason, not_before=known)
        if outcome is not KeepAliveOutcome.NOT_DUE:  # such a group has a record that counts still
            left[group_id] = reason
    path = None
    if due or (left and not terms.dry_run):  # a clean-up spares what is recorded, whatever was done about it
        run = _Run(request=request, due=due, left=left, keeps=(began, clock.retention))
        recorded = await change_offsets(admin, layout, run, replace(terms, tries=None))
        path = recorded.path
        if kept := tuple(each.group_id for each in recorded.results if each.outcome is ChangeOutcome.CHANGED):
            with unless_warned("The next keep-alive run does not know of this one: %s"):
                await asyncio.to_thread(log_change, layout, cluster_id, Verified(at=began, groups=kept))
        for result in recorded.results:
            if result.group_id in left:
                continue
            done = result.outcome is ChangeOutcome.CHANGED
            # Nobody left a group alone that could not be read: brokers may forget it.
            is_unread = isinstance(result.reason, Unread)
            found[result.group_id] = GroupKeepAlive(
                group_id=result.group_id,
                outcome=KeepAliveOutcome.FAILED if is_unread else _OUTCOMES[result.outcome],
                reason=result.reason,
                not_before=clock.not_before(began if done else kept_at.get(result.group_id)),
                partitions=result.partitions,
            )
    return KeepAliveReport(
        groups=[found[group_id] for group_id in sorted(found)],
        clock=clock,
        missing_brokers={str(where): str(error) for where, error in listings.errors.items()},
        path=path,
    )


async def _retention(admin: MaintenanceClient, given: int | None) -> int:
    """Return the retention in minutes: the smaller of what the brokers report and what the caller knows."""
    try:
        reported = await admin.offsets_retention()
        known, why = reported.minutes, "; ".join(map(str, reported.errors.values())) or "no broker reported it"
    except KafkaGroupsError as exc:
        known, why = None, str(exc)
    if known is None and given is None:
        remedy = "pass it, or allow DescribeConfigs on the cluster"
        why = f"the brokers do not report {OFFSETS_RETENTION} ({why}): {remedy}"
        raise ConfigurationError("offsets_retention_minutes", None, why)
    return min(minutes for minutes in (known, given) if minutes is not None)


def _sort_out(
    listing: GroupListing | None, listings: GroupListings, may_join: bool, is_due: bool
) -> Remedy | tuple[KeepAliveOutcome, str]:
    """Return what a due group needs, or the outcome of a group that is left alone for now, with the reason."""
    if listing is None:
        doubt = "no broker lists it, but some did not answer" if listings.errors else "it does not exist"
        return KeepAliveOutcome.MISSING, f"{doubt}: the brokers have forgotten it, or it was never there"
    if listing.state not in (GroupState.EMPTY, GroupState.UNKNOWN):
        return KeepAliveOutcome.LEFT_ALONE, f"it is in use: state {listing.state.value}"
    remedy = remedy_for(listing.type, listing.protocol_type)
    if remedy is None:
        kind = f"a {listing.type.value} group of the protocol {listing.protocol_type!r}"
        return KeepAliveOutcome.LEFT_ALONE, f"it is {kind}"
    if not is_due:
        return KeepAliveOutcome.NOT_DUE, "it was kept alive recently enough"
    if remedy is Remedy.MEMBERSHIP and not may_join:
        reason = "brokers count from when its last member left, and a commit does not change that: allow_membership"
        return KeepAliveOutcome.NEEDS_MEMBERSHIP, reason
    return remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run(OffsetRequest):
    """The commit of what is there: of the ``due`` groups; those ``left`` alone go on record, with the reason."""

    what: ClassVar[str] = WHAT
    may_be_absent: ClassVar[bool] = False
    request: KeepAliveRequest
    due: Mapping[str, Remedy]
    left: Mapping[str, str]
    keeps: tuple[datetime, timedelta]

    async def propose(self, admin: MaintenanceClient, layout: Layout, earlier: Earlier = first_try) -> list[Change]:
        """Return the offsets, some time after they were read: who commits without membership shows itself by then."""
        changes = [Change(group_id=group_id, kept=reason) for group_id, reason in self.left.items()]
        if not self.due:
            return changes
        for group_id, before in (await commits_of(admin, list(self.due))).items():
            if isinstance(before, Unread):
                changes.append(Change(group_id=group_id, kept=before))
            else:
                kept = None if before else "it has no committed offsets"
                changes.append(Change(group_id=group_id, before=before, after=before, kept=kept))
        await asyncio.sleep(self.request.observe_seconds)
        return changes

    async def apply(
        self, admin: MaintenanceClient, changes: Sequence[Change], terms: ChangeTerms
    ) -> list[ChangeResult]:
        """Commit the offsets again, then join and leave the groups that need it."""
        results = await apply_changes(
            admin,
            changes,
            dry_run=terms.dry_run,
            rewrite=True,
            chunk_groups=_CHUNK_GROUPS,
            progress=terms.progress,
        )
        proposed = {change.group_id: change for change in changes}
        room = asyncio.Semaphore(_MEMBERSHIPS_AT_ONCE)

        async def visit(result: ChangeResult) -> ChangeResult:
            if result.outcome is not ChangeOutcome.CHANGED or self.due[result.group_id] is not Remedy.MEMBERSHIP:
                return result
            async with room:
                outcome, reason = await _visit(admin, proposed[result.group_id], self.request.assignors)
            return replace(result, outcome=outcome, reason=reason)

        return await asyncio.gather(*map(visit, results))


async def _visit(admin: MaintenanceClient, change: Change, assignors: Sequence[str]) -> tuple[ChangeOutcome, str]:
    """Join and leave a group, and look at it right before and afterwards."""
    try:
        if (reason := await _look(admin, change)) is not None:
            return ChangeOutcome.KEPT, reason
        failure: KafkaGroupsError | None = None
        try:
            await admin.join_and_leave(change.group_id, sorted({where.topic for where in change.before}), assignors)
        except KafkaGroupsError as exc:
            failure = exc
        reason = await _look(admin, change)
    except KafkaGroupsError as exc:
        return ChangeOutcome.UNKNOWN, f"it cannot be read after its offsets were committed again: {exc}"
    if isinstance(reason, Unread):
        return ChangeOutcome.UNKNOWN, f"it cannot be read after its offsets were committed again: {reason}"
    if reason is not None:
        return ChangeOutcome.KEPT, f"somebody used it meanwhile: {reason}"
    if failure is not None:
        return ChangeOutcome.FAILED, f"its offsets were committed again, but the join failed: {failure}"
    return ChangeOutcome.CHANGED, "committed again, joined and left, and verified"


async def _look(admin: MaintenanceClient, change: Change) -> str | None:
    return why_kept(change, (await read_groups(admin, [change.group_id]))[change.group_id])
