"""Histories that prune topics of live groups, with the truth about each topic by which every pruning is judged.

Snapshots, plans, prunings and restores are the package's own code. The broker of every second group cannot read the
subscriptions of its members, so it refuses nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow_kafka_groups.change.deletion import chunk_loop
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.change.plan.plan_topics import plan_topics
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import KafkaGroupsError, NotSentError, OutcomeUnknownError
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import GroupDescription, GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.floors import NO_FLOORS
from airflow_kafka_groups.ledger.plan_rows import name_of
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from tests.campaign import actions
from tests.campaign.cluster import ModelAdmin
from tests.campaign.process import Loops, Process
from tests.campaign.steps import Fault, Step, Story
from tests.campaign.world import MIN_IDLE, TOLERANCE, WINDOW, World
from tests.campaign.world import name_of as group_name
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup, committed, timeout
from tests.records import complete_history

OLD = "old"
BEHAVIOURS = ("left", "left", "left", "left", "reader", "mover", "flapper")
EVENTS = ("subscribe", "unsubscribe", "commit", "same", "stop", "start", "hide", "show")
_BOTH, _LIVE = frozenset({"live", OLD}), frozenset({"live"})
Commits = dict[TopicPartition, OffsetAndMetadata]


@dataclass(slots=True)
class Read:
    """What a process truly met when it last read a group."""

    described_at: float = -1.0
    subscribed: bool = True
    read_at: float = -1.0
    commits: Commits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pruned:
    """A pruning that happened."""

    name: str
    group_id: str
    plan_id: str
    process: int
    at: float
    commits: Commits


@dataclass
class PruneWorld(World):
    """The world of live groups that have offsets of the topic ``old``."""

    prune_plans: list[tuple[DeletionPlan, float]] = field(default_factory=list)
    signs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    told: dict[str, Commits] = field(default_factory=dict)
    pruned: list[Pruned] = field(default_factory=list)
    pruning: dict[int, tuple[DeletionPlan, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, behaviour in enumerate(self.behaviours):
            rows = {TopicPartition("live", 0): 100 + number}
            rows |= {TopicPartition(OLD, part): 10 + number for part in range(1 + number % 2)}
            topics = _BOTH if behaviour == "reader" else _LIVE
            self.groups[group_name(number)] = FakeGroup(rows, members=1, subscribed=topics)

    def event(self, number: int, event: int) -> None:
        """Let something happen to a group."""
        group_id, what = group_name(number % len(self.behaviours)), EVENTS[event % len(EVENTS)]
        group = self.groups[group_id]
        if what in ("hide", "show"):
            (self.hidden.add if what == "hide" else self.hidden.discard)(group_id)
        elif what in ("subscribe", "unsubscribe"):
            group._subscribed = _BOTH if what == "subscribe" else _LIVE
        elif what in ("stop", "start"):
            group.members = int(what == "start")
        else:
            for where, value in commits_of(group).items() or [(TopicPartition(OLD, 0), committed(0))]:
                group.offsets[where] = committed(value.offset + (what == "commit"))
        self.changed[group_id] = self.clock

    def wait(self, hours: int) -> None:
        """Let hours pass in which live groups commit, and each group's consumers behave as they do."""
        for third in range(3):
            self.clock += hours * 1_200.0
            for number, behaviour in enumerate(self.behaviours):
                group = self.groups[group_name(number)]
                if group.members:
                    where = TopicPartition("live", 0)
                    group.offsets[where] = committed(group.offsets[where].offset + 1)
                if behaviour == "mover":
                    self.event(number, EVENTS.index("commit"))
                elif behaviour == "flapper":
                    self.event(number, EVENTS.index("subscribe" if third % 2 else "unsubscribe"))

    def judge_pruning(self, process: Process, group_id: str, read: Read) -> None:
        """Check one pruning that is about to happen by everything that is true of the topic."""
        plan, judged_at, began = self.pruning[process.number]
        name, now = name_of(group_id, OLD), self.clock
        planned = {item.name: item for item in plan.groups}[name]
        if read.subscribed or read.described_at < 0:
            self.violated("live_deleted", f"{name} at {now:.0f}: a member subscribes to it")
        elif actions.fingerprint_of(group_id, read.commits) != planned.fingerprint:
            self.violated("live_deleted", f"{name} at {now:.0f}: its offsets had moved when they were read")
        elif now - min(read.described_at, read.read_at) > WINDOW + 1.0:
            self.violated("late_deleted", f"{name} at {now:.0f}: read at {read.read_at:.0f}")
        for at in self.signs[name]:
            if judged_at - MIN_IDLE + TOLERANCE < at < began:
                self.violated("live_deleted", f"{name} at {now:.0f}: a snapshot saw it in use at {at:.0f}")
        for earlier in self.pruned:
            if earlier.name == name and (earlier.plan_id == plan.plan_id or now - earlier.at < MIN_IDLE - TOLERANCE):
                self.violated("deleted_twice", f"{name} at {earlier.at:.0f} and {now:.0f}")
        moved = self.changed.get(group_id, -1.0) > read.read_at  # nobody can see that
        commits = read.commits if moved else commits_of(self.groups[group_id])
        lost = {where: value for where, value in commits.items() if where.topic == OLD}
        self.pruned.append(Pruned(name, group_id, plan.plan_id, process.number, now, lost))


