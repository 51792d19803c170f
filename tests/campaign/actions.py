"""The steps of a history, taken by the package's own code."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion import ad_hoc
from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionRequest, no_lease
from airflow_kafka_groups.change.deletion.run import DeletionResult, delete_by_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.judge.evidence import Evidence
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.approval import seal_answer, seal_question
from airflow_kafka_groups.ledger.approval_rules import ALWAYS, NEVER, ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.ledger import Known
from airflow_kafka_groups.ledger.verdicts import JudgedBy
from airflow_kafka_groups.observe.fingerprint import fingerprint
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout
from tests.campaign.cluster import ModelAdmin, model_lease
from tests.campaign.judging import CLUSTER, take, verdicts, write_snapshot
from tests.campaign.process import KilledError, Process
from tests.campaign.steps import DAY, Step
from tests.campaign.storage import ModelFileSystem, ModelPath
from tests.campaign.world import MIN_IDLE, PlanTruth, Task, World, name_of
from tests.fakes.verdicts import verdicts_of

POLICY = PlanPolicy(min_idle_seconds=MIN_IDLE, max_share=1.0, max_groups=10, max_plan_age_seconds=3 * DAY)
LIMITS = DeletionLimits(chunk_size=2)
ALIVE = frozenset({"has_members", "not_empty", "moved", "came_back"})
ASKED_BY = {"dag_id": "clean_up", "task_id": "approve"}
_EXPECTED = (KafkaGroupsError, OSError, ValueError)


class Session:
    """What one process reaches: the cluster, the storage, and the clock."""

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process
        self.admin = self.make_admin()
        self.layout = layout_of(world, process)

    def make_admin(self) -> ModelAdmin:
        return ModelAdmin(self.world, self.process)

    def request(self, request_id: str) -> DeletionRequest:
        return DeletionRequest(
            request_id=request_id,
            dry_run=False,
            actor={"process": str(self.process.number)},
            lease=partial(model_lease, self.world, self.process) if self.world.takes_lease else no_lease,
            limits=LIMITS,
            now=self.process.now,
            monotonic=self.process.monotonic,
        )


def layout_of(world: World, process: Process) -> Layout:
    """Return the paths of the model's storage as one process reaches them."""
    return Layout(cast("Any", ModelPath(ModelFileSystem(world.store, process), "bucket")), CLUSTER)


