"""Read the journal of a cluster, and append to it: intent before a request leaves, outcome after it.

A deletion may only go on after ``intend`` has returned; what was intended and has no outcome is possibly deleted. When
an outcome cannot be appended, the intent stays as it is, and nothing more may be deleted by this run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError, StorageError
from airflow_kafka_groups.ledger.journal.checkpoint import (
    CHECKPOINT_RUNS,
    read_checkpoint,
    write_checkpoint,
)
from airflow_kafka_groups.ledger.journal.entries import (
    begun_entries,
    begun_path,
    end_json,
    ended_path,
    intents_json,
    may_delete,
    outcomes_json,
    outcomes_of,
    probe_path,
    read_begun,
    require_begun,
    run_folder,
    runs_listed,
)
from airflow_kafka_groups.ledger.journal.history import DeletionHistory, RunRecord, fold
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.observe.cluster_log import Chain, Entry, create_entry, read_entry
from airflow_kafka_groups.storage.access import EXCLUSIVE_REMEDY, unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES, read_all, read_few
from airflow_kafka_groups.storage.layout import Layout, StoragePath, journal_folder
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, parse_time

NO_END = "the run has begun and its end is not recorded: it was interrupted, or it is still running"


class Journal:
    """The journal of one Kafka cluster.

    :param base: the storage folder above all clusters' folders.
    :param kafka_cluster_id: the id that the brokers report.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, base: StoragePath, kafka_cluster_id: str | None) -> None:
        self.folder = journal_folder(base, kafka_cluster_id)
        self._kafka_cluster_id = kafka_cluster_id

    def read(self) -> DeletionHistory:
        """Read every run.

        Raises ``JournalError`` when an entry is missing, damaged or not chained to the one before it, and
        ``StorageError`` when the storage fails: what cannot be read is never taken for nothing.
        """
        return DeletionHistory(list(self._each_run()))

    def current(self) -> DeletionHistory:
        """Read what decisions need: the runs since the newest checkpoint, and what those before it amount to.

        Raises as ``read`` does. Where a checkpoint is in doubt, every run is read.
        """
        listed = runs_listed(self.folder)
        highest = max(listed, default=0)
        tail = begun_entries(self.folder, highest, highest) if highest else begun_entries(self.folder, 1, 0)
        checkpoint = read_checkpoint(self.folder, tail[-1], listed, self._read_ended) if tail else None
        if checkpoint is None:
            return self.read()
        begun = begun_entries(self.folder, checkpoint.runs + 1, highest)
        link = begun[0].data["previous"]
        if not isinstance(link, Mapping) or link.get("begun") != checkpoint.last:
            return self.read()
        since = range(checkpoint.runs + 1, checkpoint.runs + 1 + len(begun))
        runs = [
            *read_all(self._read_numbered, checkpoint.open),
            *read_all(self._read_run, since, begun, [*begun[1:], None]),
        ]
        return DeletionHistory(runs, settled=checkpoint)

    def begin(self, header: Mapping[str, Any], at: datetime, *, after: DeletionHistory) -> RunJournal:
        """Append the first entry of a run.

        :param header: what the run is about: ``run_id``, ``request_id`` and whatever else is to be known of it later.
        :param after: the history by which the run decides. It has to be current.

        Raises ``JournalError`` when another run has begun since that history was read, or when the clock is behind the
        journal's; ``StorageError`` when the entry cannot be written, or the storage would let another run replace it.
        Nothing may be deleted then.
        """
        if not FILES.is_exclusive(probe := probe_path(self.folder)):
            raise StorageError(f"{probe} existed, and the storage replaced it; nothing was deleted. {EXCLUSIVE_REMEDY}")
        number = after.runs[-1].number + 1 if after.runs else 1
        previous = checkpoint = None
        if after.runs:
            last = after.runs[-1]
            if at < (latest := parse_time((last.ended or last.begun)["at"])) - CLOCK_SLACK:
                raise JournalError(
                    f"the clock says {at.isoformat()}, which is before the last run in the journal "
                    f"({latest.isoformat()}): synchronize this machine's clock (NTP); nothing was deleted"
                )
            previous = self._link(last.number)
            checkpoint = self._checkpoint(after)
        data = {"kind": "begun", "at": at.isoformat(), "previous": previous, "checkpoint": checkpoint, **header}
        try:
            entry = create_entry(begun_path(self.folder, number), {**data, "kafka_cluster_id": self._kafka_cluster_id})
        except FileExistsAlreadyError as exc:
            raise JournalError(f"another run has begun at the same time ({exc}); nothing was deleted") from exc
        return RunJournal(self.folder, number, entry)

    def refresh(self, history: DeletionHistory) -> DeletionHistory:
        """Return a history with every run that had no end in it read once more.

        After ``begin``, this shows what other runs intended in between; what they intend from now on they do not send,
        since they look for later runs in between (``RunJournal.overtaken``). Raises what ``read`` raises.
        """
        return replace(history, runs=read_all(self._read_again, history.runs))

    def _read_again(self, run: RunRecord) -> RunRecord:
        return self._read_numbered(run.number) if run.ended is None else run

    def _read_numbered(self, number: int) -> RunRecord:
        return self._read_run(number, require_begun(self.folder, number), read_begun(self.folder, number + 1))

    def _read_ended(self, number: int) -> RunRecord:
        run = self._read_numbered(number)
        if run.ended is None:
            raise JournalError(f"{ended_path(self.folder, number)} is missing, and a checkpoint says that it was there")
        return run

    def _checkpoint(self, after: DeletionHistory) -> dict[str, Any] | None:
        """Return the checkpoint that the next run names: a new one, or that of the run before it."""
        last = after.runs[-1]
        if last.number - (after.settled.runs if after.settled is not None else 0) < CHECKPOINT_RUNS:
            named: dict[str, Any] | None = last.begun.get("checkpoint")
            return named
        # Made of the complete chain: what was changed since the checkpoint before is found out here.
        runs = islice(self._each_run(), last.number)
        return write_checkpoint(self.folder, runs, require_begun(self.folder, last.number))

    def _each_run(self) -> Iterator[RunRecord]:
        """Yield every run; raises as ``read``. Few are there at once: all of them are the outcomes of years."""
        begun = begun_entries(self.folder, 1, max(runs_listed(self.folder), default=0))
        return read_few(self._read_run, range(1, len(begun) + 1), begun, [*begun[1:], None])

    def _read_run(self, number: int, begun: Entry, later: Entry | None) -> RunRecord:
        link = None if later is None else later.data["previous"]
        if later is not None and (not isinstance(link, Mapping) or link.get("begun") != begun.sha256):
            raise JournalError(f"{later.path} does not follow {begun.path}: the journal was changed")
        link = link or {}
        ended = read_entry(ended_path(self.folder, number), "ended")
        if link.get("ended") not in (None, ended and ended.sha256):
            raise JournalError(f"{ended_path(self.folder, number)} is not what the next run found: it was changed")
        if ended is not None:
            if ended.data.get("begun") != begun.sha256:
                raise JournalError(f"{ended.path} does not belong to {begun.path}: the journal was changed")
            return fold(number, begun.data, (), ended.data, str(ended.path))
        entries = Chain(run_folder(self.folder, number), begun.sha256).read()
        count = link.get("entries", 0)
        if len(entries) < count or (count and entries[count - 1].sha256 != link.get("head")):
            raise JournalError(f"run {number} of the journal lacks entries that the next run found: it was changed")
        return fold(number, begun.data, [entry.data for entry in entries], None, str(begun.path))

    def _link(self, number: int) -> dict[str, Any]:
        """Return what the next run's first entry says of this one, so that nobody changes it unnoticed."""
        begun = require_begun(self.folder, number)
        ended = read_entry(ended_path(self.folder, number), "ended")
        if ended is not None:
            return {"begun": begun.sha256, "ended": ended.sha256}
        chain = Chain(run_folder(self.folder, number), begun.sha256)
        chain.read()
        return {"begun": begun.sha256, "entries": chain.count, "head": chain.head}