class PruneAdmin(ModelAdmin):
    """The admin client of one process, with OffsetDelete."""

    world: PruneWorld

    def __init__(self, world: PruneWorld, process: Process) -> None:
        super().__init__(world, process)
        self.read: dict[str, Read] = defaultdict(Read)
        self.answered: dict[str, tuple[bool, Commits | None]] = {}

    async def describe_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> GroupResults[GroupDescription]:
        results = await super().describe_consumer_groups(group_ids, **more)
        for group_id in results:
            group, read = self.groups[group_id], self.read[group_id]
            read.described_at, read.subscribed = self.world.clock, bool(group.members) and OLD in group.subscribed
            value = results[group_id].value
            topics = {topic for member in value.members for topic in member.subscribed_topics or ()} if value else set()
            self.answered[group_id] = (OLD in topics, None)
        return results

    async def stream_consumer_group_offsets(
        self, groups: Any, *, require_stable: bool = False, progress: Any = None
    ) -> AsyncGenerator[GroupResult[GroupOffsets], None]:
        async for result in super().stream_consumer_group_offsets(groups, require_stable=require_stable):
            read = self.read[result.group_id]
            read.read_at, read.commits = self.world.clock, commits_of(self.groups[result.group_id])
            told = None if result.value is None or not len(result.value) else dict(read.commits)
            self.answered[result.group_id] = (self.answered.get(result.group_id, (False, None))[0], told)
            yield result

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        send_within: float | None = None,
        coordinator: int | None = None,
    ) -> None:
        began, due = self.world.clock, self.process.at("delete")
        for _ in range(6):  # a lease that ended meanwhile is noticed here, and the request does not leave
            await asyncio.sleep(0)
        self.process.check_interrupted()
        if not self.process.alive:
            self.process.kill()
        if send_within is not None and self.world.clock - began >= send_within:
            raise NotSentError("the time for it was over")
        if "error" in due:
            raise timeout()
        lost = due.get("lost")
        if lost is None or lost.arg % 4 < 2:
            group, wanted = self.groups[group_id], set(partitions)
            if int(group_id[-1]) % 2 == 0 and OLD in group.subscribed and group.members:
                self._forget(group_id, sorted(wanted))  # it is refused
            else:
                self.world.judge_pruning(self.process, group_id, self.read[group_id])
                group.offsets = {where: value for where, value in group.offsets.items() if where not in wanted}
        self.process.after(due)
        if lost is not None:
            raise OutcomeUnknownError("the answer was lost")


class _Session(actions.Session):
    world: PruneWorld
    admin: PruneAdmin

    def make_admin(self) -> PruneAdmin:
        return PruneAdmin(self.world, self.process)