def fingerprint_of(group_id: str, commits: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    """Return the fingerprint of some commits."""
    return fingerprint(GroupOffsets.from_mapping(group_id, dict(commits)))


def run_steps(
    world: World,
    steps: tuple[Step, ...],
    depth: int = 0,
    *,
    actions: Mapping[str, Callable[[Any, Step], Awaitable[Any] | None]] | None = None,
    session: type[Session] = Session,
) -> None:
    """Take the steps one after the other; each that is more than an event is a process of its own.

    :param actions: what the steps do. Default: those of clean-ups.
    :param session: what a process reaches.
    """
    for step in steps:
        world.log.append(f"{world.clock:.1f} {'  ' * depth}{step.action} {step.a} {step.b}")
        if step.action == "wait":
            world.wait(step.a)
        elif step.action == "life":
            world.event(step.a, step.b)
        else:
            place = len(world.log) - 1
            world.log[place] += f": {_run_process(world, step, depth, actions or ACTIONS, session)}"


def _run_process(
    world: World,
    step: Step,
    depth: int,
    actions: Mapping[str, Callable[[Any, Step], Awaitable[Any] | None]],
    session: type[Session],
) -> str:
    world.processes += 1
    process = Process(world, world.processes, step.faults, depth)
    action = actions[step.action](session(world, process), step)
    if action is None:
        return "nothing to do"
    try:
        world.loops.run(process, cast("Any", action))
    except (KilledError, asyncio.CancelledError, KeyboardInterrupt) as end:
        return type(end).__name__
    except _EXPECTED as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        if type(error).__name__ != "ClientError":
            raise
        return "ClientError"
    finally:
        process.alive = False
        if world.holder is process:
            world.held_until = min(world.held_until, world.clock + 10.0)
    return "done"


def _snapshot(session: Session, step: Step) -> Awaitable[None]:
    async def work() -> None:
        await take(session.world, session.process, session.admin)
        await asyncio.to_thread(write_snapshot, session.layout, session.world.snapshots[-1])

    return work()


def _plan(session: Session, step: Step) -> Awaitable[None] | None:
    world = session.world
    if not world.snapshots:
        return None
    newest = world.snapshots[-1]

    async def work() -> None:
        history = await asyncio.to_thread(read_history, session.layout, await session.admin.cluster_id())
        found = verdicts(world.snapshots, newest, step.b)
        # Where the job reads the log of commits, it is required: a broker's clock that is off must not make it lie.
        judged_by = JudgedBy(
            evidence=Evidence(commits_until=newest.manifest.observed_at if world.reads_commits else None)
        )
        policy, reader = replace(POLICY, require_commit_log=world.reads_commits), cast("SnapshotReader", newest)
        plan = make_plan(verdicts_of(found, judged_by), reader, policy, session.process.now(), Known(history=history))
        if plan.groups:
            await asyncio.to_thread(save_plan, session.layout, plan)
            terms = ApprovalTerms(rule=ALWAYS if step.a else NEVER)
            world.plans.append(PlanTruth(plan, newest.clock, terms))

    return work()


def _ask(session: Session, step: Step) -> Awaitable[None] | None:
    if not session.world.plans:
        return None
    truth = session.world.plans[-1]

    async def work() -> None:
        await asyncio.to_thread(seal_question, session.layout, truth.plan, ASKED_BY, session.process.now())
        truth.approved = frozenset().union(*truth.answering)

    return work()


def _answer(session: Session, step: Step) -> Awaitable[None] | None:
    """Answer the question: 0 approved, 1 approved but for one group, 2 rejected, 3 approved with a wrong number."""
    if not session.world.plans:
        return None
    truth, how = session.world.plans[-1], step.a
    ids = truth.plan.group_ids
    excluded = [ids[step.b % len(ids)]] if how == 1 else []
    said = frozenset(ids) - frozenset(excluded) if how in (0, 1) else frozenset()

    async def work() -> None:
        if how in (0, 1):
            truth.approved = said
        truth.answering.append(said)
        seal = partial(
            seal_answer,
            session.layout,
            truth.plan,
            asked_by=ASKED_BY,
            approved=how != 2,
            person={"id": "1", "name": "ann"},
            responded_at=session.process.now().isoformat(),
            confirmed=str(len(ids) + (how == 3)),
            excluded=excluded,
        )
        try:
            await asyncio.to_thread(seal)
        finally:
            truth.answering.remove(said)

    return work()


def _backup(session: Session, step: Step) -> Awaitable[Any] | None:
    if not session.world.plans:
        return None
    plan = session.world.plans[-1].plan
    return back_up_plan(session.admin, session.layout, plan, now=session.process.now)


def _delete(session: Session, step: Step) -> Awaitable[None] | None:
    world = session.world
    if not world.plans:
        return None
    truth = world.plans[max(len(world.plans) - 1 - step.a, 0)]
    plan = truth.plan
    expected = {group.group_id: (group.fingerprint, group.group_epoch) for group in plan.groups}
    world.tasks[session.process.number] = Task(plan.plan_id, truth, expected, _known(world), truth.approved)

    async def work() -> None:
        request = session.request(plan.plan_id)
        # Looked up when it is called: a mutant may have replaced it.
        result = await delete_by_plan(
            session.admin, session.layout, plan.plan_id, plan.digest, request, approval=truth.terms
        )
        _note_lives(session, plan.plan_id, result)

    return work()


def _named(session: Session, step: Step) -> Awaitable[None]:
    world = session.world
    earlier = [task.request_id for task in world.tasks.values() if task.plan is None]
    request_id = earlier[-1] if step.b and earlier else f"named-{session.process.number}"
    world.tasks[session.process.number] = Task(request_id, None, {}, _known(world))
    ids = [name_of((step.a + more) % len(world.behaviours)) for more in range(2)]

    async def work() -> None:
        result = await ad_hoc.delete_by_name(session.admin, session.layout, ids, session.request(request_id))
        _note_lives(session, request_id, result)

    return work()


def _known(world: World) -> dict[str, list[tuple[float, str]]]:
    return {group_id: list(lives) for group_id, lives in world.lives.items()}


def _note_lives(session: Session, request_id: str, result: DeletionResult) -> None:
    """A run that has ended has recorded whatever it found in use."""
    for outcome in result.report.outcomes:
        if outcome.outcome.value == "kept" and outcome.code in ALIVE:
            seen = session.admin.seen[outcome.group_id]
            session.world.lives[outcome.group_id].append((max(seen.at, 0.0), request_id))


def _restore(session: Session, step: Step) -> Awaitable[None] | None:
    names = sorted(name for name in session.world.store.files if "/backups/" in name and name.endswith(".json"))
    if not names:
        return None
    plan_id = names[-1].rpartition("/")[2].removesuffix(".json")

    async def work() -> None:
        changes = await RestoreRequest(plan_id=plan_id).propose(session.admin, session.layout)
        await apply_changes(session.admin, changes, dry_run=False, may_be_absent=True)

    return work()


ACTIONS: dict[str, Callable[[Session, Step], Awaitable[Any] | None]] = {
    "snapshot": _snapshot,
    "plan": _plan,
    "ask": _ask,
    "answer": _answer,
    "backup": _backup,
    "delete": _delete,
    "named": _named,
    "restore": _restore,
}
