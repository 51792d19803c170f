"""One deletion run as its entries in the log show it.

Its entries are the first one (``begun``), then intents and outcomes, and the last one (``ended``), which has every
group's outcome once more. An intent without an outcome is *possibly deleted*, and counts as deleted for every later
decision. A group that a recheck found alive counts as alive from that moment on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Outcome, Reason
from airflow_kafka_groups.observe.cluster_log import Entry, EntryKind
from airflow_kafka_groups.storage.access import unless_damaged
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

NOT_SENT = frozenset({Reason.LEASE_LOST, Reason.TOO_SLOW, Reason.STOPPED, Reason.EXCLUDED, Reason.ALIVE_BEFORE})
"""Reasons of groups with an intent whose request certainly never left."""


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
    :param begun: the content of its first entry, which the last one repeats.
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
        return outcome.code not in PROOF_OF_LIFE | NOT_SENT
    # "failed" is a clear refusal of the broker; what was unknown and found there again may have come back since.
    return outcome.outcome is not Outcome.FAILED or outcome.code == "still_there"


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
                    return _of_end(number, data, str(entry.path))
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


def _of_end(number: int, data: Mapping[str, Any], path: str) -> RunRecord:
    rows, facts = data["outcomes"], {name: value for name, value in data.items() if name != "outcomes"}
    times = [parse_time(when) for when in rows["times"]]
    outcomes, places = {item.group_id: item for item in outcomes_of(rows)}, rows["groups"]
    decided = zip(places, rows["decided"], strict=True)
    intended = zip(places, rows["intended"], strict=True)
    begun = {"run_id": facts["run_id"], "request_id": facts["request_id"], **facts, **facts["began"]}
    parse_time(begun["at"])
    return RunRecord(
        number=number,
        begun=begun,
        outcomes=outcomes,
        intents={group_id: times[place] for group_id, place in intended if place is not None},
        decided_at={group_id: times[place] for group_id, place in decided},
        ended=facts,
        path=path,
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