class RunJournal:
    """The entries of one run, appended as it goes. Not for two threads at once."""

    def __init__(self, folder: StoragePath, number: int, begun: Entry) -> None:
        self._begun = begun
        self._folder = folder
        self._seen = number
        self._chain = Chain(run_folder(folder, number), begun.sha256)
        self.number = number
        self._intents: dict[str, str] = {}
        self._decided: dict[str, str] = {}

    @property
    def path(self) -> StoragePath:
        """The run's first entry."""
        return self._begun.path

    def intend(self, groups: Mapping[str, str], at: datetime, **more: Any) -> None:
        """Record that a request to delete these groups is about to leave; durable when this returns.

        :param groups: the fingerprint of each group's committed offsets.
        :param more: what else is to be known, such as the lease's generation.

        Raises ``StorageError`` or ``JournalError``: then nothing may be sent.
        """
        when = self._time(at)
        self._chain.append({"kind": "intent", "at": when, **more, **intents_json(groups)})
        self._intents |= dict.fromkeys(groups, when)
        for group_id in groups:  # what was decided before is of another request, which did not leave
            self._decided.pop(group_id, None)

    def overtaken(self) -> bool:
        """Return whether another run that may delete has begun since; to be asked between an intent and its request.

        Of two runs at once, either the later one finds the intent, or this one finds the later one. Raises
        ``StorageError`` or ``JournalError``, also where the storage was unmounted since: then nothing may be sent.
        """
        if (own := read_begun(self._folder, self.number)) is None or own.sha256 != self._begun.sha256:
            raise JournalError(f"{self.path} is not what this run began with: check that the storage is mounted")
        while (later := read_begun(self._folder, self._seen + 1)) is not None:
            if may_delete(later):
                return True
            self._seen += 1
        return False

    def conclude(self, outcomes: Iterable[GroupOutcome], at: datetime) -> None:
        """Record what became of groups, with or without an intent before it.

        Raises ``StorageError`` or ``JournalError``: then nothing more may be deleted by this run.
        """
        columns, when = outcomes_json(outcomes), self._time(at)
        self._chain.append({"kind": "outcome", "at": when, **columns})
        self._decided |= dict.fromkeys(columns["groups"], when)

    def end(self, outcomes: Sequence[GroupOutcome], summary: Mapping[str, Any], at: datetime) -> StoragePath:
        """Record the end of the run, with every group's outcome once more, and return the entry's path.

        A reader then needs this entry only. Raises ``StorageError`` or ``JournalError``.
        """
        known = {item.group_id: item for item in outcomes}
        missing = self._intents.keys() - known.keys()
        if missing:
            raise JournalError(f"{min(missing)!r} was about to be deleted and has no outcome: the run cannot be ended")
        when = self._time(at)
        data = {**summary, "kind": "ended", "at": at.isoformat(), "begun": self._begun.sha256,
                "entries": self._chain.count, "head": self._chain.head,
                "outcomes": end_json(list(known.values()), self._intents, self._decided, when)}  # fmt: skip
        return create_entry(ended_path(self._folder, self.number), data).path

    def _time(self, at: datetime) -> str:
        """Return the time of what was seen or done: no earlier than the run, where the clock was set back since."""
        return max(at, parse_time(self._begun.data["at"])).isoformat()


