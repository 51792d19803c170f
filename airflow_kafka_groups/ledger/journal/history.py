"""What the journal says: which groups were deleted or may have been, which were found alive, when and by which run.

A ``DeletionHistory`` has a record of each run since the newest checkpoint, and what the checkpoint says. An intent
without an outcome is *possibly deleted*, and counts as deleted for every later decision. A group that a recheck found
alive counts as alive from that moment on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.journal.entries import end_of, outcomes_of
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.arrow_values import literal
from airflow_kafka_groups.storage.file_storage import read_all
from airflow_kafka_groups.storage.paths import parse_time

PROOF_OF_LIFE = frozenset(
    {
        Reason.HAS_MEMBERS.value,
        Reason.NOT_EMPTY.value,
        Reason.MOVED.value,
        Reason.CAME_BACK.value,
        Reason.CHANGED_KIND.value,
        Reason.SUBSCRIBED.value,
    }
)
"""Reasons for which a recheck kept a group because somebody used it."""

_NOT_SENT = frozenset({Reason.LEASE_LOST, Reason.TOO_SLOW, Reason.STOPPED, Reason.EXCLUDED, Reason.ALIVE_BEFORE})
"""Reasons of groups with an intent whose request certainly never left."""
FEW = 2_000
"""The rows of a checkpoint that are objects at once: there may be those of years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutcome(GroupOutcome):
    """An outcome that is on record: a deletion that happened or may have happened, or proof that a group was in use.

    :param at: when it was recorded, or by when the group was deleted.
    """

    at: datetime
    run_id: str


def keep_latest(found: dict[str, RecordedOutcome], more: Iterable[RecordedOutcome]) -> None:
    """Add outcomes to those of earlier runs, of which the latest one of each group counts."""
    for item in more:
        if item.group_id not in found or found[item.group_id].at <= item.at:
            found[item.group_id] = item


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One deletion run as the journal shows it.

    :param number: its place in the journal, from 1.
    :param begun: the content of its first entry.
    :param outcomes: the latest outcome of each group; ``unknown`` for an intent without one.
    :param intents: when the intent to delete a group was recorded, for each group that had one.
    :param decided_at: when the outcome was recorded, for each group that has one since its last intent.
    :param ended: the content of its last entry but its outcomes; ``None`` when it was interrupted or is still running.
    :param path: its last entry, or the first one while there is no last.
    """

    number: int
    begun: Mapping[str, Any]
    outcomes: Mapping[str, GroupOutcome]
    intents: Mapping[str, datetime]
    decided_at: Mapping[str, datetime]
    ended: Mapping[str, Any] | None
    path: str = ""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.begun["run_id"])

    @property
    def request_id(self) -> str:
        """What all tries of the same deletion have in common: the plan's id, or the task that names the groups."""
        return str(self.begun["request_id"])

    def possibly_deleted(self) -> dict[str, datetime]:
        """Return the groups that this run deleted or may have deleted, with the time by which it had."""
        return {
            group_id: max(at, self.decided_at.get(group_id, at))
            for group_id, at in self.intents.items()
            if _may_be_deleted(self.outcomes[group_id])
        }

    def deletions(self) -> Iterator[RecordedOutcome]:
        """Yield the outcomes of the groups that this run deleted or may have deleted."""
        return (self._recorded(group_id, at) for group_id, at in self.possibly_deleted().items())

    def lives(self, *, gone: bool = False) -> Iterator[RecordedOutcome]:
        """Yield the groups that this run found in use, or gone: what exists later somebody has made since.

        :param gone: only those that it found gone. Default false.
        """
        for group_id, item in self.outcomes.items():
            is_gone = item.outcome is Outcome.GONE
            if shows_life(item) and (is_gone or not gone) and not (is_gone and group_id in self.intents):
                yield self._recorded(group_id, self.decided_at[group_id])

    def _recorded(self, group_id: str, at: datetime) -> RecordedOutcome:
        found = self.outcomes[group_id]
        return RecordedOutcome(
            group_id=group_id, outcome=found.outcome, code=found.code, reason=found.reason, at=at, run_id=self.run_id
        )


def shows_life(outcome: GroupOutcome) -> bool:
    """Return whether a look at a group found it in use, or gone: what exists later somebody has made since."""
    return outcome.outcome is Outcome.GONE or (outcome.outcome is Outcome.KEPT and outcome.code in PROOF_OF_LIFE)


def _may_be_deleted(outcome: GroupOutcome) -> bool:
    """Whether a group with an intent may be deleted: unless the broker refused it or its request never left."""
    if outcome.outcome is Outcome.KEPT:
        return outcome.code not in PROOF_OF_LIFE | _NOT_SENT
    # "failed" is a clear refusal of the broker; what was unknown and found there again may have come back since.
    return outcome.outcome is not Outcome.FAILED or outcome.code == "still_there"


