"""Delete groups chunk by chunk: read, recheck, record the intent, delete, record the outcome.

For each chunk:

1. Nothing is begun when the lease is lost, the run has a warning, the plan has expired, or the run was asked to stop.
2. The groups are described and their offsets read; the recheck decides about each. From here on the clock runs:
   ``max_read_age_seconds`` after the reading began no request to delete them leaves.
3. The intent is recorded, durably. Where it cannot be, or when another run has begun since, nothing is sent.
4. The lease is checked, the request sent, and given up as soon as the lease ends.
5. The outcome is recorded. Where it cannot be, the run stops: the intent says what may be gone.

A process that dies anywhere in between leaves an intent without an outcome, which counts as deleted from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from airflow_kafka_groups.admin.results import GroupListings, GroupResult, GroupResults
from airflow_kafka_groups.exceptions import (
    KafkaGroupsError,
    LeaseLostError,
    MaintenanceError,
    MissingAnswerError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.maintenance.backup.groups import BackupEntry
from airflow_kafka_groups.maintenance.deletion.lease import LeaseGuard
from airflow_kafka_groups.maintenance.deletion.outcomes import (
    GroupOutcome,
    kept,
    of_decision,
    of_deletion,
    would_delete,
)
from airflow_kafka_groups.maintenance.deletion.recheck import Action, Decision, Expected, Reading, Reason, decide
from airflow_kafka_groups.maintenance.deletion.request import DeletionRequest
from airflow_kafka_groups.maintenance.journal.history import PROOF_OF_LIFE
from airflow_kafka_groups.maintenance.journal.journal import RunJournal
from airflow_kafka_groups.maintenance.protocols import GroupAdmin, read_offsets
from airflow_kafka_groups.models import GroupDescription, GroupOffsets

_READ_TRIES = 2


def never() -> bool:
    """Return false: the default of ``expired``."""
    return False


class ChunkedDeletion:
    """The deletion of the groups of one run.

    :param listings: a complete listing of all groups, made at the start of this run.
    :param entries: what is backed up, by group id.
    :param excluded: groups that are kept whatever is found, with the reason.
    :param journal: this run's entries.
    :param lease: the lease; ``None`` where none is taken.
    :param expired: whether it has become too late to delete.
    """

    def __init__(
        self,
        admin: GroupAdmin,
        request: DeletionRequest,
        listings: GroupListings,
        entries: Mapping[str, BackupEntry],
        journal: RunJournal,
        *,
        excluded: Mapping[str, Decision],
        lease: LeaseGuard | None = None,
        expired: Callable[[], bool] = never,
    ) -> None:
        self._admin = admin
        self._request = request
        self._limits = request.limits
        self._listings = listings
        self._entries = entries
        self._journal = journal
        self._excluded = excluded
        self._lease = None if request.dry_run else lease
        self._expired = expired
        self.warnings: list[str] = []

    async def run(self, expected: Sequence[Expected]) -> list[GroupOutcome]:
        """Return one outcome for each group, in the order given. Never raises for a group or a failed request."""
        outcomes: list[GroupOutcome] = []
        for chunk in _chunks(expected, self._limits.chunk_size):
            of_chunk = await self._held_back(chunk) or await self._delete_chunk(chunk)
            by_id = {outcome.group_id: outcome for outcome in of_chunk}
            ordered = [by_id[group.group_id] for group in chunk]
            outcomes.extend(ordered)
            self._request.observer.concluded(ordered)
            self._request.observer.progress("delete", len(outcomes), len(expected))
        return outcomes

    async def _held_back(self, chunk: Sequence[Expected]) -> list[GroupOutcome]:
        """Keep the chunk without asking the cluster, if the run has to end here."""

        def keep(code: Reason, reason: str) -> list[GroupOutcome]:
            return [kept(group.group_id, code, reason) for group in chunk]

        if self._lease is not None and (lost := await self._lease.why_lost()) is not None:
            self._warn(lost)
            return keep(Reason.LEASE_LOST, f"not begun: {lost}")
        if self.warnings:
            return keep(Reason.STOPPED, f"the run stopped: {self.warnings[0]}")
        if self._expired():
            return keep(Reason.EXPIRED, "the plan expired during the run")
        if self._request.observer.should_stop():
            return keep(Reason.STOPPED, "the run was asked to stop")
        return []

    async def _delete_chunk(self, chunk: Sequence[Expected]) -> list[GroupOutcome]:
        for _ in range(_READ_TRIES):
            send_by = self._request.monotonic() + self._limits.max_read_age_seconds
            try:
                decisions, offsets = await self._read_and_decide(chunk)
            except KafkaGroupsError as exc:
                self._warn(f"reading failed: {exc}")
                return [kept(group.group_id, Reason.UNREADABLE, f"reading failed: {exc}") for group in chunk]
            safe = {id_: offsets[id_].unwrap() for id_, found in decisions.items() if found.action is Action.DELETE}
            held = [of_decision(id_, found) for id_, found in decisions.items() if id_ not in safe]
            if self._request.dry_run:
                return held + [would_delete(group_id, decisions[group_id]) for group_id in safe]
            await self._conclude(held)
            if not safe:
                return held
            if self.warnings:
                break
            if outcomes := await self._delete(safe, send_by):
                return held + outcomes
        if self.warnings:
            return held + [kept(group_id, Reason.STOPPED, f"not sent: {self.warnings[0]}") for group_id in safe]
        too_slow = f"reading took longer than {self._limits.max_read_age_seconds:g} s: too old to delete by"
        return held + [kept(group_id, Reason.TOO_SLOW, too_slow) for group_id in safe]

    async def _read_and_decide(
        self, chunk: Sequence[Expected]
    ) -> tuple[dict[str, Decision], dict[str, GroupResult[GroupOffsets]]]:
        described, offsets = await read_groups(self._admin, [group.group_id for group in chunk])

        def decided(group: Expected) -> Decision:
            reading = Reading(
                listing=self._listings.get(group.group_id),
                description=described.get(group.group_id),
                offsets=offsets.get(group.group_id),
            )
            decision = decide(group, reading, self._entries.get(group.group_id))
            # A restored group has another protocol type, too: that it was deleted before is the better reason then.
            if decision.action is Action.GONE or decision.code in PROOF_OF_LIFE - {Reason.CHANGED_KIND}:
                return decision
            return self._excluded.get(group.group_id, decision)

        return {group.group_id: decided(group) for group in chunk}, offsets

    async def _delete(self, groups: Mapping[str, GroupOffsets], send_by: float) -> list[GroupOutcome]:
        """Delete what is safe; return nothing when it is too late and no request has left."""
        if self._request.monotonic() >= send_by:
            return []
        try:
            overtaken = await asyncio.to_thread(self._intend, list(groups), self._request.now())
        except MaintenanceError as exc:
            self._warn(f"the journal could not be written, nothing more is deleted: {exc}")
            return [kept(group_id, Reason.STOPPED, f"not sent: {self.warnings[-1]}") for group_id in groups]
        if overtaken:
            self._warn("another run has begun on this cluster: this one deletes no more")
            outcomes = [kept(group_id, Reason.STOPPED, f"not sent: {self.warnings[-1]}") for group_id in groups]
        else:
            outcomes = await self._send(groups, send_by)
        await self._conclude(outcomes)
        return [] if all(outcome.code == Reason.TOO_SLOW for outcome in outcomes) else outcomes

    def _intend(self, group_ids: list[str], at: datetime) -> bool:
        """Record the intent, and return whether another run has begun meanwhile."""
        fingerprints = {id_: self._entries[id_].fingerprint if id_ in self._entries else "" for id_ in group_ids}
        generation = self._lease.generation if self._lease is not None else None
        self._journal.intend(fingerprints, at, lease_generation=generation)
        return self._journal.overtaken()

    async def _send(self, groups: Mapping[str, GroupOffsets], send_by: float) -> list[GroupOutcome]:
        group_ids = list(groups)
        seconds = self._limits.max_delete_seconds
        if self._request.monotonic() >= send_by:
            return [kept(group_id, Reason.TOO_SLOW, "not sent: the reading was too old") for group_id in group_ids]
        try:
            if self._lease is not None:
                self._lease.check()
        except LeaseLostError as exc:
            self._warn(str(exc))
            return [kept(group_id, Reason.LEASE_LOST, f"not sent: {exc}") for group_id in group_ids]

        async def delete() -> GroupResults[None]:
            # Asked for as it begins: the event loop may have been held up since the check above.
            send_within = max(send_by - self._request.monotonic(), 0.0)
            # What was read a moment ago also says how much the broker will have to write.
            return await self._admin.delete_consumer_groups(group_ids, offsets=groups, send_within=send_within)

        try:
            async with asyncio.timeout(seconds):
                results = await (delete() if self._lease is None else self._lease.run_while_held(delete))
        except KafkaGroupsError as exc:
            return self._lost(group_ids, f"deleting failed: {exc}")
        except TimeoutError:
            return self._lost(group_ids, f"deleting took longer than {seconds:g} s and was given up")
        return [of_deletion(group_id, _error(results, group_id)) for group_id in group_ids]

    async def _conclude(self, outcomes: Sequence[GroupOutcome]) -> None:
        if not outcomes:
            return
        try:
            await asyncio.to_thread(self._journal.conclude, outcomes, self._request.now())
        except MaintenanceError as exc:
            self._warn(f"an outcome could not be recorded, nothing more is deleted: {exc}")

    def _warn(self, why: str) -> None:
        if why not in self.warnings:
            self.warnings.append(why)
            self._request.observer.warning(why)

    def _lost(self, group_ids: list[str], why: str) -> list[GroupOutcome]:
        self._warn(why)
        return [of_deletion(group_id, OutcomeUnknownError(why)) for group_id in group_ids]


async def read_groups(
    admin: GroupAdmin, group_ids: list[str]
) -> tuple[GroupResults[GroupDescription], dict[str, GroupResult[GroupOffsets]]]:
    """Describe groups and read their offsets at the same time."""

    async def offsets() -> dict[str, GroupResult[GroupOffsets]]:
        return {result.group_id: result async for result in read_offsets(admin, group_ids, require_stable=True)}

    described, read = await asyncio.gather(admin.describe_consumer_groups(group_ids), offsets(), return_exceptions=True)
    if isinstance(described, BaseException):
        raise described
    if isinstance(read, BaseException):
        raise read
    return described, read


def _error(results: GroupResults[None], group_id: str) -> KafkaGroupsError | None:
    result = results.get(group_id)
    return MissingAnswerError(f"{group_id!r} was not in the answer") if result is None else result.error


def _chunks(items: Sequence[Expected], size: int) -> Iterator[Sequence[Expected]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
