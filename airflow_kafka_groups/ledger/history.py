"""The deletion runs in the log of a cluster: which groups were deleted or may have been, or found alive, and by whom.

Of runs that ended, the folded log has what they amount to, so that a history of a thousand runs is read like a short
one. A run without an end is always read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.outcomes import Outcome, Reason
from airflow_kafka_groups.ledger.run_records import RecordedOutcome, RunRecord, fold, keep_latest, run_of
from airflow_kafka_groups.observe.cluster_log import ClusterLog, Entry, EntryKind
from airflow_kafka_groups.storage.file_storage import read_all
from airflow_kafka_groups.storage.paths import parse_time

if TYPE_CHECKING:
    from airflow_kafka_groups.ledger.settled_runs import SettledRuns

_RUNS_AT_ONCE, _AT_ONCE = 100, 50_000
"""So many runs that ended, and outcomes of theirs, are objects at once: a log of years is folded by few at a time."""


class LastRun(NamedTuple):
    """The run that began last.

    :param at: when its last known entry was written: the end, or the first one.
    :param verified: from which entry on the next run reads some once more.
    """

    number: int
    at: str
    verified: int


@dataclass(frozen=True, slots=True)
class IdleReset:
    """The moment from which on a group's idle time counts, and why."""

    at: datetime
    code: Reason
    reason: str

    def has_passed(self, judged_at: datetime, least_idle: float) -> bool:
        """Return whether so many seconds had passed when the group was judged: later on nobody looked."""
        return (judged_at - self.at).total_seconds() >= least_idle


@dataclass(frozen=True, slots=True)
class DeletionHistory:
    """The runs of a cluster.

    :param runs: those that are not settled, oldest first.
    :param settled: what the others amount to; ``None`` if there are none.
    :param log: the log, up to the last entry that was read.
    """

    runs: Sequence[RunRecord] = field(default=())
    settled: SettledRuns | None = None
    log: ClusterLog | None = None
    last: LastRun | None = None

    def deletions(self, request_id: str | None = None) -> dict[str, RecordedOutcome]:
        """Return the latest deletion, certain or possible, of each group.

        :param request_id: only those by the tries of this request. Default: all.
        """
        found = self._settled("deletion", request_id)
        for run in self._of(request_id):
            keep_latest(found, run.deletions())
        return found

    def lives(self, request_id: str | None = None, *, gone: bool = False) -> dict[str, RecordedOutcome]:
        """Return the latest proof of life of each group that has one.

        :param request_id: only those found by the tries of this request. Default: all.
        :param gone: only those that found the group gone. Default false.
        """
        found = self._settled("gone" if gone else "life", request_id)
        for run in self._of(request_id):
            keep_latest(found, run.lives(gone=gone))
        return found

    def idle_resets(self, request_id: str | None = None) -> dict[str, IdleReset]:
        """Return when the idle time of groups restarted at the latest: by a deletion, or by a proof of life.

        :param request_id: only by the tries of this request. Default: all.
        """
        found: dict[str, IdleReset] = {}
        for deletion in self.deletions(request_id).values():
            verb = "deleted" if deletion.outcome is Outcome.DELETED else "possibly deleted"
            reason = f"run {deletion.run_id} {verb} it at {_shown(deletion.at)}"
            found[deletion.group_id] = IdleReset(deletion.at, Reason.DELETED_BEFORE, reason)
        for life in self.lives(request_id).values():
            earlier = found.get(life.group_id)
            if earlier is not None and earlier.at >= life.at:
                continue
            found_it = "gone" if life.code == Reason.GONE.value else "in use"
            reason = f"run {life.run_id} found it {found_it} at {_shown(life.at)} ({life.reason})"
            if earlier is not None and found_it == "gone":  # by that deletion, whoever looked since
                found[life.group_id] = replace(earlier, at=life.at, reason=f"{earlier.reason}, and {reason}")
            else:
                found[life.group_id] = IdleReset(life.at, Reason.ALIVE_BEFORE, reason)
        return found

    def leases(self, since: datetime) -> set[str]:
        """Return the lease groups of runs that began since this moment."""
        held = (run.begun for run in self.runs if run.begun.get("lease"))
        found = {str(begun["lease"]["group_id"]) for begun in held if parse_time(begun["at"]) >= since}
        return found if self.settled is None else found.union(self.settled.leases(since))

    def names(self) -> set[str]:
        """Return what runs dealt with: groups, and topics of groups."""
        found = set[str]().union(*(run.outcomes for run in self.runs))
        return found if self.settled is None else found.union(self.settled.groups["group_id"].to_pylist())

    def of_group(self, group_id: str, newest: int = 0) -> list[RunRecord]:
        """Return the runs that dealt with a group, oldest first.

        :param newest: so many of them at most: each that is settled is read for it. Default: all.

        Raises ``JournalError`` and ``StorageError``.
        """
        numbers = [] if self.settled is None else self.settled.of_group(group_id)
        numbers += [run.number for run in self.runs if group_id in run.outcomes]
        return self._read(sorted(numbers)[-newest:])

    def of_plan(self, plan_id: str) -> list[RunRecord]:
        """Return the runs of a plan, oldest first. Raises ``JournalError`` and ``StorageError``."""
        numbers = [] if self.settled is None else self.settled.of_plan(plan_id)
        return self._read(sorted(numbers + [run.number for run in self.runs if run.begun.get("plan_id") == plan_id]))

    def _settled(self, what: str, request_id: str | None) -> dict[str, RecordedOutcome]:
        found = () if self.settled is None else self.settled.latest(what, request_id)
        return {item.group_id: item for item in found}

    def _of(self, request_id: str | None) -> Sequence[RunRecord]:
        if request_id is None:
            return self.runs
        shared = [] if self.settled is None else self.settled.shared(request_id)
        return self._read(sorted(shared + [run.number for run in self.runs if run.request_id == request_id]))

    def _read(self, numbers: Sequence[int]) -> list[RunRecord]:
        known = {run.number: run for run in self.runs}

        def read(number: int) -> RunRecord:
            if number in known or self.settled is None or self.log is None:
                return known[number]
            return fold(number, [self.log.entry(*self.settled.end_of(number))])

        return read_all(read, numbers)