@dataclass(frozen=True, slots=True)
class IdleReset:
    """The moment from which on a group's idle time counts, and why."""

    at: datetime
    code: Reason
    reason: str

    def has_passed(self, judged_at: datetime, least_idle: float) -> bool:
        """Return whether so many seconds had passed when the group was judged: later on nobody looked."""
        return (judged_at - self.at).total_seconds() >= least_idle


class CheckpointRow(NamedTuple):
    """What the ended runs say of one group: its latest deletion, proof of life, and look that found it gone.

    :param runs: the numbers of the runs that dealt with it.
    """

    group_id: str
    runs: tuple[int, ...]
    deletion: RecordedOutcome | None
    life: RecordedOutcome | None
    gone: RecordedOutcome | None

    def values(self) -> list[Any]:
        """Return the row as a table of strings has it."""
        found = self.deletion, self.life, self.gone
        rows = (each and [each.at.isoformat(), each.run_id, each.outcome, each.code, each.reason] for each in found)
        return [self.group_id, [*map(str, self.runs)], *rows]

    @classmethod
    def of(cls, group_id: str, runs: list[str], *found: list[str] | None) -> CheckpointRow:
        """Return the row with these values."""
        recorded = (None if each is None else _recorded(group_id, *each) for each in found)
        return cls(group_id, tuple(map(int, runs)), *recorded)


def _recorded(group_id: str, at: str, run_id: str, outcome: str, code: str, reason: str) -> RecordedOutcome:
    return RecordedOutcome(
        group_id=group_id, outcome=Outcome(outcome), code=code, reason=reason, at=parse_time(at), run_id=run_id
    )


class Checkpoint:
    """A checkpoint that was read back, and that the chain vouches for.

    :param table: a ``pyarrow.Table`` with a row for each group, as ``CheckpointRow`` has it.
    :param read_run: reads an ended run by its number; called for runs that are asked for by request or group.
    """

    def __init__(self, table: Any, data: Mapping[str, Any], read_run: Callable[[int], RunRecord]) -> None:
        self.runs = int(data["runs"])
        self.last = str(data["last"])
        self.open = [int(number) for number in data["open"]]
        self.leases = {str(group_id): parse_time(at) for group_id, at in data["leases"].items()}
        self._requests: Mapping[str, list[int]] = data["requests"]
        self._plans: Mapping[str, list[int]] = data["plans"]
        self._table = table
        self._read_run = read_run

    def rows(self, request_id: str | None = None) -> Iterator[CheckpointRow]:
        """Yield the groups, or those that no other request dealt with."""
        if request_id is not None and not (tries := self._tries(request_id)):
            return
        for some in self._table.to_batches(max_chunksize=FEW):
            for row in map(CheckpointRow.of, *(column.to_pylist() for column in some.columns)):
                if request_id is None or tries.issuperset(row.runs):
                    yield row

    def deletions(self, request_id: str | None = None) -> Iterator[RecordedOutcome]:
        """Yield the latest deletion of each group that has one."""
        return (row.deletion for row in self.rows(request_id) if row.deletion is not None)

    def lives(self, request_id: str | None = None, *, gone: bool = False) -> Iterator[RecordedOutcome]:
        """Yield the latest proof of life of each group that has one, or the latest that found it gone."""
        rows = self.rows(request_id)
        return (life for row in rows if (life := row.gone if gone else row.life) is not None)

    def of_request(self, request_id: str) -> list[RunRecord]:
        """Read the tries of a request whose groups others dealt with, too: a row does not tell what was whose.

        A task that is mapped over a thousand groups is one request: each of them would read the tries of all.
        """
        if not (tries := self._tries(request_id)):
            return []
        shared = set[int]()
        for row in self.rows():
            if (row.deletion or row.life) and not tries.issuperset(row.runs):
                shared |= tries.intersection(row.runs)
        return read_all(self._read_run, sorted(shared))

    def of_plan(self, plan_id: str) -> list[RunRecord]:
        """Read the runs of a plan."""
        return read_all(self._read_run, self._plans.get(plan_id, ()))

    def _tries(self, request_id: str) -> frozenset[int]:
        return frozenset(self._requests.get(request_id, ()))

    def of_group(self, group_id: str, newest: int | None = None) -> list[RunRecord]:
        """Read the runs that dealt with a group, or the newest of them."""
        import pyarrow.compute as pc

        runs = self._table["runs"].filter(pc.equal(self._table["group_id"], literal(group_id))).to_pylist()
        return [self._read_run(int(run)) for each in runs for run in (each if newest is None else each[-newest:])]


