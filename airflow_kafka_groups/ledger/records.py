"""What the log of a cluster says besides snapshots: changes, the groups that these want to stay, plans, and notices.

An entry of a change is written before anything is committed, whichever connection asks, and stays for good. So a run
that was interrupted may have kept its groups alive, or restored them, and they count; and a later try of the same task
finds it. Another entry says of which groups a keep-alive run verified the commit. The time of a run is when it began,
and no earlier than what others recorded before.

A mark of a notice is written before its owner is notified, and the notice after that: a process that dies in between
notifies once more, and never counts a notice that was not sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import JournalError
from airflow_kafka_groups.judge.policy.notice import Notice
from airflow_kafka_groups.ledger.history import FoldedRuns
from airflow_kafka_groups.observe.cluster_log import OF_RUNS, ClusterLog, Entry, EntryKind, TakenSnapshot
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.formats import plain, read_model
from airflow_kafka_groups.storage.layout import Layout, check_cluster, check_id
from airflow_kafka_groups.storage.paths import parse_time

if TYPE_CHECKING:
    from airflow_kafka_groups.ledger.settled_runs import SettledRuns

WHAT, RESTORE = "keep-alive", "restore"
_SHOWN = {WHAT: "a keep-alive run", RESTORE: "a restore"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEntry:
    """An entry of the log: a change of offsets, or of a group's members, that is about to be made.

    :param at: when the run began.
    :param until: when its effect ends: no later than the brokers may forget the groups. A restore's ends at once: only
        the idle time counts from it.
    :param what: the kind of run.
    :param folder: the folder of the connection that asks, which has the run's record.
    :param groups: those that are to stay: they are about to be kept alive, or the change may create them.
    :param task_run: what its tries have in common, where a later one has to find it. Default: none has to.
    """

    at: datetime
    until: datetime
    what: str
    folder: str
    run_id: str
    groups: tuple[str, ...] = ()
    task_run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """An entry of the log: groups whose offsets a keep-alive run that began then has committed again, and read back."""

    at: datetime
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPlan:
    """An entry of the log: about a plan in the folder of a connection."""

    folder: str
    plan_id: str


_MODELS: Mapping[str, type[ChangeEntry | Verified | OfPlan | TakenSnapshot]] = {
    EntryKind.SNAPSHOT: TakenSnapshot,
    EntryKind.CHANGE: ChangeEntry,
    EntryKind.KEPT_ALIVE: Verified,
    **dict.fromkeys((EntryKind.PLAN, EntryKind.QUESTION, EntryKind.ANSWER, EntryKind.NOTICES), OfPlan),
}


def log_change(layout: Layout, kafka_cluster_id: str | None, entry: ChangeEntry | Verified) -> None:
    """Add an entry to the log of a cluster, durably.

    Raises ``JournalError``, also where the brokers do not know their cluster's id yet, and ``StorageError``: then
    nothing may be committed.
    """
    kind = next(kind for kind, model in _MODELS.items() if isinstance(entry, model))
    ClusterLog(layout.base, kafka_cluster_id).add({"kind": kind, **plain(entry)})


@dataclass(frozen=True, slots=True)
class KeptAlive:
    """A group that a keep-alive run meant to keep, or that was to be restored.

    :param at: when the run began.
    :param until: when its effect ends.
    :param what: what wants the group to stay, as the subject of a sentence.
    :param own_end: when the effect of this run ends, where that of an earlier one ends later. Default: at ``until``.
    """

    at: datetime
    until: datetime
    what: str = _SHOWN[WHAT]
    own_end: datetime | None = None

    @property
    def lasts(self) -> timedelta:
        """For how long after it began the brokers remembered the group: by the retention that the run found."""
        return (self.own_end or self.until) - self.at

    def holds(self, now: datetime, judged_at: datetime, least_idle: float) -> bool:
        """Return whether the group is to stay: its effect has not ended, or too little time passed since.

        :param judged_at: when somebody looked at the group: later on nobody knows.
        :param least_idle: the idle time that a deletion asks for, in seconds; it counts from the run.
        """
        return self.until > now or (judged_at - self.at).total_seconds() < least_idle

    def after(self, before: KeptAlive | None) -> KeptAlive:
        """Return what two runs amount to: the later one, to the later end."""
        if before is None:
            return self
        later, until = max(self, before, key=lambda each: each.at), max(self.until, before.until)
        own_end = None if until == later.until else later.until
        return replace(later, until=until, own_end=later.own_end or own_end)


@dataclass(slots=True)
class Records:
    """What the entries of a log amount to.

    :param runs: by the kind of run, what its runs amount to for each group.
    :param verified: when the last verified keep-alive of each group began.
    :param tries: by task, the folders and run ids of the changes that later tries have to find, oldest first.
    :param plans: by folder and plan, the entries about it: their numbers, kinds and SHA-256.
    :param marks: the marks of groups that wait for a notice, or whose owner had one, as JSON has them.
    :param noted: the number of the last entry of marks.
    :param snapshot_at: when the newest snapshot was taken.
    :param folders: the folders of snapshots.
    :param deletions: the runs that delete.
    """

    runs: dict[str, dict[str, KeptAlive]] = field(default_factory=dict)
    verified: dict[str, datetime] = field(default_factory=dict)
    tries: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    plans: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    marks: dict[str, Any] = field(default_factory=dict)
    noted: int = 0
    snapshot_at: datetime | None = None
    folders: set[str] = field(default_factory=set)
    deletions: FoldedRuns = field(default_factory=FoldedRuns)

    def fold(self, entry: Entry) -> TakenSnapshot | None:
        """Add an entry of the log, and return its snapshot, if it has one. Raises ``JournalError`` if it is damaged."""
        kind = entry.data["kind"]
        if kind in OF_RUNS:
            self.deletions.add(entry)
            self.deletions.settle_many()
            return None
        if (model := _MODELS.get(kind)) is None:
            return None
        with unless_damaged(JournalError, f"the entry {entry.path}"):
            found = read_model(model, entry.data)
            if kind == EntryKind.NOTICES:
                self._note(entry)
            if isinstance(found, TakenSnapshot):
                check_cluster(found.folder)
                check_id("snapshot_id", found.snapshot_id)
        if isinstance(found, TakenSnapshot):
            self.snapshot_at = max(found.at, self.snapshot_at or found.at)
            self.folders.add(found.folder)
            return found
        if isinstance(found, OfPlan):
            places = self.plans.setdefault(f"{found.folder}/{found.plan_id}", [])
            places.append((entry.number, kind, entry.sha256))
        elif isinstance(found, Verified):
            self.verified |= {id_: max(found.at, self.verified.get(id_, found.at)) for id_ in found.groups}
        else:
            if found.task_run is not None:
                self.tries.setdefault(_task_of(found.task_run), []).append((found.folder, found.run_id))
            kept = KeptAlive(found.at, found.until, _SHOWN.get(found.what, f"a change ({found.what})"))
            of_kind = self.runs.setdefault(found.what, {})
            of_kind |= {group_id: kept.after(of_kind.get(group_id)) for group_id in found.groups}
        return None

    def _note(self, entry: Entry) -> None:
        for group_id, mark in entry.data["marks"].items():
            if mark is None:
                self.marks.pop(group_id, None)
            else:  # as a whole: without what a message said, it would seem that there was none
                self.marks[group_id] = {name: mark[name] for name in Notice.__slots__}
                read_model(Notice, mark)
        self.noted = entry.number

    def groups(self, kinds: Iterable[str] = ()) -> dict[str, KeptAlive]:
        """Return the groups of runs of these kinds. Default: of all."""
        found: dict[str, KeptAlive] = {}
        for kind in tuple(kinds) or self.runs:
            found |= {id_: kept.after(found.get(id_)) for id_, kept in self.runs.get(kind, {}).items()}
        return found

    def of_plan(self, folder: str, plan_id: str, kinds: Collection[str]) -> list[tuple[int, str]]:
        """Return the numbers of the entries of these kinds about a plan, and their SHA-256, oldest first."""
        places = self.plans.get(f"{folder}/{plan_id}", ())
        return [(number, sha256) for number, kind, sha256 in places if kind in kinds]

    def tries_of(self, task_run: str) -> list[tuple[str, str]]:
        """Return the folders and run ids of what the tries of a task began, oldest first.

        The tasks of a mapped one count for each other: a group may be another one's when it is mapped again.
        """
        return self.tries.get(_task_of(task_run), [])

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON has it: the groups of each run, and of each verification."""
        runs: dict[str, dict[tuple[Any, ...], list[str]]] = {}
        for kind, groups in self.runs.items():
            for group_id, kept in groups.items():
                key = kept.at, kept.until, kept.what, kept.own_end
                runs.setdefault(kind, {}).setdefault(key, []).append(group_id)
        verified: dict[datetime, list[str]] = {}
        for group_id, at in self.verified.items():
            verified.setdefault(at, []).append(group_id)
        return {
            "runs": {
                kind: [[*map(plain, key), groups] for key, groups in of_kind.items()] for kind, of_kind in runs.items()
            },
            "verified": [[at.isoformat(), groups] for at, groups in verified.items()],
            "tries": self.tries,
            "plans": self.plans,
            "marks": self.marks,
            "noted": self.noted,
            "snapshot_at": plain(self.snapshot_at),
            "folders": sorted(self.folders),
            "deletions": self.deletions.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], settled: SettledRuns) -> Records:
        """Read ``to_json()`` back. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        runs: dict[str, dict[str, KeptAlive]] = {}
        for kind, of_kind in data["runs"].items():
            for at, until, what, own_end, groups in of_kind:
                end = None if own_end is None else parse_time(own_end)
                kept = KeptAlive(parse_time(at), parse_time(until), what, end)
                runs.setdefault(kind, {}).update(dict.fromkeys(groups, kept))
        verified = {group_id: parse_time(at) for at, groups in data["verified"] for group_id in groups}
        plans = {
            plan: [(int(number), str(kind), str(sha256)) for number, kind, sha256 in places]
            for plan, places in data["plans"].items()
        }
        tries = {task: [(str(folder), str(run_id)) for folder, run_id in of] for task, of in data["tries"].items()}
        at = None if data["snapshot_at"] is None else parse_time(data["snapshot_at"])
        marks, noted, folders = dict(data["marks"]), int(data["noted"]), set(data["folders"])
        deletions = FoldedRuns.from_json(data["deletions"], settled)
        return cls(runs, verified, tries, plans, marks, noted, at, folders, deletions)


def _task_of(task_run: str) -> str:
    """Return what the tasks of a mapped one have in common: what comes before the last slash, if there is one."""
    return task_run.rpartition("/")[0] or task_run
