"""Delete committed offsets that are on record. Groups are read once more right before: what was committed since stays.

The record is all that brings the offsets back, and a client without membership may commit at any time. So each group is
deleted from within some seconds of its reading, and only by the broker that described it (``admin.client.changes``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any

from airflow_kafka_groups.change.deletion.chunk_reader import read_groups
from airflow_kafka_groups.change.deletion.request import MAX_READ_AGE_SECONDS
from airflow_kafka_groups.change.restore.earlier_tries import DELETION, EarlierTries, in_topics
from airflow_kafka_groups.change.restore.recorded import RecordedChanges
from airflow_kafka_groups.exceptions import (
    GroupsFailedError,
    KafkaGroupsError,
    MaintenanceError,
    MissingAnswerError,
    OutcomeUnknownError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets, TopicPartition
from airflow_kafka_groups.ledger.keep_alive_records import KAFKA_CLUSTER_ID
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, ChangeResult, Commits, commits_in
from airflow_kafka_groups.observe.protocols import OffsetDeletionAdmin, committed_of
from airflow_kafka_groups.observe.snapshot.subscriptions import topics_seen
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import write_json
from airflow_kafka_groups.storage.layout import Layout, utc_now
from airflow_kafka_groups.storage.paths import CHANGES, new_id

_AT_ONCE = 20
_NOTHING_SKIPPED: Mapping[str, str] = {}

Failures = dict[str, KafkaGroupsError]


async def forget_topics(
    admin: OffsetDeletionAdmin,
    layout: Layout,
    group_ids: Sequence[str],
    topics: Set[str],
    *,
    dry_run: bool,
    progress: Callable[[int, int], None],
    earlier: Callable[[str | None], EarlierTries] = lambda _: EarlierTries(),
    facts: Mapping[str, Any] | None = None,
) -> RecordedChanges:
    """Record the committed offsets that groups have of some topics, and delete them.

    :param earlier: reads what earlier tries of the same task meant to delete, given the id that the brokers report:
        what was committed since then stays. Default: this is the first try.
    :param facts: further fields of the record. Default: none.

    Returns a result for each group, and the record; ``None`` where nothing was deleted. Raises ``GroupsFailedError``
    before anything is deleted if a group cannot be read; ``StorageError`` if the offsets cannot be recorded.
    """
    read = await committed_of(admin, group_ids)
    if unread := {group_id: result.error for group_id, result in read.items() if result.error is not None}:
        raise GroupsFailedError(unread, len(group_ids))
    before = {
        group_id: commits
        for group_id, result in read.items()
        if (commits := {where: v for where, v in commits_in(result.unwrap()).items() if where.topic in topics})
    }
    cluster_id = await admin.cluster_id()
    tries = await asyncio.to_thread(earlier, cluster_id)
    is_asked = in_topics(topics)
    used = {id_: tries.why_kept(id_, commits, is_asked, may_be_absent=True) for id_, commits in before.items()}
    failed: Failures = {group_id: MaintenanceError(why) for group_id, why in used.items() if why is not None}
    proposed = [Change(group_id=group_id, before=commits) for group_id, commits in before.items()]
    before = {group_id: commits for group_id, commits in before.items() if group_id not in failed}
    if dry_run and before:
        described = await admin.describe_consumer_groups(list(before))
        for group_id, commits in before.items():
            try:
                _unread(commits, described.get(group_id))
            except KafkaGroupsError as error:
                failed[group_id] = error
    done = partial(_results, proposed, read, dry_run)
    if dry_run or not before:
        return RecordedChanges(results=done(failed), changes=proposed, path=None, dry_run=dry_run)
    run_id = new_id(utc_now())
    head = {"format": FORMAT, "run_id": run_id, "what": DELETION, "cluster": layout.cluster, "dry_run": False}
    head |= {KAFKA_CLUSTER_ID: cluster_id, **(facts or {})}
    changes = [change.to_json() for change in proposed if change.group_id in before]
    path = write_json(layout.root / CHANGES, f"{run_id}-before.json", {**head, "groups": changes})
    FILES.sync(path)
    kept = set[str]()
    errors = await forget_offsets(admin, before, progress, kept)
    outcomes = dict.fromkeys(before, "changed") | dict.fromkeys(errors, "failed") | dict.fromkeys(kept, "kept")
    results = [{"group_id": group_id, "outcome": outcome} for group_id, outcome in outcomes.items()]
    with suppress(MaintenanceError):  # without it, all of them count as deleted
        path = write_json(layout.root / CHANGES, f"{run_id}-result.json", {**head, "groups": results})
    return RecordedChanges(results=done(failed | errors), changes=proposed, path=path, dry_run=dry_run)


def _results(
    proposed: Sequence[Change], group_ids: Iterable[str], dry_run: bool, failed: Mapping[str, KafkaGroupsError]
) -> list[ChangeResult]:
    """Return a result for each group, also for those that have no offset there."""
    of_group = {change.group_id: len(change.before) for change in proposed}
    results = []
    for group_id in group_ids:
        error, partitions = failed.get(group_id), of_group.get(group_id, 0)
        if error is not None:
            outcome, reason = ChangeOutcome.FAILED, str(error)
            if isinstance(error, OutcomeUnknownError):
                outcome = ChangeOutcome.UNKNOWN
        elif not partitions:
            outcome, reason = ChangeOutcome.UNCHANGED, "it has no committed offsets there"
        elif dry_run:
            outcome, reason = ChangeOutcome.WOULD_CHANGE, "its offsets can be deleted"
        else:
            outcome, reason = ChangeOutcome.CHANGED, "deleted and verified"
        left = 0 if error is not None else partitions
        results.append(
            ChangeResult(group_id=group_id, outcome=outcome, reason=reason, partitions=left, skipped=_NOTHING_SKIPPED)
        )
    return results


async def forget_offsets(
    admin: OffsetDeletionAdmin,
    recorded: Mapping[str, Commits],
    progress: Callable[[int, int], None] = lambda done, total: None,
    kept: set[str] | None = None,
) -> Failures:
    """Delete recorded offsets, and return the groups that failed, each with the reason.

    :param recorded: the offsets to delete, by group.
    :param progress: called with the number of groups that are done, and of all.
    :param kept: gets those of the groups of which no request has named any offset. Default: nobody asks.
    """
    unasked = set[str]() if kept is None else kept
    group_ids, failed = list(recorded), Failures()
    for start in range(0, len(group_ids), _AT_ONCE):
        chunk = group_ids[start : start + _AT_ONCE]
        failed |= await _forget_chunk(admin, {group_id: recorded[group_id] for group_id in chunk}, unasked)
        progress(start + len(chunk), len(group_ids))
    return failed


async def _forget_chunk(admin: OffsetDeletionAdmin, recorded: Mapping[str, Commits], unasked: set[str]) -> Failures:
    send_by = clock.now() + MAX_READ_AGE_SECONDS
    described, offsets = await read_groups(admin, list(recorded))

    async def forget(group_id: str) -> KafkaGroupsError | None:
        try:
            group, there = _unmoved(recorded[group_id], described.get(group_id), offsets[group_id])
        except KafkaGroupsError as error:
            unasked.add(group_id)
            return error
        try:
            if there:
                await admin.delete_consumer_group_offsets(
                    group_id, there, send_within=max(send_by - clock.now(), 0.0), coordinator=group.coordinator
                )
        except KafkaGroupsError as error:
            return error
        return None

    errors = await asyncio.gather(*map(forget, recorded))
    failed = {group_id: error for group_id, error in zip(recorded, errors, strict=True) if error is not None}
    done = [group_id for group_id in recorded if group_id not in failed]
    left = await committed_of(admin, done) if done else {}
    for group_id in done:
        if (error := _why_left(recorded[group_id], left[group_id])) is not None:
            failed[group_id] = error
    return failed


def _unmoved(
    recorded: Commits, described: GroupResult[GroupDescription] | None, offsets: GroupResult[GroupOffsets]
) -> tuple[GroupDescription, list[TopicPartition]]:
    """Return the description of a group, and which of the recorded offsets it still has; raise if they have moved."""
    group = _unread(recorded, described)
    now = commits_in(offsets.unwrap())
    topics = {where.topic for where in recorded}
    if any(value != recorded.get(where) for where, value in now.items() if where.topic in topics):
        raise MaintenanceError("its offsets have moved since they were recorded: nothing of it was deleted")
    return group, [where for where in recorded if where in now]


def _unread(recorded: Commits, described: GroupResult[GroupDescription] | None) -> GroupDescription:
    """Return the description of a group; raise if a member reads one of the topics, or that is not known.

    Brokers refuse only what a member subscribes to: not what was assigned to one that subscribes to nothing of it.
    """
    if described is None:
        raise MissingAnswerError("its coordinator returned no result")
    group = described.unwrap()
    if read := topics_seen(group).intersection(where.topic for where in recorded):
        raise MaintenanceError(f"a member reads {min(read)}: nothing of it was deleted. Stop its consumers first")
    return group


def _why_left(recorded: Commits, read: GroupResult[GroupOffsets]) -> KafkaGroupsError | None:
    if read.value is None:
        return MaintenanceError(f"its offsets could not be read back: {read.error}")
    left = recorded.keys() & commits_in(read.value).keys()
    return MaintenanceError(f"{len(left)} partition(s) have a committed offset still, or again") if left else None
