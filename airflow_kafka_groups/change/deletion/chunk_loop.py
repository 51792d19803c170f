"""Delete groups chunk by chunk: read, recheck, record the intent, delete, record the outcome.

One chunk is read ahead while the one before it is deleted; its intent follows the outcome of that. A process that dies
anywhere in between leaves an intent without an outcome, which counts as deleted from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.deletion.chunk_reader import ChunkReader, ChunkReading
from airflow_kafka_groups.change.deletion.pace import Chunks, Pace
from airflow_kafka_groups.change.deletion.recheck import safe
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.exceptions import (
    BrokerError,
    KafkaGroupsError,
    LeaseLostError,
    MaintenanceError,
    MissingAnswerError,
    NotSentError,
    OutcomeUnknownError,
    PartitionsFailedError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults, is_not_found
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import ELIGIBLE_TYPES, NAMED_TYPES, GroupOffsets, GroupType, ShareGroupOffsets
from airflow_kafka_groups.ledger.journal import RunJournal
from airflow_kafka_groups.ledger.outcomes import PARTLY_DELETED, GroupOutcome, Outcome, Reason, kept, of_deletion
from airflow_kafka_groups.ledger.plan_rows import Target

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


Ready = Callable[[], Awaitable[None]]
"""Awaited right before requests leave. Raises ``KafkaGroupsError`` if none may."""

_READ_TRIES = 2
_AT_ONCE = 20


def types_of(target: Target) -> frozenset[GroupType]:
    """Return which types a request may delete that names a target. No request names groups of two such sets."""
    return frozenset({GroupType(target.group_type)}) if target.group_type in NAMED_TYPES else ELIGIBLE_TYPES


async def delete_safe(
    admin: AdminClient, reading: ChunkReading, send_within: float, ready: Ready
) -> GroupResults[None]:
    """Delete what is safe. What was read a moment ago also says how much the broker will have to write.

    No request leaves later than after these seconds. Raises ``KafkaGroupsError``, also that of ``ready``.
    """
    if any(target.topic is not None for target in reading.expected):
        return await _delete_topics(admin, reading, clock.now() + send_within, ready)
    (types,) = {types_of(target) for target in reading.expected}
    return await admin.delete_consumer_groups(
        list(reading.safe),
        offsets=reading.safe,
        types=types,  # a group that became one of the others meanwhile is not deleted
        send_within=send_within,
        coordinators=reading.coordinators,
        before_sending=ready,
    )


async def _delete_topics(admin: AdminClient, reading: ChunkReading, send_by: float, ready: Ready) -> GroupResults[None]:
    """Delete the offsets of each topic, with a request for each.

    ``ready`` is asked before each request: the worker may be paused between two of them.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def delete(target: Target) -> GroupResult[None]:
        async with room:
            try:
                await _require(ready)
                await admin.delete_consumer_group_offsets(
                    target.group_id,
                    list(reading.safe[target.name]),
                    send_within=max(send_by - clock.now(), 0.0),
                    coordinator=reading.coordinators[target.group_id],
                )
            except KafkaGroupsError as error:
                return GroupResult(target.name, None, error)
        return GroupResult(target.name)

    return GroupResults(await asyncio.gather(*map(delete, reading.expected)))


async def _require(ready: Ready) -> None:
    try:
        await ready()
    except LeaseLostError as error:  # of this topic, nothing was sent
        raise NotSentError(str(error)) from None


