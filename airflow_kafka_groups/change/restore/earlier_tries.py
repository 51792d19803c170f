"""What must be known before offsets are set: earlier tries of the same task, and deletions that are under way.

Every try writes its record, and its entry in the log, before it commits anything. A later one sets the same offsets,
and keeps a group that is neither where it was nor where it was to be: it was used in between. So a distance is not
moved twice, either.

A deletion reads these records once more between its intent and its request. So either it finds the record and sends
nothing, or the restore (or keep-alive run) finds the intent here, and waits. Without the wait it would find a group
unchanged, or keep one alive, that is gone a moment later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_groups.change.deletion.request import MAX_DELETE_SECONDS, MAX_READ_AGE_SECONDS
from airflow_kafka_groups.exceptions import JournalError, MaintenanceError, StorageError
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.proposed_changes import Change, ChangeOutcome, commits_from, is_same, partition_name
from airflow_kafka_groups.shown import one_line
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import read_all, read_few
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout, StoragePath, check_id
from airflow_kafka_groups.storage.paths import CHANGES, CLOCK_SLACK, time_of

log = logging.getLogger(__name__)

LONGEST_SECONDS = MAX_READ_AGE_SECONDS + MAX_DELETE_SECONDS
"""After that, a request that was about to leave has left and was given up: its process died, or its answer is lost.
Runs in Python may have higher limits; the first entry of each in the journal has its own."""
_POLL_SECONDS = 0.5


async def wait_for_deletions(
    layout: Layout, kafka_cluster_id: str | None, group_ids: Iterable[str], now: datetime
) -> bool:
    """Wait until no request to delete one of these groups, or a topic of one, is under way; return whether any was.

    A journal that is damaged is not waited for: restores have to work without it. Raises ``StorageError``.

    :param now: the time of day. An intent without an outcome that is older belongs to a run that was killed.
    """
    wanted, began, longest, passed, waited = frozenset(group_ids), clock.now(), LONGEST_SECONDS, 0.0, False
    while True:
        try:
            at = now + timedelta(seconds=passed)
            found = await asyncio.to_thread(_about_to_be_deleted, layout, kafka_cluster_id, wanted, at)
        except JournalError as error:
            log.warning("Whether a deletion is in progress is not known: %s", error)
            return waited
        longest, passed = max([longest, *found.values()]), clock.now() - began
        if not found or passed >= longest:
            return waited or bool(found)  # a look itself may take so long, of a run with thousands of entries
        if not waited:
            log.warning(
                "A deletion is about to delete %d of these groups, first %s: waiting until it is over, at most %g s",
                len(found),
                one_line(min(found)),
                longest,
            )
        waited = True
        await asyncio.sleep(_POLL_SECONDS)


def _about_to_be_deleted(
    layout: Layout, kafka_cluster_id: str | None, wanted: frozenset[str], now: datetime
) -> dict[str, float]:
    """Return what is about to be deleted, and how many seconds its request may last."""
    found: dict[str, float] = {}
    for run in read_history(layout, kafka_cluster_id).runs:
        if run.ended is not None:
            continue
        longest = max(LONGEST_SECONDS, run.begun.get("request_seconds", 0.0))
        since = now - timedelta(seconds=longest) - CLOCK_SLACK
        found |= {name: longest for name, at in run.intents.items() if at >= since and name not in run.decided_at}
    return {name: each for name, each in found.items() if name in wanted or name.rpartition(" [")[0] in wanted}


TASK_RUN = "task_run"
"""The field of a record that all tries of a task have in common."""
SHIFT_BY = "shift_by"
TARGET = "target"
"""The field with what else a reset was asked for: an end of the log, or a time."""
DELETION = "delete offsets"
"""The kind of change whose record has what was deleted."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What a try that changed a partition found there, and what it meant to set.

    :param after: ``None`` where it meant to delete the offset.
    :param record: the path of its record.
    :param is_asked: whether this try is asked for the same.
    """

    before: OffsetAndMetadata | None
    after: OffsetAndMetadata | None
    record: str
    is_asked: bool


@dataclass(frozen=True, slots=True)
class EarlierTries:
    """What the earlier tries of a task meant to set. Default: nothing."""

    groups: Mapping[str, Mapping[TopicPartition, Sequence[Meant]]] = field(default_factory=dict)

    def target(self, group_id: str, where: TopicPartition) -> int | None:
        """Return the offset that an earlier try meant to set, ``None`` if none did that was asked for the same."""
        tries = self.groups.get(group_id, {}).get(where, ())
        return next((meant.after.offset for meant in tries if meant.is_asked and meant.after is not None), None)

    def spare(self, change: Change, *, deletes: bool) -> Change:
        """Return a proposed change: one that is kept where the group was used since an earlier try changed it.

        Offsets that are gone were not used: a group may have been deleted since. Another task may have changed other
        partitions, which are used since then.

        :param deletes: whether all that the group has is to be deleted.
        """
        if change.kept is not None:
            return change
        for where, tries in self.groups.get(change.group_id, {}).items():
            found = change.before.get(where)
            is_changed = where in change.after or where in change.skipped or deletes
            known = (each for meant in tries for each in (meant.before, meant.after))
            if is_changed and found is not None and not any(is_same(found, each) for each in known):
                meant = tries[-1]
                to = "delete it" if meant.after is None else f"set it to {meant.after.offset}"
                why = (
                    f"{partition_name(where)} is at {found.offset}: it was used since an earlier try of this task, by "
                    f"{meant.record}, meant to {to}. To change it all the same, start a new DAG run, or type a command "
                    "that names its group alone"
                )
                return replace(change, after={}, kept=why)
        return change


def in_topics(topics: Collection[str] | None) -> Callable[[TopicPartition], bool]:
    """Return what tells whether a partition is of some topics; ``None``: of any."""
    return lambda where: topics is None or where.topic in topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """Which runs are tries of the same change: a task is retried or cleared, a command that was killed typed again.

    The cluster's log names them, whichever connection they ran by, and those of all tasks of a mapped one.

    :param task_run: names the change; the same for each of its tries.
    :param killed_since: only tries from then on count that recorded no result, and after which none did: a command that
        ended is a new one when it is typed again. Default: all tries count.
    """

    task_run: str
    killed_since: datetime | None = None

    def read(self, layout: Layout, asked: Mapping[str, Any], kafka_cluster_id: str | None) -> EarlierTries:
        """Return what the earlier tries meant to set. Raises ``MaintenanceError`` for another distance or a damage.

        :param asked: what this try is asked for, by the fields of a record: a distance or a target.
        """
        groups: dict[str, dict[TopicPartition, list[Meant]]] = {}
        for path, record, kept in self.records(layout, kafka_cluster_id):
            is_asked = all(record.get(each) == asked.get(each) for each in (SHIFT_BY, TARGET))
            if not is_asked and record.get(TASK_RUN) != self.task_run:
                continue
            if record.get(SHIFT_BY) != asked.get(SHIFT_BY):
                why = "was asked for another distance or target"
                raise MaintenanceError(f"an earlier try of this task {why}, see {path}: start a new DAG run")
            _add(groups, record, str(path), kept or (), is_asked=is_asked)
        return EarlierTries(groups)

    def records(
        self, layout: Layout, kafka_cluster_id: str | None
    ) -> Iterator[tuple[StoragePath, dict[str, Any], frozenset[str] | None]]:
        """Yield what earlier tries recorded, oldest first: path, record, and the groups kept (``None``: it was killed).

        Raises ``MaintenanceError`` for a record that is missing or damaged, or such a log, and ``StorageError``.
        """
        since = self.killed_since
        paths = [
            Layout(layout.base, folder).root / CHANGES / f"{check_id('run_id', run_id)}-before.json"
            for folder, run_id in Ledger(layout, kafka_cluster_id).tries_of(self.task_run)
            if since is None or time_of(run_id) >= since
        ]
        kept = read_all(_kept_by, paths)
        ended = [number for number, groups in enumerate(kept, start=1) if groups is not None]
        first = 0 if since is None or not ended else ended[-1]
        return zip(paths[first:], read_few(_recorded, paths[first:]), kept[first:], strict=True)


def _recorded(path: StoragePath) -> dict[str, Any]:
    return read_json(path, "the record of an earlier try", MaintenanceError)


def _kept_by(before: StoragePath) -> frozenset[str] | None:
    path = before.parent / before.name.replace("before", "result")
    try:
        groups = read_json(path, "the result of a change", MaintenanceError)["groups"]
        return frozenset(group["group_id"] for group in groups if group["outcome"] == ChangeOutcome.KEPT)
    except StorageError:
        raise
    except (MaintenanceError, KeyError, TypeError):
        return None


def _add(
    groups: dict[str, dict[TopicPartition, list[Meant]]],
    record: Mapping[str, Any],
    path: str,
    kept: Collection[str],
    *,
    is_asked: bool,
) -> None:
    with unless_damaged(MaintenanceError, f"the record of a change in {path}"):
        for group in record["groups"]:
            before = commits_from(group["before"])
            deletes = record["what"] == DELETION  # of all that was there
            if group["kept"] is None and group["group_id"] not in kept:
                of_group = groups.setdefault(group["group_id"], {})
                meant = dict.fromkeys(before) if deletes else commits_from(group["after"])
                for where, after in meant.items():
                    of_group.setdefault(where, []).append(Meant(before.get(where), after, path, is_asked))
