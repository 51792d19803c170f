"""Apply changes of committed offsets to groups without members that have not moved since the proposal, and verify."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.deletion.request import MAX_READ_AGE_SECONDS
from airflow_kafka_groups.change.restore.current_logs import SameTopics, why_kept
from airflow_kafka_groups.exceptions import MissingAnswerError, OutcomeUnknownError
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.routing import offsets_partitions
from airflow_kafka_groups.kafka.models import BrokerId, GroupOffsets, GroupType, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import (
    Change,
    ChangeOutcome,
    ChangeResult,
    Commits,
    is_same,
    partition_name,
)
from airflow_kafka_groups.observe.readings import committed_of, read_groups
from airflow_kafka_groups.storage.layout import Progress, ignore_progress

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient

_CHUNK_GROUPS = 1_000
_CHUNKS_AT_ONCE = 4
"""While brokers write one chunk, others are read, judged and read back."""
_PARTITIONS = 50  # of __consumer_offsets, as brokers are shipped; where there are more or fewer, order gains less
_PARTITIONS_OF_A_CHUNK = 6


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
    read: one that stood still is replaced without its knowledge, and answers by what it knew.

    :param changes: at most one of each group.
    :param dry_run: run all checks but write nothing.
    :param may_be_absent: also write groups that do not exist, which creates them. Default false: such a group is kept.
    :param rewrite: also commit offsets that are committed already: the commit's time is what changes. Then the brokers
        must confirm each offset, since reading it back shows no difference. Default false.
    :param chunk_groups: the number of groups that are read, and then written, at once. Default 1,000.
    """
    topics, size = SameTopics(admin, changes), chunk_groups or _CHUNK_GROUPS
    ordered, results = _commit_order(changes, size), dict[str, ChangeResult]()
    chunks = (ordered[start : start + size] for start in range(0, len(ordered), size))

    async def work() -> None:
        for chunk in chunks:
            results.update(await _apply_chunk(admin, topics, dry_run, may_be_absent, rewrite, chunk))
            progress("commit", len(results), len(changes))

    tasks = [asyncio.create_task(work()) for _ in range(_CHUNKS_AT_ONCE)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return await topics.fail_recreated(changes, [results[change.group_id] for change in changes])


def _commit_order(changes: Sequence[Change], size: int) -> Sequence[Change]:
    """Return changes in the order in which to commit them, so many at once.

    A broker writes and replicates those commits together that are of one partition of ``__consumer_offsets``. So each
    chunk is of few partitions, but of neighbours, which have different leaders: all brokers have something to do.
    """
    if len(changes) <= size:
        return changes
    some = -(-size // _PARTITIONS_OF_A_CHUNK)
    seen: defaultdict[int, count[int]] = defaultdict(count)
    partitions = offsets_partitions([change.group_id for change in changes], _PARTITIONS)
    keys = [(of // _PARTITIONS_OF_A_CHUNK, next(seen[of]) // some) for of in partitions]
    return [changes[place] for place in sorted(range(len(changes)), key=keys.__getitem__)]


async def _apply_chunk(
    admin: MaintenanceClient,
    topics: SameTopics,
    dry_run: bool,
    may_be_absent: bool,
    rewrite: bool,
    chunk: Sequence[Change],
) -> dict[str, ChangeResult]:
    """Read the groups of a chunk, and commit what is safe."""
    read_at = clock.now()
    candidates = [change.group_id for change in chunk if change.kept is None]
    readings = await read_groups(admin, candidates) if candidates else {}
    results: dict[str, ChangeResult] = {}
    ready: dict[str, Change] = {}
    for change in await topics.without_recreated(chunk):
        reason = change.kept or why_kept(change, readings.get(change.group_id), may_be_absent)
        if reason is not None:
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
        results |= await _write(admin, ready, rewrite, send_within, coordinators)
    return results


async def _write(
    admin: MaintenanceClient,
    ready: Mapping[str, Change],
    rewrite: bool,
    send_within: float,
    coordinators: Mapping[str, BrokerId],
) -> dict[str, ChangeResult]:
    """Commit and read back."""
    done = await _commit(admin, ready, send_within, coordinators)
    now = await committed_of(admin, list(ready))
    results: dict[str, ChangeResult] = {}
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
            # Those that were there before a refused commit are not counted.
            asked = (at for at, value in change.after.items() if not (error and is_same(change.before.get(at), value)))
            committed = len({*asked}.difference(differ))
        elif rewrite and error is not None:
            lost = isinstance(error, OutcomeUnknownError)
            outcome = ChangeOutcome.UNKNOWN if lost else ChangeOutcome.FAILED
            reason = f"its offsets were not committed again: {error}"
        else:
            outcome, reason, committed = ChangeOutcome.CHANGED, "committed and verified", len(change.after)
        results[group_id] = _result(change, outcome, reason, committed)
    return results


async def _commit(
    admin: MaintenanceClient,
    ready: Mapping[str, Change],
    send_within: float,
    coordinators: Mapping[str, BrokerId],
) -> Mapping[str, GroupResult[None]]:
    """Commit offsets: to the brokers that described the groups, and to any broker those of groups that none described.

    An error that says that a group is absent names no broker. It is no reason to ask any broker about the others.
    """
    share_groups = {group_id for group_id, change in ready.items() if change.group_type == GroupType.SHARE}
    alter = partial(admin.alter_consumer_group_offsets, send_within=send_within, share_groups=share_groups)
    described = {group_id: change.after for group_id, change in ready.items() if group_id in coordinators}
    absent = {group_id: change.after for group_id, change in ready.items() if group_id not in coordinators}
    parts = [alter(described, coordinators=coordinators)] if described else []
    parts += [alter(absent)] if absent else []
    return {group_id: result for done in await asyncio.gather(*parts) for group_id, result in done.items()}


def _differing(read: GroupOffsets, wanted: Commits) -> list[TopicPartition]:
    """Return the partitions that were read back with another offset or metadata."""
    if isinstance(wanted, GroupOffsets):  # of a backup, which can have millions: nearly always, all is there
        there = {topic.topic: set(topic.rows()) for topic in read.topics}
        if all(there.get(topic.topic, set()).issuperset(topic.rows()) for topic in wanted.topics):
            return []
    return [where for where, value in wanted.items() if not is_same(read.get(where), value)]


def _result(change: Change, outcome: ChangeOutcome, reason: str, partitions: int | None = None) -> ChangeResult:
    skipped = {partition_name(where): why for where, why in change.skipped.items()}
    return ChangeResult(
        group_id=change.group_id,
        outcome=outcome,
        reason=reason,
        partitions=len(change.after) if partitions is None else partitions,
        skipped=skipped,
        skips=change.skips if partitions != 0 else 0,
        rereads=change.rereads if partitions != 0 else 0,
    )
