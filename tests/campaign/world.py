"""The model: one cluster, one storage, one clock, and the truth about every group, by which each deletion is judged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_groups.kafka.models import GroupType, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from tests.campaign.cluster import SESSION_SECONDS, Seen
from tests.campaign.process import Loops, Process
from tests.campaign.steps import DAY, EVENTS, Step
from tests.campaign.storage import Store
from tests.fakes.groups import NOW, FakeGroup, committed

MIN_IDLE = float(DAY)
WINDOW = 15.0
TOLERANCE = 600.0
"""Clocks of workers may differ by some minutes."""
Commits = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(slots=True)
class PlanTruth:
    """A plan, and what people truly said of it.

    :param answering: the approvals that are being written: to ask again takes back what was written before.
    """

    plan: DeletionPlan
    judged_at: float
    terms: ApprovalTerms
    approved: frozenset[str] | None = None
    answering: list[frozenset[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Task:
    """What a deleting process is about. ``known`` are the proofs of life that were recorded before it began."""

    request_id: str
    plan: PlanTruth | None
    expected: Mapping[str, tuple[str, int | None]]
    known: Mapping[str, list[tuple[float, str]]]
    approved: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class DeletionTruth:
    """A deletion that happened."""

    group_id: str
    at: float
    process: int
    request_id: str
    commits: Commits


@dataclass
class World:
    """Everything that outlives a process.

    :param broker_off: by how many seconds the brokers' clock is ahead: they stamp the log of commits.
    """

    loops: Loops
    behaviours: tuple[str, ...]
    run_steps: Callable[[World, tuple[Step, ...], int], None]
    reads_commits: bool = True
    takes_lease: bool = True
    broker_off: float = 0.0
    clock: float = 0.0
    groups: dict[str, FakeGroup] = field(default_factory=dict)
    store: Store = field(default_factory=Store)
    hidden: set[str] = field(default_factory=set)
    changed: dict[str, float] = field(default_factory=dict)
    commits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lives: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    sightings: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    snapshots: list[Any] = field(default_factory=list)
    plans: list[PlanTruth] = field(default_factory=list)
    deletions: list[DeletionTruth] = field(default_factory=list)
    tasks: dict[int, Task] = field(default_factory=dict)
    holder: Process | None = None
    held_until: float = 0.0
    generation: int = 0
    processes: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, behaviour in enumerate(self.behaviours):
            self.groups[name_of(number)] = FakeGroup(
                {TopicPartition("t", part): 100 + number for part in range(1 + number % 2)},
                type=GroupType.SHARE if behaviour == "share" else (GroupType.CLASSIC, GroupType.CONSUMER)[number % 2],
                members=int(behaviour == "member"),
            )

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock)

    def violated(self, what: str, text: str) -> None:
        """Count a violation of an invariant."""
        self.found[what] += 1
        self.problems.append(f"{what}: {text}")

    def renew(self, process: Process) -> None:
        """Let a process's heartbeats through, if they are not too late."""
        if self.holder is process and self.held_until > self.clock:
            self.held_until = self.clock + SESSION_SECONDS

    def jump(self, process: Process, seconds: float, *, stopped: bool) -> None:
        """Let a call take long: the process's heartbeats go on, unless it is stopped as a whole."""
        held = self.holder is process and self.held_until > self.clock
        self.clock += seconds
        if held and not stopped:
            self.held_until = self.clock + SESSION_SECONDS

    def meanwhile(self, steps: tuple[Step, ...]) -> None:
        """Let other processes run to their ends while one is stopped."""
        with ThreadPoolExecutor(1) as pool:  # a loop cannot run inside another one of the same thread
            pool.submit(self.run_steps, self, steps, 1).result()

    def event(self, number: int, event: int) -> None:
        """Let something happen to a group."""
        group_id = name_of(number % len(self.behaviours))
        what = EVENTS[event % len(EVENTS)]
        if what in ("hide", "show"):
            (self.hidden.add if what == "hide" else self.hidden.discard)(group_id)
            return
        group = self.groups.get(group_id)
        if group is None:
            if what != "commit":
                return
            group = self.groups[group_id] = FakeGroup({TopicPartition("t", 0): 500}, protocol_type="")
        if what == "share":
            self.groups[group_id] = FakeGroup(dict(group.offsets), type=GroupType.SHARE)
        elif what in ("commit", "same"):
            first = next(iter(group.offsets), TopicPartition("t", 0))
            before = group.offsets.get(first, committed(0))
            group.offsets[first] = committed(before.offset + (what == "commit"))
            self.commits[group_id].append(self.clock)
        else:  # each that joins or leaves moves the epoch, and is a record in the log; a visitor does both
            stays = {"join": 1, "leave": 0, "flap": 1 - group.members, "visit": group.members}
            group.members = stays[what]
            group.epoch += 1
            self.commits[group_id].append(self.clock)
        self.changed[group_id] = self.clock

    def wait(self, hours: int) -> None:
        """Let hours pass in which each group's consumers behave as they do."""
        for _ in range(3):
            self.clock += hours * 1_200.0
            for number, behaviour in enumerate(self.behaviours):
                event = {"mover": "commit", "same": "same", "flapping": "flap", "visitor": "visit"}.get(behaviour)
                if event is not None and name_of(number) in self.groups:
                    self.event(number, EVENTS.index(event))

    # -- the truth about deletions ------------------------------------------------------------------------------------

    def judge_deletion(self, process: Process, group_id: str, seen: Seen | None, sent_at: float) -> None:
        """Check one deletion that is about to happen by everything that is true of the group.

        :param sent_at: when the package let the request go.
        """
        group = self.groups.get(group_id)
        if group is None or group.busy:
            return  # the broker refuses
        task = self.tasks[process.number]
        self._judge_reading(task, group_id, seen)
        self._judge_approval(task, group_id)
        self._judge_earlier(task, group_id, sent_at)
        in_window = seen is not None and self.changed.get(group_id, -1.0) > seen.offsets_at
        commits = seen.commits if in_window and seen and seen.commits is not None else dict(group.offsets)
        self.deletions.append(DeletionTruth(group_id, self.clock, process.number, task.request_id, dict(commits)))

    def note_deletion(self, group_id: str) -> None:
        self.log.append(f"{self.clock:.1f} {group_id} deleted")

    def _judge_reading(self, task: Task, group_id: str, seen: Seen | None) -> None:
        if seen is None or seen.at < 0 or seen.members or not seen.empty or seen.type is GroupType.SHARE:
            self.violated("live_deleted", f"{group_id} at {self.clock:.0f}: read as {seen}")
        elif (seen.fingerprint, seen.epoch) != task.expected.get(group_id, (seen.first_fingerprint, seen.first_epoch)):
            self.violated(
                "live_deleted", f"{group_id} at {self.clock:.0f}: offsets or epoch had moved when it was read"
            )
        elif self.clock - seen.at > WINDOW + 1.0:
            self.violated("late_deleted", f"{group_id} at {self.clock:.0f}: read at {seen.at:.0f}")
        for at, by in task.known.get(group_id, ()):
            if by == task.request_id:
                self.violated("live_deleted", f"{group_id} at {self.clock:.0f}: a try found it alive at {at:.0f}")
            elif task.plan is None and by != "snapshot" and self.clock - at < DAY - TOLERANCE:
                self.violated("live_deleted", f"{group_id} at {self.clock:.0f}: known alive at {at:.0f}, and named")
            elif task.plan is None:
                continue
            elif by == "snapshot" and task.plan.judged_at - MIN_IDLE + TOLERANCE < at <= task.plan.judged_at:
                self.violated("live_deleted", f"{group_id} at {self.clock:.0f}: seen alive by a snapshot at {at:.0f}")
            elif by != "snapshot" and self.clock - at < MIN_IDLE - TOLERANCE:
                self.violated("live_deleted", f"{group_id} at {self.clock:.0f}: found alive by a run at {at:.0f}")

    def _judge_approval(self, task: Task, group_id: str) -> None:
        if task.plan is None or task.plan.terms.why(len(task.plan.plan.groups)) is None:
            return
        if group_id not in (task.approved or frozenset()) | (task.plan.approved or frozenset()):
            self.violated("unapproved_deleted", f"{group_id} at {self.clock:.0f} by plan {task.request_id}")

    def _judge_earlier(self, task: Task, group_id: str, sent_at: float) -> None:
        for earlier in self.deletions:
            if earlier.group_id != group_id:
                continue
            if earlier.at > sent_at and not self.takes_lease:
                continue  # while the request was under way, which only the lease prevents: docs/safety.md
            again = earlier.request_id == task.request_id
            too_soon = task.plan is not None and self.clock - earlier.at < MIN_IDLE - TOLERANCE
            if again or too_soon:
                self.violated(
                    "deleted_twice", f"{group_id} at {earlier.at:.0f} and {self.clock:.0f}, {task.request_id}"
                )


def name_of(number: int) -> str:
    """Return the id of a group."""
    return f"group-{number}"
