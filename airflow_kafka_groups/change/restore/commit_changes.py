"""Apply changes of committed offsets to groups without members, and verify them. Shared by reset and restore.

A change is a proposal: the offsets of a group when it was made, and the new ones. Each chunk of groups is described and
read just before it is written: a group that has members, is of another kind, or has moved since the proposal is kept.
Afterwards the offsets are read back and compared.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.deletion.request import MAX_READ_AGE_SECONDS
from airflow_kafka_groups.change.restore.current_logs import SameTopics, why_kept
from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConnectionFailedError,
    KafkaGroupsError,
    MissingAnswerError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import (
    BrokerId,
    GroupOffsets,
    GroupType,
    TopicPartition,
)
from airflow_kafka_groups.ledger.proposed_changes import (
    Change,
    ChangeOutcome,
    ChangeResult,
    Commits,
    commits_in,
    is_same,
    partition_name,
)
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.observe.readings import GroupReading, committed_of, read_groups
from airflow_kafka_groups.storage.layout import Progress, ignore_progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

_CHUNK_GROUPS = 1_000
_NOTHING_SKIPPED: Mapping[str, str] = {}
_MOVED = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"})
_CHUNKS_AT_ONCE = 4
"""While brokers write one chunk, others are read, judged and read back."""
_PARTITIONS = 50  # of __consumer_offsets, as brokers are shipped; where there are more or fewer, order gains less
_PARTITIONS_OF_A_BROKER = 2


async def apply_changes(
    admin: MaintenanceClient,
    changes: Sequence[Change],
    *,
    dry_run: bool,
    may_be_absent: bool = False,
    rewrite: bool = False,
    chunk_groups: int | None = None,
    progress: Progress = ignore_progress,
) -> list[ChangeResult]:
    """Apply the changes in chunks, and return one result each, in order.

    No commit leaves later than 15 s after the reading of its chunk began, nor to another broker than the one that was
    read: who commits without membership may have moved its groups meanwhile.

    :param dry_run: run all checks but write nothing.
    :param may_be_absent: also write groups that do not exist, which creates them. Default false: such a group is kept.
    :param rewrite: also commit offsets that are committed already: the commit's time is what changes. Then the brokers
        must confirm each offset, since reading it back shows no difference. Default false.
    :param chunk_groups: the number of groups that are read, and then written, at once. Default 1,000.
    """
    size = chunk_groups or _CHUNK_GROUPS
    topics = SameTopics(admin, changes)
    one = partial(_apply_chunk, admin, topics, dry_run, may_be_absent, rewrite)
    order = await _commit_order(admin, [change.group_id for change in changes], size)
    results: list[ChangeResult] = []
    under_way: deque[asyncio.Task[list[ChangeResult]]] = deque()
    try:
        for start in range(0, len(changes), size):
            chunk = [changes[place] for place in order[start : start + size]]
            under_way.append(asyncio.create_task(one(chunk)))
            last = start + size >= len(changes)
            while under_way and (last or len(under_way) == _CHUNKS_AT_ONCE):
                results += await under_way[0]
                under_way.popleft()
                progress("commit", len(results), len(changes))
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    in_order = [result for _, result in sorted(zip(order, results, strict=True), key=itemgetter(0))]
    return await topics.fail_recreated(changes, in_order)


async def _commit_order(admin: MaintenanceClient, group_ids: Sequence[str], size: int) -> Sequence[int]:
    """Return the places of groups in the order in which to commit them, so many at once.

    A broker writes and replicates those commits together that are of one partition of ``__consumer_offsets``. So each
    chunk is of few partitions, but of neighbours, which have different leaders: all brokers have something to do.
    """
    as_given = range(len(group_ids))
    if len(group_ids) <= size:
        return as_given
    try:
        brokers = len(await admin.brokers())
    except KafkaGroupsError:  # what is wrong, each group will say
        return as_given
    some = size // max(_PARTITIONS_OF_A_BROKER * brokers, 1)
    if some < 2:
        return as_given
    at_once = size // some
    seen: defaultdict[int, count[int]] = defaultdict(count)
    keys = [(of // at_once, next(seen[of]) // some) for of in offsets_partitions(group_ids, _PARTITIONS)]
    return sorted(as_given, key=keys.__getitem__)


async def _apply_chunk(
    admin: MaintenanceClient,
    topics: SameTopics,
    dry_run: bool,
    may_be_absent: bool,
    rewrite: bool,
    chunk: Sequence[Change],
    again: bool = True,
) -> list[ChangeResult]:
    """Read the groups of a chunk, and commit what is safe to the brokers that described them.

    Another broker may know what happened since: one that stood still for some seconds is replaced without its
    knowledge, and answers by what it knew. Groups that have moved are read once more.
    """
    read_at = clock.now()
    candidates = [change.group_id for change in chunk if change.kept is None]
    readings = await read_groups(admin, candidates) if candidates else {}
    results: dict[str, ChangeResult] = {}
    ready: dict[str, Change] = {}
    chunk = await topics.without_recreated(chunk)
    for change in chunk:
        reading = readings.get(change.group_id)
        reason = change.kept or why_kept(change, reading, may_be_absent)
        if reason is not None and not again and _is_made(change, reading):
            results[change.group_id] = _result(change, ChangeOutcome.CHANGED, "committed and verified")
        elif reason is not None:
            results[change.group_id] = _result(change, ChangeOutcome.KEPT, reason, 0)
        elif not rewrite and change.is_committed:
            results[change.group_id] = _result(change, ChangeOutcome.UNCHANGED, "nothing to change", 0)
        elif dry_run:
            results[change.group_id] = _result(change, ChangeOutcome.WOULD_CHANGE, "it can be changed")
        else:
            ready[change.group_id] = change
    if ready:
        send_within = max(read_at + MAX_READ_AGE_SECONDS - clock.now(), 0.0)
        named = [readings[group_id].group for group_id in ready]
        coordinators = {group.group_id: group.coordinator for group in named if group is not None}
        written, moved = await _write(admin, ready, rewrite, send_within, coordinators)
        results |= written
        if moved and again:
            once_more = [ready[group_id] for group_id in moved]
            reread = await _apply_chunk(admin, topics, dry_run, may_be_absent, rewrite, once_more, again=False)
            results |= {result.group_id: result for result in reread if not isinstance(result.reason, Unread)}
    return [results[change.group_id] for change in chunk]


def _is_made(change: Change, reading: GroupReading | None) -> bool:
    """Return whether a group has what was to be committed by now, and is as it was otherwise.

    A broker that has written a commit, and loses its replicas before they have it, says that it is no coordinator.
    """
    wanted = {**change.before, **change.after}
    now = None if reading is None else reading.committed
    return now is not None and commits_in(now) == wanted


async def _write(
    admin: MaintenanceClient,
    ready: Mapping[str, Change],
    rewrite: bool,
    send_within: float,
    coordinators: Mapping[str, BrokerId],
) -> tuple[dict[str, ChangeResult], list[str]]:
    """Commit and read back; return the results, and the groups of which nothing was committed as they have moved."""
    after = {group_id: change.after for group_id, change in ready.items()}
    share_groups = {group_id for group_id, change in ready.items() if change.group_type == GroupType.SHARE}
    done = await _commit(admin, after, send_within, coordinators, share_groups)
    now = await committed_of(admin, list(ready))
    results: dict[str, ChangeResult] = {}
    moved: list[str] = []
    for group_id, change in ready.items():
        answer = done.get(group_id)
        error = MissingAnswerError("there is no result") if answer is None else answer.error
        read = now[group_id]
        committed = 0  # as far as that is known
        if read.error is not None or read.value is None:
            outcome, reason = ChangeOutcome.UNKNOWN, f"its offsets cannot be read back: {read.error}"
        elif differ := _differing(read.value, change.after):
            shown = str(error) if error is not None else f"{partition_name(differ[0])} differs when read back"
            outcome, reason = ChangeOutcome.FAILED, f"{len(differ)} partition(s) differ: {shown}"
            committed = len(change.after) - len(differ) if error is None else _changed(change, differ)
        elif rewrite and error is not None:
            lost = isinstance(error, OutcomeUnknownError)
            outcome = ChangeOutcome.UNKNOWN if lost else ChangeOutcome.FAILED
            reason = f"its offsets were not committed again: {error}"
        else:
            outcome, reason, committed = ChangeOutcome.CHANGED, "committed and verified", len(change.after)
        results[group_id] = _result(change, outcome, reason, committed)
        moved += [group_id] if outcome is ChangeOutcome.FAILED and _has_moved(error) else []
    return results, moved


async def _commit(
    admin: MaintenanceClient,
    after: Mapping[str, Commits],
    send_within: float,
    coordinators: Mapping[str, BrokerId],
    share_groups: Collection[str],
) -> Mapping[str, GroupResult[None]]:
    """Commit offsets: to the brokers that described the groups, and to any broker those of groups that none described.

    An error that says that a group is absent names no broker. It is no reason to ask any broker about the others.
    """
    alter = partial(admin.alter_consumer_group_offsets, send_within=send_within, share_groups=share_groups)
    if coordinators.keys() >= after.keys():
        return await alter(after, coordinators=coordinators)
    described = {group_id: of_group for group_id, of_group in after.items() if group_id in coordinators}
    absent = {group_id: of_group for group_id, of_group in after.items() if group_id not in coordinators}
    parts = ((described, coordinators), (absent, None)) if described else ((absent, None),)
    done = await asyncio.gather(*(alter(some, coordinators=only) for some, only in parts))
    return {group_id: result for some in done for group_id, result in some.items()}


def _changed(change: Change, differ: Iterable[TopicPartition]) -> int:
    """Return how many offsets of a refused commit were committed all the same: those that are new, and read back."""
    others = {where for where, value in change.after.items() if not is_same(change.before.get(where), value)}
    return len(others.difference(differ))


def _has_moved(error: Exception | None) -> bool:
    """Return whether the broker that was read cannot be reached, or does not coordinate the group any more."""
    return isinstance(error, ConnectionFailedError) or (isinstance(error, BrokerError) and error.name in _MOVED)


def _differing(read: GroupOffsets, wanted: Commits) -> list[TopicPartition]:
    """Return the partitions that were read back with another offset or metadata."""
    if isinstance(wanted, GroupOffsets) and _includes(read, wanted):
        return []
    return [where for where, value in wanted.items() if not is_same(read.get(where), value)]


def _includes(read: GroupOffsets, wanted: GroupOffsets) -> bool:
    """Return whether all offsets are there, with their leader epochs, by column; false for any with metadata."""
    there = {topic.topic: topic for topic in read.topics}
    if len(there) < len(read.topics):
        return False
    for topic in wanted.topics:
        found = there.get(topic.topic)
        if found is None or found.metadata is not None or topic.metadata is not None:
            return False
        # Brokers return the partitions of a topic in any order.
        if not set(found.fixed_fields()).issuperset(topic.fixed_fields()):
            return False
    return True


def _result(change: Change, outcome: ChangeOutcome, reason: str, partitions: int | None = None) -> ChangeResult:
    skipped = {partition_name(where): why for where, why in change.skipped.items()}
    is_set = outcome in (ChangeOutcome.CHANGED, ChangeOutcome.WOULD_CHANGE)
    return ChangeResult(
        group_id=change.group_id,
        outcome=outcome,
        reason=f"{reason}; {change.note}" if is_set and change.note else reason,
        partitions=len(change.after) if partitions is None else partitions,
        skipped=skipped or _NOTHING_SKIPPED,
        skips=change.skips if partitions != 0 else 0,
        rereads=change.rereads if partitions != 0 else 0,
    )