def commits_of(group: FakeGroup) -> Commits:
    """Return a group's commits in the topic."""
    return {where: value for where, value in group.offsets.items() if where.topic == OLD}


async def _watch(session: _Session) -> None:
    world, admin, at = session.world, session.admin, session.world.clock
    await take_snapshot(admin, session.layout, now=session.process.now)
    for group_id, (subscribed, commits) in admin.answered.items():
        before = world.told.get(group_id)
        if subscribed or (commits is not None and before not in (None, commits)):
            world.signs[name_of(group_id, OLD)].append(at)
        if commits is not None:
            world.told[group_id] = commits


async def _plan(session: _Session) -> None:
    at = session.world.clock
    plan, _ = await asyncio.to_thread(plan_topics, session.layout, actions.POLICY, NO_FLOORS, now=session.process.now())
    if plan.groups:
        session.world.prune_plans.append((plan, at))


async def _prune(session: _Session, back: int) -> None:
    world = session.world
    plan, judged_at = world.prune_plans[max(len(world.prune_plans) - 1 - back, 0)]
    world.pruning[session.process.number] = (plan, judged_at, world.clock)
    request = session.request(plan.plan_id)
    await delete_by_plan(session.admin, session.layout, plan.plan_id, plan.digest, request, prunes=True)


async def _undo(session: _Session) -> None:
    """Stop the groups of the newest plan, restore what it pruned, and start them again."""
    plan, _ = session.world.prune_plans[-1]
    groups = [session.world.groups[item.group_id] for item in plan.groups]
    for group in groups:
        group.members = 0
    try:
        changes = await RestoreRequest(plan_id=plan.plan_id).propose(session.admin, session.layout)
        await apply_changes(session.admin, changes, dry_run=False, may_be_absent=True)
    finally:
        for group in groups:
            group.members = 1


def _planned(session: Any, work: Callable[[], Awaitable[None]]) -> Awaitable[None] | None:
    return work() if session.world.prune_plans else None


ACTIONS: dict[str, Callable[[Any, Step], Awaitable[Any] | None]] = {
    "watch": lambda session, step: _watch(session),
    "plan": lambda session, step: _plan(session),
    "prune": lambda session, step: _planned(session, partial(_prune, session, step.a)),
    "undo": lambda session, step: _planned(session, partial(_undo, session)),
}
run_steps = partial(actions.run_steps, actions=ACTIONS, session=_Session)


def story_of(seed: int) -> Story:
    """Make the history of a seed: two days of snapshots, then prunings to which things happen."""
    random = Random(10**9 + seed)
    groups = random.randint(2, 4)
    steps = [Step("watch"), Step("wait", 15), Step("watch"), Step("wait", 15)]
    for _ in range(random.randint(1, 3)):
        steps += [*_noise(random, groups, 0.3), Step("watch", faults=_few(random, groups, 0.2))]
        steps += [Step("plan", faults=_few(random, groups, 0.1)), *_noise(random, groups, 0.3)]
        steps += _seen_meanwhile(random, groups) if random.random() < 0.3 else []
        steps += [*_noise(random, groups, 0.2), Step("prune", faults=_in_pruning(random, groups))]
        if random.random() < 0.6:
            steps += [Step("undo"), *_noise(random, groups, 0.2), Step("prune", random.choice((0, 0, 1)))]
        steps.append(Step("wait", random.choice((1, 15, 26))))
    return Story(seed, tuple(random.choice(BEHAVIOURS) for _ in range(groups)), tuple(steps), prunes=True)


def _seen_meanwhile(random: Random, groups: int) -> list[Step]:
    """A member that reads the topic for a moment, in which a snapshot is taken."""
    group = random.randrange(groups)
    come, go = (Step("life", group, EVENTS.index(name)) for name in ("subscribe", "unsubscribe"))
    return [Step("wait", 1), come, Step("watch"), go, Step("wait", 1)]


