"""Read the journal of a cluster, and append to it: intent before a request leaves, outcome after it.

A deletion may only go on after ``intend`` has returned; what was intended and has no outcome is possibly deleted. When
an outcome cannot be appended, the intent stays as it is, and nothing more may be deleted by this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, TypeVar

from airflow_kafka_groups.contracts.ids import parse_time
from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError
from airflow_kafka_groups.maintenance.deletion.outcomes import GroupOutcome
from airflow_kafka_groups.maintenance.journal.files import (
    Chain,
    Entry,
    begun_path,
    create_entry,
    ended_path,
    journal_folder,
    read_entry,
    run_folder,
    runs_listed,
)
from airflow_kafka_groups.maintenance.journal.history import History, RunRecord, fold
from airflow_kafka_groups.maintenance.storage import StoragePath

T = TypeVar("T")

_READERS = 8
_CLOCK_SLACK = timedelta(minutes=5)
"""By how much the clocks of two workers may differ."""


class Journal:
    """The journal of one Kafka cluster.

    :param base: the storage folder above all clusters' folders.
    :param kafka_cluster_id: the id that the brokers report.

    Raises ``JournalError`` when the cluster reports no usable id.
    """

    def __init__(self, base: StoragePath, kafka_cluster_id: str | None) -> None:
        self.folder = journal_folder(base, kafka_cluster_id)
        self._kafka_cluster_id = kafka_cluster_id

    def read(self) -> History:
        """Read every run.

        Raises ``JournalError`` when an entry is missing, damaged or not chained to the one before it, and
        ``StorageError`` when the storage fails: what cannot be read is never taken for nothing.
        """
        begun = self._begun_entries()
        return History(_map(self._read_run, range(1, len(begun) + 1), begun, [*begun[1:], None]))

    def begin(self, header: Mapping[str, Any], at: datetime, *, after: History) -> RunJournal:
        """Append the first entry of a run.

        :param header: what the run is about: ``run_id``, ``request_id`` and whatever else is to be known of it later.
        :param at: the time of day.
        :param after: the history by which the run decides. It has to be current.

        Raises ``JournalError`` when another run has begun since that history was read, or when the clock is behind the
        journal's; ``StorageError`` when the entry cannot be written. Nothing may be deleted then.
        """
        number = len(after.runs) + 1
        previous = None
        if after.runs:
            last = after.runs[-1]
            if at < (latest := _time_of(last)) - _CLOCK_SLACK:
                raise JournalError(
                    f"the clock says {at.isoformat()}, which is before the last run in the journal "
                    f"({latest.isoformat()}): mend the clock, nothing was deleted"
                )
            previous = self._link(last.number)
        data = {"kind": "begun", "at": at.isoformat(), "previous": previous, **header}
        try:
            entry = create_entry(begun_path(self.folder, number), {**data, "kafka_cluster_id": self._kafka_cluster_id})
        except FileExistsAlreadyError as exc:
            raise JournalError(f"another run has begun at the same time ({exc}); nothing was deleted") from exc
        return RunJournal(self.folder, number, entry)

    def refresh(self, history: History) -> History:
        """Return a history with every run that had no end in it read once more.

        After ``begin``, this shows what other runs intended in between; what they intend from now on they do not send,
        since they look for later runs in between (``RunJournal.overtaken``). Raises what ``read`` raises.
        """
        return History(_map(self._read_again, history.runs), history.earlier)

    def _read_again(self, run: RunRecord) -> RunRecord:
        if run.ended is not None:
            return run
        begun = self._read_begun(run.number)
        if begun is None:
            raise JournalError(f"the journal has a gap: {begun_path(self.folder, run.number)} is missing")
        return self._read_run(run.number, begun, self._read_begun(run.number + 1))

    def _begun_entries(self) -> list[Entry]:
        """Read the first entries of all runs; the listing only says where to begin to look for the last of them."""
        listed = runs_listed(self.folder)
        found = _map(self._read_begun, range(1, listed + 1))
        for number, entry in enumerate(found, 1):
            if entry is None:
                raise JournalError(f"the journal has a gap: {begun_path(self.folder, number)} is missing")
        entries = [entry for entry in found if entry is not None]
        while (later := self._read_begun(len(entries) + 1)) is not None:
            entries.append(later)
        return entries

    def _read_begun(self, number: int) -> Entry | None:
        return read_entry(begun_path(self.folder, number), "begun")

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
        begun = self._read_begun(number)
        if begun is None:
            raise JournalError(f"the journal has a gap: {begun_path(self.folder, number)} is missing")
        ended = read_entry(ended_path(self.folder, number), "ended")
        if ended is not None:
            return {"begun": begun.sha256, "ended": ended.sha256}
        chain = Chain(run_folder(self.folder, number), begun.sha256)
        chain.read()
        return {"begun": begun.sha256, "entries": chain.count, "head": chain.head}


def _map(function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """Call a function for many arguments, several at once: an object store takes its time for each."""
    if len(arguments[0]) < _READERS:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(function, *arguments))


def _time_of(run: RunRecord) -> datetime:
    return parse_time((run.ended or run.begun)["at"])


class RunJournal:
    """The entries of one run, appended as it goes. Not for two threads at once."""

    def __init__(self, folder: StoragePath, number: int, begun: Entry) -> None:
        self._begun = begun
        self._folder = folder
        self._seen = number
        self._chain = Chain(run_folder(folder, number), begun.sha256)
        self._end = ended_path(folder, number)
        self.number = number
        self._intents: dict[str, str] = {}
        self._outcomes: dict[str, dict[str, str]] = {}

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
        self._chain.append({"kind": "intent", "at": at.isoformat(), "fingerprints": dict(groups), **more,
                      "intents": dict.fromkeys(groups)})  # fmt: skip
        self._intents |= dict.fromkeys(groups, at.isoformat())

    def overtaken(self) -> bool:
        """Return whether another run that may delete has begun since this one.

        To be asked between an intent and its request: of two runs at once, either the later one finds the intent, or
        this one finds the later one. Raises ``StorageError`` or ``JournalError``: then nothing may be sent.
        """
        while (later := read_entry(begun_path(self._folder, self._seen + 1), "begun")) is not None:
            if later.data.get("dry_run") is not True:
                return True
            self._seen += 1
        return False

    def conclude(self, outcomes: Iterable[GroupOutcome], at: datetime, kind: str = "outcome") -> None:
        """Record what became of groups, with or without an intent before it.

        Raises ``StorageError`` or ``JournalError``: then nothing more may be deleted by this run.
        """
        items = [{**outcome.to_json(), "at": at.isoformat()} for outcome in outcomes]
        self._chain.append({"kind": kind, "at": at.isoformat(), "outcomes": items})
        self._outcomes |= {item["group_id"]: item for item in items}

    def end(self, outcomes: Sequence[GroupOutcome], summary: Mapping[str, Any], at: datetime) -> StoragePath:
        """Record the end of the run, with every group's outcome once more, and return the entry's path.

        A reader then needs this entry only. Raises ``StorageError`` or ``JournalError``.
        """
        known = {item.group_id: item for item in outcomes}
        items = [
            {**outcome.to_json(), "at": self._outcomes.get(group_id, {}).get("at", at.isoformat())}
            for group_id, outcome in known.items()
        ]
        missing = self._intents.keys() - known.keys()
        if missing:
            raise JournalError(f"{min(missing)!r} was about to be deleted and has no outcome: the run cannot be ended")
        data = {**summary, "kind": "ended", "at": at.isoformat(), "begun": self._begun.sha256,
                "entries": self._chain.count, "head": self._chain.head, "intents": self._intents,
                "outcomes": items}  # fmt: skip
        return create_entry(self._end, data).path