def read_history(layout: Layout, kafka_cluster_id: str | None) -> DeletionHistory:
    """Read the history of deletions on a cluster.

    Raises ``JournalError`` and ``StorageError``.
    """
    return Journal(layout.base, kafka_cluster_id).current()


def records_of_plan(layout: Layout, kafka_cluster_id: str | None, plan_id: str) -> dict[str, dict[str, Any]]:
    """Return the records of every run of a plan, by their paths, oldest first. Raises what ``read_history`` raises."""
    return {run.path: record_of(run) for run in read_history(layout, kafka_cluster_id).of_plan(plan_id)}


def record_of(run: RunRecord) -> dict[str, Any]:
    """Return the record of a run."""
    outcomes = list(run.outcomes.values())
    if run.ended is not None:
        return {**run.ended, "outcomes": [item.to_json() for item in outcomes]}
    counts = Counter(item.outcome for item in outcomes)
    times = [*run.intents.values(), *run.decided_at.values()]
    return {
        **run.begun,
        "finished_at": max(times).isoformat() if times else run.begun["at"],
        "seconds": None,
        "counts": {outcome.value: counts.get(outcome, 0) for outcome in Outcome},
        "kept_reasons": dict(Counter(item.code for item in outcomes if item.outcome is Outcome.KEPT)),
        "warnings": [NO_END],
        "verification": None,
        "outcomes": [item.to_json() for item in outcomes],
    }


def read_end(path: StoragePath) -> tuple[Mapping[str, Any], list[GroupOutcome]]:
    """Read the last entry of a run: its content, and all outcomes.

    Raises ``JournalError`` when it is missing or damaged, and ``StorageError``.
    """
    entry = read_entry(path, named=True)
    if entry is None:
        raise JournalError(f"the record of the deletion is missing: there is no {path}")
    with unless_damaged(JournalError, f"the record {path}"):
        return entry.data, list(outcomes_of(entry.data["outcomes"]))
