"""Read what deletion runs wrote to the log of a cluster, and append to it: intent before a request, outcome after it.

A deletion may only go on after ``intend`` has returned; what was intended and has no outcome is possibly deleted. When
an outcome cannot be appended, the intent stays as it is, and nothing more may be deleted by this run.

The log has one order. Of two runs that begin at once, one gets the next number, and the other is refused. Of two that
are under way, either the later one finds an intent of the earlier one, or this one finds the later one. What others
write meanwhile, such as a snapshot, takes a number, and the run the one after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError, StorageError
from airflow_kafka_groups.ledger.history import DeletionHistory
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome
from airflow_kafka_groups.ledger.run_records import RunRecord, end_json, outcomes_json, outcomes_of
from airflow_kafka_groups.observe.cluster_log import OVERTAKEN, TRIES, ClusterLog, Entry, EntryKind, read_entry
from airflow_kafka_groups.storage.access import EXCLUSIVE_REMEDY, unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import FOLDER, Layout, StoragePath
from airflow_kafka_groups.storage.paths import CLOCK_SLACK, parse_time

NO_END = "the run has begun and its end is not recorded: it was interrupted, or it is still running"
VERIFIED = 250
"""So many earlier entries, or a fiftieth, each run reads once more, in turn: whoever changed one is found out."""


class Journal:
    """The deletion runs in the log of one Kafka cluster.

    :param base: the storage folder above all clusters' folders.
    :param kafka_cluster_id: the id that the brokers report.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, base: StoragePath, kafka_cluster_id: str | None) -> None:
        self.folder = ClusterLog(base, kafka_cluster_id).folder
        self._of_cluster = base, kafka_cluster_id

    def begin(self, header: Mapping[str, Any], at: datetime, *, after: DeletionHistory) -> RunJournal:
        """Append the first entry of a run.

        :param header: what the run is about: ``run_id``, ``request_id`` and whatever else is to be known of it later.
        :param after: the history by which the run decides. It has to be current.

        Raises ``JournalError`` when another run has begun since that history was read, or when the clock is behind the
        last run's; ``StorageError`` when the entry cannot be written, or the storage would let another run replace it.
        Nothing may be deleted then.
        """
        if not FILES.is_exclusive(probe := self.folder.parent / "exclusive"):
            raise StorageError(f"{probe} existed, and the storage replaced it; nothing was deleted. {EXCLUSIVE_REMEDY}")
        if after.last is not None and at < parse_time(after.last.at) - CLOCK_SLACK:
            raise JournalError(
                f"the clock says {at.isoformat()}, which is before the last run in the journal "
                f"({after.last.at}): synchronize this machine's clock (NTP); nothing was deleted"
            )
        log = ClusterLog(*self._of_cluster) if after.log is None else copy(after.log)
        first = 1 if after.last is None else after.last.verified
        verified = min(first + max(VERIFIED, log.count // 50), log.count)
        log.verify(first, verified)
        data = {"kind": EntryKind.BEGUN, "at": at.isoformat(), **header}
        data |= {"kafka_cluster_id": self._of_cluster[1], "verified": verified if verified < log.count else 1}
        for _ in range(TRIES):
            with suppress(FileExistsAlreadyError):
                return RunJournal(log, log.create(data))
            for entry in log.read(listed=False):
                if entry.data["kind"] == EntryKind.BEGUN:
                    raise JournalError(f"another run has begun at the same time ({entry.path}); nothing was deleted")
        raise JournalError(OVERTAKEN % log.folder)


class RunJournal:
    """The entries of one run, appended as it goes. Not for two threads at once.

    :param log: the log, up to the run's first entry.
    """

    def __init__(self, log: ClusterLog, begun: Entry) -> None:
        self._log = log
        self._begun = begun
        self._overtaken = False
        self._other: StoragePath | None = None
        self._doubtful: list[Mapping[str, Any]] = []
        self._intents: dict[str, datetime] = {}
        self._decided: dict[str, datetime] = {}

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
        when, fingerprints = self._time(at), list(groups.values())
        self._append(EntryKind.INTENT, when, {**more, "groups": list(groups), "fingerprints": fingerprints})
        self._intents |= dict.fromkeys(groups, when)
        for group_id in groups:  # what was decided before is of another request, which did not leave
            self._decided.pop(group_id, None)

    def overtaken(self) -> bool:
        """Return whether another run that may delete has begun since; to be asked between an intent and its request.

        Of two runs at once, either the later one finds the intent, or this one finds the later one. Raises
        ``StorageError`` or ``JournalError``, also where the storage was unmounted since: then nothing may be sent.
        """
        self._log.require_known()
        self._read_others()
        return self._overtaken

    def conclude(self, outcomes: Iterable[GroupOutcome], at: datetime) -> None:
        """Record what became of groups, with or without an intent before it.

        Raises ``StorageError`` or ``JournalError``: then nothing more may be deleted by this run.
        """
        columns, when = outcomes_json(outcomes), self._time(at)
        self._append(EntryKind.OUTCOME, when, columns)
        self._decided |= dict.fromkeys(columns["groups"], when)

    def end(self, outcomes: Sequence[GroupOutcome], summary: Mapping[str, Any], at: datetime) -> StoragePath:
        """Record the end of the run, with every group's outcome once more, and return the entry's path.

        A reader then needs this entry only: it repeats the first one. Raises ``StorageError`` or ``JournalError``.
        """
        known = {item.group_id: item for item in outcomes}
        missing = self._intents.keys() - known.keys()
        if missing:
            raise JournalError(f"{min(missing)!r} was about to be deleted and has no outcome: the run cannot be ended")
        when = self._time(at)
        decided = dict.fromkeys(known, when) | self._decided
        begun = self._begun.data
        facts = {name: value for name, value in {**begun, **summary}.items() if name not in _OF_THE_ENTRY}
        facts["began"] = {"at": begun["at"], "lease": begun.get("lease")}
        columns = end_json(known.values(), self._intents, decided)
        return self._append(EntryKind.ENDED, at, {**facts, "outcomes": columns}).path

    def _append(self, kind: EntryKind, at: datetime, more: Mapping[str, Any]) -> Entry:
        data = {**more, "kind": kind, "at": at.isoformat(), "run": self._begun.number}
        for _ in range(TRIES):
            self._read_others()
            try:
                return self._log.create(data)
            except FileExistsAlreadyError:
                continue
            except StorageError:
                self._doubtful.append(data)  # it may have been written all the same
                raise
        raise JournalError(OVERTAKEN % self._log.folder)

    def _read_others(self) -> None:
        """Read what others wrote since, and note whether a run that may delete has begun.

        Raises ``JournalError`` once somebody else has written to this run, for good.
        """
        for entry in self._log.read(listed=False):
            data = entry.data
            if data["kind"] == EntryKind.BEGUN:
                self._overtaken |= data.get("dry_run") is not True
            elif data.get("run") == self._begun.number and not any(
                each.items() <= data.items() for each in self._doubtful
            ):
                self._other = self._other or entry.path
        if self._other is not None:
            raise JournalError(f"somebody else has written to this run: {self._other}")

    def _time(self, at: datetime) -> datetime:
        """Return the time of what was seen or done: no earlier than the run, where the clock was set back since."""
        return max(at, parse_time(self._begun.data["at"]))


_OF_THE_ENTRY = ("format", "kind", "at", "previous")


def read_history(layout: Layout, kafka_cluster_id: str | None) -> DeletionHistory:
    """Read the history of deletions on a cluster.

    Raises ``JournalError`` and ``StorageError``.
    """
    return Ledger(layout, kafka_cluster_id).history()


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
    entry = read_entry(path, EntryKind.ENDED, named=True)
    if entry is None:
        raise JournalError(f"the record of the deletion is missing: there is no {path}")
    with unless_damaged(JournalError, f"the record {path}"):
        return entry.data, list(outcomes_of(entry.data["outcomes"]))


def cluster_of_run(ended: StoragePath) -> str | None:
    """Return the Kafka cluster id of a run by the path of its last entry; ``None`` if it is not in a journal."""
    folder = ended.parent.parent
    return unquote(folder.name) if folder.parent.name == FOLDER else None