def outcome_of(name: str, deleted: GroupOffsets, error: KafkaGroupsError | None) -> GroupOutcome:
    """Return what the answer to a deletion means.

    :param deleted: for what that was asked.
    """
    doubtful = isinstance(error, (BrokerError, NotSentError, OutcomeUnknownError))  # not sent, perhaps, once more
    if isinstance(deleted, ShareGroupOffsets) and doubtful and not is_not_found(error):
        # Brokers delete what it has read first, and look then whether a member has joined meanwhile.
        reason = f"it may have lost its start offsets: {error}. If it is there, restore them from the backup"
        return GroupOutcome(group_id=name, outcome=Outcome.UNKNOWN, code=PARTLY_DELETED, reason=reason)
    if not isinstance(error, PartitionsFailedError):
        return of_deletion(name, error)
    errors = error.partition_errors
    codes = {each.name if isinstance(each, BrokerError) else "" for each in errors.values()}
    if len(errors) == len(deleted):
        if codes == {"GROUP_SUBSCRIBED_TO_TOPIC"}:
            return kept(name, Reason.CAME_BACK, "the broker says that a member subscribes to it")
        if codes == {"UNKNOWN_TOPIC_OR_PARTITION"}:
            why = "the topic does not exist any more: brokers delete its offsets"
            return kept(name, Reason.GONE, why)
        if len(codes) == 1 and codes != {""}:
            return of_deletion(name, next(iter(errors.values())))
    reason = f"some of its offsets may be deleted: {error}"
    return GroupOutcome(group_id=name, outcome=Outcome.UNKNOWN, code=PARTLY_DELETED, reason=reason)