def _noise(random: Random, groups: int, chance: float) -> list[Step]:
    event = Step("life", random.randrange(groups), random.randrange(len(EVENTS)))
    return [event] if random.random() < chance else []


def _few(random: Random, groups: int, chance: float) -> tuple[Fault, ...]:
    if random.random() >= chance:
        return ()
    call = random.choice(("list", "describe", "offsets", "delete", "read", "create", "ls"))
    kinds: tuple[str, ...] = ("kill", "kill_after", "cancel", "error", "lost", "jump", "life", "life", "other")
    kinds += ("move", "silent") if call in ("describe", "offsets") else ()
    again = (Step("prune"), Step("undo")) if random.random() < 0.5 else (Step("prune"),)
    return (Fault(call, random.randrange(4), random.choice(kinds), random.randrange(1_000), again),)


def _in_pruning(random: Random, groups: int) -> tuple[Fault, ...]:
    """Faults of a pruning: any, or several that go together."""
    if random.random() < 0.4:
        return _few(random, groups, 0.7)
    chunk, group = random.randrange(2), 8 * random.randrange(groups)
    subscribe, leave, commit = (group + EVENTS.index(name) for name in ("subscribe", "unsubscribe", "commit"))
    together: tuple[tuple[Fault, ...], ...] = (
        (Fault("describe", chunk, "life", subscribe), Fault("delete", chunk, "life", leave)),
        (Fault("offsets", 1 + chunk, "life", commit),),
        (Fault("offsets", 0, random.choice(("silent", "move")), random.randrange(12)),),
        (Fault("create", random.randrange(3, 6), "jump", random.choice((3, 4, 5))),),
        (Fault("offsets", 1 + chunk, "jump", random.choice((3, 4, 5))),),
        (Fault("delete", chunk, random.choice(("kill", "kill_after"))),),
        (Fault("delete", chunk, "lost", random.randrange(4)),),
        (Fault(random.choice(("describe", "offsets", "create")), chunk, "other", 1, (Step("prune"), Step("undo"))),),
    )
    return random.choice(together)


def run_pruning(story: Story, loops: Loops) -> PruneWorld:
    """Run one history from a storage without files, and compare what was written with what happened."""
    world = PruneWorld(loops, story.behaviours, run_steps, takes_lease=bool(story.seed % 3))
    with patch.object(chunk_loop, "clock", SimpleNamespace(now=lambda: world.clock)):
        run_steps(world, story.steps)
    process = Process(world, 0)
    layout = actions.layout_of(world, process)
    try:
        runs = {int(run.begun["actor"]["process"]): run for run in complete_history(layout.base, CLUSTER_ID).runs}
    except KafkaGroupsError as error:
        world.violated("journal_lies", f"the journal cannot be read: {error}")
        return world
    for pruned in world.pruned:
        run = runs.get(pruned.process)
        if run is None or pruned.name not in run.possibly_deleted():
            world.violated("journal_lies", f"{pruned.name} was pruned at {pruned.at:.0f} off the record")
        world.loops.run(process, _compare_restored(world, process, pruned))
    return world


async def _compare_restored(world: PruneWorld, process: Process, pruned: Pruned) -> None:
    """Restore a pruned topic to its group without members, and compare it with what was lost."""
    admin = FakeAdmin(log=(0, 100_000))
    admin.groups[pruned.group_id] = FakeGroup({TopicPartition("live", 0): 1})  # it has stopped
    try:
        layout = actions.layout_of(world, process)
        changes = await RestoreRequest(plan_id=pruned.plan_id, group_ids=[pruned.group_id]).propose(admin, layout)
        await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
    except KafkaGroupsError as error:
        world.violated("deleted_without_backup", f"{pruned.name}: {error}")
        return
    world.found["restores_compared"] += 1
    restored = commits_of(admin.groups[pruned.group_id])
    if restored != pruned.commits:
        world.violated("restores_different", f"{pruned.name}: {pruned.commits} was restored as {restored}")