@dataclass(slots=True)
class FoldedRuns:
    """What the entries of runs amount to, as far as the log was read.

    :param settled: the runs that ended, as far as they are in the tables.
    :param ended: the others, each with its last entry's number and SHA-256.
    :param open: of the runs without an end, the numbers of their entries and their SHA-256.
    """

    settled: SettledRuns | None = None
    ended: list[tuple[RunRecord, tuple[int, str]]] = field(default_factory=list)
    open: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    last: LastRun | None = None

    def add(self, entry: Entry) -> None:
        """Add an entry of a run. Raises ``JournalError`` for one that is damaged."""
        number, place, at = run_of(entry), (entry.number, entry.sha256), entry.data["at"]
        if entry.data["kind"] == EntryKind.BEGUN:
            self.open[number] = [place]
            self.last = LastRun(number, at, entry.data.get("verified", 1))
            return
        if number not in self.open:
            raise JournalError(f"{entry.path} is of a run that has not begun, or has ended: the journal was changed")
        if entry.data["kind"] != EntryKind.ENDED:
            self.open[number].append(place)
            return
        self.ended.append((fold(number, [entry]), place))
        del self.open[number]
        if self.last is not None and self.last.number == number:
            self.last = self.last._replace(at=at)

    def settle_many(self) -> None:
        """Move the runs that ended into the tables if they are many."""
        if len(self.ended) >= _RUNS_AT_ONCE or sum(len(run.outcomes) for run, _ in self.ended) > _AT_ONCE:
            self.settle()

    def settle(self) -> SettledRuns:
        """Move all runs that ended into the tables, and return these."""
        from airflow_kafka_groups.ledger.settled_runs import SettledRuns

        settled = self.settled or SettledRuns()
        if self.ended:
            settled = settled.add(sorted(self.ended, key=lambda each: each[0].number))
        self.settled, self.ended = settled, []
        return settled

    def history(self, log: ClusterLog) -> DeletionHistory:
        """Return all runs; the entries of those without an end are read again.

        Raises ``JournalError`` and ``StorageError``.
        """

        def read(number: int) -> RunRecord:
            return fold(number, [log.entry(*place) for place in self.open[number]])

        runs = [*read_all(read, [*self.open]), *(run for run, _ in self.ended)]
        return DeletionHistory(sorted(runs, key=lambda run: run.number), self.settled, copy(log), self.last)

    def to_json(self) -> dict[str, Any]:
        """Return what is not in the tables, as JSON has it."""
        return {"open": [*self.open.items()], "last": self.last}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], settled: SettledRuns) -> FoldedRuns:
        """Read ``to_json()`` back. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        found = {int(number): [(int(at), str(sha256)) for at, sha256 in places] for number, places in data["open"]}
        return cls(settled, open=found, last=None if data["last"] is None else LastRun(*data["last"]))


@lru_cache
def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"
