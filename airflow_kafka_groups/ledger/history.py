"""What deletion runs wrote to the log: which groups were deleted or may have been, or found alive, when and by whom.

A run's entries are its first one (``begun``), then intents and outcomes, and its last one (``ended``), which has every
group's outcome once more. An intent without an outcome is *possibly deleted*, and counts as deleted for every later
decision. A group that a recheck found alive counts as alive from that moment on.

Of a run that ended, ``FoldedRuns`` keeps the outcomes that a later decision goes by, so that a history of a thousand
runs is read like a short one. A run without an end is always read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason
from airflow_kafka_groups.observe.cluster_log import ClusterLog, Entry, EntryKind
from airflow_kafka_groups.storage.access import unless_damaged
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
NEWEST_RUNS = 20
"""So many runs that dealt with a group are known by its name."""
Place = tuple[int, str]
"""An entry's number, and its SHA-256."""


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
    """One deletion run as the log shows it.

    :param number: the number of its first entry.
    :param begun: the content of its first entry, or what the last one repeats of it.
    :param outcomes: the latest outcome of each group; ``unknown`` for an intent without one.
    :param intents: when the intent to delete a group was recorded, for each group that had one.
    :param decided_at: when the outcome was recorded, for each group that has one since its last intent.
    :param ended: the content of its last entry but its outcomes; ``None`` when it was interrupted or is still running.
    :param path: its last entry, or the first one while there is no last.
    :param end: its last entry, if this record has only what decisions go by.
    """

    number: int
    begun: Mapping[str, Any]
    outcomes: Mapping[str, GroupOutcome]
    intents: Mapping[str, datetime]
    decided_at: Mapping[str, datetime]
    ended: Mapping[str, Any] | None
    path: str = ""
    end: Place | None = None

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


@dataclass(frozen=True, slots=True)
class DeletionHistory:
    """The runs of a cluster, oldest first.

    :param runs: all of them; those that ended may have only what decisions go by.
    :param log: the log, up to the last entry that was read.
    :param of_groups: the numbers of the newest runs that ended and dealt with a group.
    """

    runs: Sequence[RunRecord] = field(default=())
    log: ClusterLog | None = None
    of_groups: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def deletions(self, request_id: str | None = None) -> dict[str, RecordedOutcome]:
        """Return the latest deletion, certain or possible, of each group.

        :param request_id: only those by the tries of this request. Default: all.
        """
        found: dict[str, RecordedOutcome] = {}
        for run in self._of(request_id):
            keep_latest(found, run.deletions())
        return found

    def lives(self, request_id: str | None = None, *, gone: bool = False) -> dict[str, RecordedOutcome]:
        """Return the latest proof of life of each group that has one.

        :param request_id: only those found by the tries of this request. Default: all.
        :param gone: only those that found the group gone. Default false.
        """
        found: dict[str, RecordedOutcome] = {}
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
        """Return the lease groups of runs that began, or ended, since this moment."""
        found = ((run.begun.get("lease"), parse_time(run.begun["at"])) for run in self.runs)
        return {str(lease["group_id"]) for lease, at in found if lease and at >= since}

    def names(self) -> set[str]:
        """Return what runs dealt with: groups, and topics of groups."""
        return {*self.of_groups, *(name for run in self.runs for name in run.outcomes)}

    def of_group(self, group_id: str, newest: int = 0) -> list[RunRecord]:
        """Return the runs that deleted a group, found it in use or gone, and the newest that did not, oldest first.

        :param newest: so many of them at most. Default: all of them.

        Raises ``JournalError`` and ``StorageError``.
        """
        numbers = self.of_groups.get(group_id, ())
        return self._complete([run for run in self.runs if run.number in numbers or group_id in run.outcomes][-newest:])

    def of_plan(self, plan_id: str) -> list[RunRecord]:
        """Return the runs of a plan, oldest first. Raises ``JournalError`` and ``StorageError``."""
        return self._complete([run for run in self.runs if run.begun.get("plan_id") == plan_id])

    def _of(self, request_id: str | None) -> Iterable[RunRecord]:
        return (run for run in self.runs if request_id is None or run.request_id == request_id)

    def _complete(self, runs: Sequence[RunRecord]) -> list[RunRecord]:
        def complete(run: RunRecord) -> RunRecord:
            return run if run.end is None or self.log is None else fold(run.number, [self.log.entry(*run.end)])

        return read_all(complete, runs)