class ChunkedDeletion:
    """The deletion of what one run deletes.

    :param expired: whether it has become too late to delete.
    :param why_stopped: returns why the stop switch ends the run, ``None`` while it does not, and excludes what is to be
        kept since; asked in a thread, before each intent and after it.
    """

    def __init__(
        self,
        admin: AdminClient,
        reader: ChunkReader,
        request: DeletionRequest,
        entries: Mapping[str, Target],
        journal: RunJournal,
        *,
        lease: LeaseGuard | None,
        expired: Callable[[], bool],
        why_stopped: Callable[[], str | None],
    ) -> None:
        self._admin = admin
        self._reader = reader
        self._request = request
        self._limits = request.limits
        self._entries = entries
        self._journal = journal
        self._lease = None if request.dry_run else lease
        self._expired = expired
        self._why_stopped = why_stopped
        self._pace = Pace(request.limits, request.monotonic, request.observer.notice)
        self._writing = asyncio.Lock()  # the journal is for one thread at a time
        self.warnings: list[str] = []

    async def run(self, expected: Sequence[Target]) -> list[GroupOutcome]:
        """Return one outcome for each group. Never raises for a group or a failed request.

        Groups that no request may name together come one after the other, otherwise the order is as given.
        """
        outcomes: list[GroupOutcome] = []
        alike = dict[frozenset[GroupType], list[Target]]()
        for target in expected:
            alike.setdefault(types_of(target), []).append(target)
        for some in alike.values():
            await self._run(some, outcomes, len(expected))
        return outcomes

    async def _run(self, expected: Sequence[Target], outcomes: list[GroupOutcome], total: int) -> None:
        limits = self._limits
        chunks = Chunks(expected, self._entries, limits)
        chunk = chunks.take()
        ahead = self._read_ahead(chunk, chunks)
        try:
            while chunk:
                reading = await ahead
                following = chunks.take()
                ahead = self._read_ahead(following, chunks)
                of_chunk = await self._delete_chunk(chunk, reading)
                if isinstance(reading, ChunkReading):
                    chunks.took(self._request.monotonic() - (reading.send_by - limits.max_read_age_seconds))
                by_id = {outcome.group_id: outcome for outcome in of_chunk}
                ordered = [by_id[target.name] for target in chunk]
                outcomes.extend(ordered)
                self._request.observer.concluded(ordered)
                self._request.observer.progress("delete", len(outcomes), total)
                chunk = following
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    def _read_ahead(
        self, chunk: Sequence[Target], chunks: Chunks
    ) -> asyncio.Task[ChunkReading | KafkaGroupsError | None]:
        """Begin to read a chunk, as soon as the pace allows it: the task returns nothing if the run has to end."""

        async def read() -> ChunkReading | KafkaGroupsError | None:
            if not chunk or await self._why_held_back() is not None:
                return None
            while not self._request.dry_run and (seconds := self._pace.wait_seconds) > 0:
                await asyncio.sleep(min(seconds, 1.0))
                if await self._why_held_back() is not None:
                    return None
            self._pace.begin(len(chunk), chunks.offsets(chunk))
            return await self._read(chunk)

        return asyncio.create_task(read())

    async def _read(self, chunk: Sequence[Target]) -> ChunkReading | KafkaGroupsError:
        """Read a chunk, and record what that keeps before anything else happens: a process that dies remembers it."""
        try:
            reading = await self._reader.read(chunk)
        except KafkaGroupsError as exc:
            return exc
        if not self._request.dry_run:
            await self._conclude(reading.held)
        return reading

    async def _why_held_back(self) -> tuple[Reason, str] | None:
        if self._lease is not None and (lost := await self._lease.why_lost()) is not None:
            return Reason.LEASE_LOST, f"not begun: {lost}"
        if self.warnings:
            return Reason.STOPPED, f"the run stopped: {self.warnings[0]}"
        if self._expired():
            return Reason.EXPIRED, "the plan expired during the run"
        if (asked := self._request.observer.why_stop()) is not None:
            return Reason.STOPPED, f"the run was asked to stop: {asked}"
        return None

    async def _held_back(self, chunk: Sequence[Target]) -> list[GroupOutcome]:
        if (why := await self._why_held_back()) is None:
            if self._request.dry_run or (switched := await asyncio.to_thread(self._why_stopped)) is None:
                return []
            why = Reason.STOPPED, f"the run stopped: {switched}"
            self._warn(switched)
        if self._lease is not None and self._lease.lost is not None:
            self._warn(self._lease.lost)
        return [kept(target.name, *why) for target in chunk]

    async def _delete_chunk(
        self, chunk: Sequence[Target], reading: ChunkReading | KafkaGroupsError | None
    ) -> list[GroupOutcome]:
        """Return the outcome of each group of a chunk.

        :param reading: what was read ahead; ``None`` if nothing was.
        """
        done: list[GroupOutcome] = []
        if isinstance(reading, ChunkReading) and self._waited_too_long(reading):
            done.extend(reading.held)
            chunk, reading = reading.expected, None
        for _ in range(_READ_TRIES):
            if reading is None:
                if held := await self._held_back(chunk):
                    return done + held
                reading = await self._read(chunk)
            if isinstance(reading, KafkaGroupsError):
                self._warn(f"reading failed: {reading}")
                return done + [kept(target.name, Reason.UNREADABLE, f"reading failed: {reading}") for target in chunk]
            done.extend(reading.held)
            chunk = reading.expected
            if self._request.dry_run or not chunk:
                return done + [safe(each, backed_up=each.name in self._entries) for each in chunk]
            if held := await self._held_back(chunk):
                return done + held
            reading, spared = self._reader.spare(reading)
            await self._conclude(spared)
            done.extend(spared)
            if not (chunk := reading.expected):
                return done
            if outcomes := await self._delete(reading):
                return done + outcomes
            unsent, spared = self._reader.spare(reading)  # also what was excluded after the intent
            done.extend(spared)
            chunk, reading = unsent.expected, None
        too_slow = f"reading took longer than {self._limits.max_read_age_seconds:g} s: too old to delete by"
        return done + [kept(target.name, Reason.TOO_SLOW, too_slow) for target in chunk]

    def _waited_too_long(self, reading: ChunkReading) -> bool:
        """Whether a reading was in time, and grew old while the chunk before it was deleted."""
        return not self._request.dry_run and reading.read_at < reading.send_by <= self._request.monotonic()

    async def _delete(self, reading: ChunkReading) -> list[GroupOutcome]:
        """Delete what is safe; return nothing when it is too late and no request has left."""
        if self._request.monotonic() >= reading.send_by:
            return []
        try:
            async with self._writing:
                why_not = await asyncio.to_thread(self._intend, list(reading.safe), self._request.now())
        except MaintenanceError as exc:
            self._warn(f"the journal could not be written, nothing more is deleted: {exc}")
            return self._not_sent(reading.safe, Reason.STOPPED, self.warnings[-1])
        if why_not is not None:
            self._warn(why_not)
        reading, spared = self._reader.spare(reading)
        await self._conclude(spared)
        if not reading.safe:
            return spared
        if self.warnings:  # also where what was read ahead could not be recorded
            outcomes = self._not_sent(reading.safe, Reason.STOPPED, self.warnings[-1])
        else:
            outcomes = await self._send(reading)
        await self._conclude(outcomes)
        return [] if all(outcome.code == Reason.TOO_SLOW for outcome in outcomes) else [*spared, *outcomes]

    def _intend(self, names: list[str], at: datetime) -> str | None:
        """Record the intent, and return why nothing may be sent after all, ``None`` if it may."""
        fingerprints = {name: self._entries[name].fingerprint if name in self._entries else "" for name in names}
        generation = self._lease.generation if self._lease is not None else None
        self._journal.intend(fingerprints, at, lease_generation=generation)
        if self._journal.overtaken():
            return "another run has begun on this cluster: this one deletes no more"
        return self._why_stopped()

    async def _send(self, reading: ChunkReading) -> list[GroupOutcome]:
        groups, send_by, seconds = reading.safe, reading.send_by, self._limits.max_delete_seconds
        if self._request.monotonic() >= send_by:
            return self._not_sent(groups, Reason.TOO_SLOW, "the reading was too old")
        may_be_sent = self._lease is None

        async def ready() -> None:
            nonlocal may_be_sent
            if self._lease is not None:
                await self._lease.prove(send_by - self._request.monotonic())
            may_be_sent = True

        async def delete() -> GroupResults[None]:
            # Asked for as it begins: the event loop may have been held up since the check above.
            send_within = max(send_by - self._request.monotonic(), 0.0)
            if self._lease is not None:  # nor can it be cancelled while that lasts
                send_within = min(send_within, self._lease.send_within)
            return await delete_safe(self._admin, reading, send_within, ready)

        began = self._request.monotonic()
        try:
            async with asyncio.timeout(seconds):
                results = await (delete() if self._lease is None else self._lease.run_while_held(delete))
        except (KafkaGroupsError, TimeoutError) as exc:
            return self._failed(groups, exc, may_be_sent)
        self._pace.answered(len(groups), self._request.monotonic() - began)
        return [outcome_of(name, part, _error(results, name)) for name, part in groups.items()]

    def _failed(self, names: Iterable[str], error: Exception, may_be_sent: bool) -> list[GroupOutcome]:
        why = str(error) or f"it took longer than {self._limits.max_delete_seconds:g} s and was given up"
        if may_be_sent:
            why = f"deleting failed: {why}"
            self._warn(why)
            return [of_deletion(name, OutcomeUnknownError(why)) for name in names]
        if isinstance(error, NotSentError):
            return self._not_sent(names, Reason.TOO_SLOW, why)
        self._warn(why)
        code = Reason.LEASE_LOST if isinstance(error, LeaseLostError) else Reason.STOPPED
        return self._not_sent(names, code, why)

    async def _conclude(self, outcomes: Sequence[GroupOutcome]) -> None:
        if not outcomes:
            return
        try:
            async with self._writing:
                await asyncio.to_thread(self._journal.conclude, outcomes, self._request.now())
        except MaintenanceError as exc:
            self._warn(f"an outcome could not be recorded, nothing more is deleted: {exc}")

    def _warn(self, why: str) -> None:
        if why not in self.warnings:
            self.warnings.append(why)
            self._request.observer.warning(why)

    def _not_sent(self, names: Iterable[str], code: Reason, why: str) -> list[GroupOutcome]:
        return [kept(name, code, f"not sent: {why}") for name in names]


def _error(results: GroupResults[None], name: str) -> KafkaGroupsError | None:
    result = results.get(name)
    return MissingAnswerError(f"{name!r} was not in the answer") if result is None else result.error