@dataclass(frozen=True, slots=True)
class DeletionHistory:
    """The runs of a cluster, oldest first.

    :param runs: those in the journal that were read.
    :param settled: what the runs before them amount to; ``None`` if there are none.
    """

    runs: Sequence[RunRecord] = field(default=())
    settled: Checkpoint | None = None

    def deletions(self, request_id: str | None = None) -> dict[str, RecordedOutcome]:
        """Return the latest deletion, certain or possible, of each group.

        :param request_id: only those by the tries of this request. Default: all.
        """
        found: dict[str, RecordedOutcome] = {}
        if self.settled is not None:
            keep_latest(found, self.settled.deletions(request_id))
        for run in self._of(request_id):
            keep_latest(found, run.deletions())
        return found

    def lives(self, request_id: str | None = None, *, gone: bool = False) -> dict[str, RecordedOutcome]:
        """Return the latest proof of life of each group that has one.

        :param request_id: only those found by the tries of this request. Default: all.
        :param gone: only those that found the group gone. Default false.
        """
        found: dict[str, RecordedOutcome] = {}
        if self.settled is not None:
            keep_latest(found, self.settled.lives(request_id, gone=gone))
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
        settled = {} if self.settled is None else self.settled.leases
        found = (*settled.items(), *leases_of(self.runs).items())
        return {group_id for group_id, at in found if at >= since}

    def of_group(self, group_id: str, newest: int | None = None) -> list[RunRecord]:
        """Return the runs that dealt with a group; of those in a checkpoint, what they say of this group only.

        :param newest: only so many, at least 1: each of those in a checkpoint is read for it. Default: all.
        """
        settled = [] if self.settled is None else self.settled.of_group(group_id, newest)
        found = {run.number: run for run in (*settled, *self.runs) if group_id in run.outcomes}
        runs = [found[number] for number in sorted(found)]
        return runs if newest is None else runs[-newest:]

    def of_plan(self, plan_id: str) -> list[RunRecord]:
        """Return the runs of a plan, oldest first. Raises ``JournalError`` and ``StorageError``."""
        settled = [] if self.settled is None else self.settled.of_plan(plan_id)
        found = {run.number: run for run in (*settled, *self.runs) if run.begun.get("plan_id") == plan_id}
        return [found[number] for number in sorted(found)]

    def _of(self, request_id: str | None) -> Iterable[RunRecord]:
        if request_id is None:
            return self.runs
        settled = [] if self.settled is None else self.settled.of_request(request_id)
        found = {run.number: run for run in (*settled, *self.runs)}
        return [found[number] for number in sorted(found) if found[number].request_id == request_id]


def leases_of(runs: Iterable[RunRecord]) -> dict[str, datetime]:
    """Return the lease groups of runs, oldest run first, and when the latest run with each of them began."""
    begun = (run.begun for run in runs)
    return {str(data["lease"]["group_id"]): parse_time(data["at"]) for data in begun if data.get("lease")}


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def fold(
    number: int,
    begun: Mapping[str, Any],
    entries: Iterable[Mapping[str, Any]],
    ended: Mapping[str, Any] | None,
    path: str,
) -> RunRecord:
    """Fold the entries of one run into its record.

    :param entries: its intents and outcomes in order; empty when ``ended`` says it all.

    Raises ``JournalError`` for an entry that is damaged.
    """
    outcomes: dict[str, GroupOutcome] = {}
    intents: dict[str, datetime] = {}
    decided_at: dict[str, datetime] = {}
    with unless_damaged(JournalError, f"run {number} of the journal"):
        for entry in entries:
            at = parse_time(entry["at"])
            if entry["kind"] == "intent":
                for group_id in entry["groups"]:
                    intents[group_id] = at
                    outcomes[group_id] = _possibly_deleted(group_id)  # also after an earlier intent that was not sent
                    decided_at.pop(group_id, None)
                continue
            for outcome in outcomes_of(entry):
                outcomes[outcome.group_id], decided_at[outcome.group_id] = outcome, at
        for outcome, decided, intended in () if ended is None else end_of(ended["outcomes"]):
            outcomes[outcome.group_id], decided_at[outcome.group_id] = outcome, decided
            if intended is not None:
                intents[outcome.group_id] = intended
        return RunRecord(
            number=number,
            begun={"run_id": begun["run_id"], "request_id": begun["request_id"], **begun},
            outcomes=outcomes,
            intents=intents,
            decided_at=decided_at,
            ended=None if ended is None else {name: value for name, value in ended.items() if name != "outcomes"},
            path=path,
        )


def _possibly_deleted(group_id: str) -> GroupOutcome:
    reason = "a request to delete it was about to leave when the run was interrupted: it may or may not be deleted"
    return GroupOutcome(group_id=group_id, outcome=Outcome.UNKNOWN, code="possibly_deleted", reason=reason)