@dataclass(slots=True)
class FoldedRuns:
    """What the entries of runs amount to, as far as the log was read.

    :param ended: the runs that ended, by number, as JSON has them: the last entry, what is kept of it, and the outcomes
        that a decision goes by.
    :param open: the entries of the others.
    :param of_groups: the numbers of the newest runs that ended and dealt with a group.
    """

    ended: dict[int, tuple[Place, Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    open: dict[int, list[Place]] = field(default_factory=dict)
    of_groups: dict[str, list[int]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Add an entry of a run. Raises ``JournalError`` for one that is damaged."""
        number, place = run_of(entry), (entry.number, entry.sha256)
        if entry.data["kind"] == EntryKind.BEGUN:
            self.open[number] = [place]
            return
        if number not in self.open:
            raise JournalError(f"{entry.path} is of a run that has not begun, or has ended: the journal was changed")
        self.open[number].append(place)
        if entry.data["kind"] != EntryKind.ENDED:
            return
        del self.open[number]
        run = fold(number, [entry])
        for group_id in run.outcomes:
            self.of_groups[group_id] = sorted([*self.of_groups.get(group_id, ()), number])[-NEWEST_RUNS:]
        told = {item.group_id for item in (*run.deletions(), *run.lives())}
        kept = (item for item in run.outcomes.values() if item.group_id in told)
        facts = {name: run.begun[name] for name in _FACTS if name in run.begun}
        self.ended[number] = place, facts, end_json(kept, run.intents, run.decided_at)

    def history(self, log: ClusterLog) -> DeletionHistory:
        """Return all runs; the entries of those without an end are read again.

        Raises ``JournalError`` and ``StorageError``.
        """

        def read(number: int) -> RunRecord:
            return fold(number, [log.entry(*place) for place in self.open[number]])

        runs = dict(zip(self.open, read_all(read, [*self.open]), strict=True))
        for number, (end, facts, outcomes) in self.ended.items():
            runs[number] = _of_end(number, facts, outcomes, end=end)
        return DeletionHistory([runs[number] for number in sorted(runs)], copy(log), self.of_groups)

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {"ended": [*self.ended.items()], "open": [*self.open.items()], "of_groups": self.of_groups}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FoldedRuns:
        """Read ``to_json()`` back. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        return cls(dict(data["ended"]), dict(data["open"]), dict(data["of_groups"]))


_FACTS = ("run_id", "request_id", "plan_id", "lease", "verified", "at")
"""What is kept of the first and last entry of a run that ended."""


def run_of(entry: Entry) -> int:
    """Return the number of the run that an entry is of. Raises ``JournalError`` for an entry that is damaged."""
    with unless_damaged(JournalError, f"the journal's entry {entry.path}"):
        parse_time(entry.data["at"])
        if entry.data["kind"] == EntryKind.BEGUN:
            lease = entry.data.get("lease") or {"group_id": ""}
            if not (isinstance(lease["group_id"], str) and isinstance(entry.data.get("verified", 1), int)):
                raise TypeError("a field has another type")
            return entry.number
        return int(entry.data["run"])


@lru_cache
def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def fold(number: int, entries: Iterable[Entry]) -> RunRecord:
    """Fold the entries of one run into its record. The last one says it all.

    Raises ``JournalError`` for an entry that is damaged.
    """
    begun: Mapping[str, Any] = {}
    outcomes: dict[str, GroupOutcome] = {}
    intents: dict[str, datetime] = {}
    decided_at: dict[str, datetime] = {}
    path = ""
    with unless_damaged(JournalError, f"run {number} of the journal"):
        for entry in entries:
            data, at, path = entry.data, parse_time(entry.data["at"]), path or str(entry.path)
            match data["kind"]:
                case EntryKind.BEGUN:
                    begun = {"run_id": data["run_id"], "request_id": data["request_id"], **data}
                case EntryKind.ENDED:
                    facts = {name: value for name, value in data.items() if name != "outcomes"}
                    return _of_end(number, facts, data["outcomes"], str(entry.path))
                case EntryKind.INTENT:
                    for group_id in data["groups"]:
                        intents[group_id] = at
                        outcomes[group_id] = _possibly_deleted(group_id)  # also after an intent that was not sent
                        decided_at.pop(group_id, None)
                case _:
                    for outcome in outcomes_of(data):
                        outcomes[outcome.group_id], decided_at[outcome.group_id] = outcome, at
    return RunRecord(
        number=number, begun=begun, outcomes=outcomes, intents=intents, decided_at=decided_at, ended=None, path=path
    )


def _of_end(
    number: int, facts: Mapping[str, Any], rows: Mapping[str, Any], path: str = "", end: Place | None = None
) -> RunRecord:
    """Return the record of a run by its last entry, or by what is kept of it."""
    times = [parse_time(when) for when in rows["times"]]
    outcomes: dict[str, GroupOutcome] = {}
    intents: dict[str, datetime] = {}
    decided_at: dict[str, datetime] = {}
    for item, decided, intended in zip(outcomes_of(rows), rows["decided"], rows["intended"], strict=True):
        outcomes[item.group_id], decided_at[item.group_id] = item, times[decided]
        if intended is not None:
            intents[item.group_id] = times[intended]
    parse_time(facts["at"])
    return RunRecord(
        number=number,
        begun={"run_id": facts["run_id"], "request_id": facts["request_id"], **facts},
        outcomes=outcomes,
        intents=intents,
        decided_at=decided_at,
        ended=facts,
        path=path,
        end=end,
    )


def _possibly_deleted(group_id: str) -> GroupOutcome:
    reason = "a request to delete it was about to leave when the run was interrupted: it may or may not be deleted"
    return GroupOutcome(group_id=group_id, outcome=Outcome.UNKNOWN, code="possibly_deleted", reason=reason)


def outcomes_json(outcomes: Iterable[GroupOutcome]) -> dict[str, Any]:
    """Return outcomes: the groups, the different outcomes, and which of them each group has."""
    places: dict[tuple[str, str, str], int] = {}
    groups, which = list[str](), list[int]()
    for item in outcomes:
        groups.append(item.group_id)
        which.append(places.setdefault((item.outcome.value, item.code, item.reason), len(places)))
    return {"groups": groups, "outcomes": [list(found) for found in places], "which": which}


def end_json(
    outcomes: Iterable[GroupOutcome], intents: Mapping[str, datetime], decided: Mapping[str, datetime]
) -> dict[str, Any]:
    """Return the outcomes of a run that ended, with the times when each was decided, and intended if it was."""
    times: dict[datetime, int] = {}
    columns = outcomes_json(outcomes)

    def place(when: datetime | None) -> int | None:
        return None if when is None else times.setdefault(when, len(times))

    return {
        **columns,
        "decided": [place(decided[group_id]) for group_id in columns["groups"]],
        "intended": [place(intents.get(group_id)) for group_id in columns["groups"]],
        "times": [when.isoformat() for when in times],
    }


def outcomes_of(entry: Mapping[str, Any]) -> Iterator[GroupOutcome]:
    """Yield the outcomes in an entry; the inverse of ``outcomes_json``. Raises ``KeyError`` and the like."""
    kinds = [(Outcome(what), str(code), str(reason)) for what, code, reason in entry["outcomes"]]
    for group_id, place in zip(entry["groups"], entry["which"], strict=True):
        what, code, reason = kinds[place]
        yield GroupOutcome(group_id=group_id, outcome=what, code=code, reason=reason)
