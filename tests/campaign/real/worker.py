"""A worker: a process that does one step of a clean-up by the real code, and may be killed by SIGKILL at any call.

It is forked from a server that has imported everything, and says what it does in a trace, line by line, so that what a
killed worker did is known too.
"""

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any
from unittest.mock import patch

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionRequest, no_lease
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.change.lease import LeaseGuard
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.kafka import ClientConfig, MaintenanceLease
from airflow_kafka_groups.kafka.admin.results import GroupResults
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import GroupDescription, TopicPartition
from airflow_kafka_groups.ledger.approval import seal_answer, seal_question
from airflow_kafka_groups.ledger.approval_rules import ALWAYS, NEVER, ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import load_plan, save_plan
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.ledger.ledger import Known
from airflow_kafka_groups.observe.cluster_view import read_view_for_snapshot
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, snapshot_ids
from airflow_kafka_groups.storage import file_storage
from airflow_kafka_groups.storage.access import storage_errors
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.campaign.judging import CLUSTER, ModelSnapshot, verdicts
from tests.campaign.mutants import without
from tests.campaign.real.story import Kill
from tests.fakes.snapshot_groups import groups_in
from tests.fakes.verdicts import verdicts_of
from tests.lab.servers.object_store import attach_s3

MIN_IDLE = 2.0
LIMITS = DeletionLimits(chunk_size=8)
SESSION_S = 4.0
LEASE_WAIT_S = 8.0
ASKED_BY = {"dag_id": "clean_up", "task_id": "approve"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker is to do.

    :param prefix: the groups of the run; those of consumers that live on are included as well.
    :param plan: id and digest of the plan that it is about; ``None`` before there is one.
    :param last_commits: when each group committed last; ``None`` where the log of commits is not read.
    :param without: the guard that this worker lacks; ``None`` for none.
    """

    number: int
    action: str
    bootstrap: str
    storage: str
    prefix: str
    trace: str
    plan: tuple[str, str] | None = None
    last_commits: Mapping[str, float] | None = None
    kill: Kill | None = None
    detail: str = ""
    lease: bool = False
    asks: bool = False
    without: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        return Layout(open_path("storage_path", self.storage), CLUSTER)


class Tracer:
    """Writes the trace, and kills this process where it is to end."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._file = os.open(job.trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._counts: Counter[str] = Counter()

    def note(self, what: str, **more: Any) -> None:
        """Write one line; it stays when the process is killed the next moment."""
        line = {"worker": self._job.number, "at": time.time(), "what": what, **more}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def at(self, call: str) -> None:
        """Begin a call: die here, or some milliseconds later, if that is what is to happen."""
        kill, number = self._job.kill, self._counts[call]
        self._counts[call] += 1
        if kill is None or (kill.call, kill.nth) != (call, number):
            return
        self.note("killed", call=call, nth=number)
        die = partial(os.kill, os.getpid(), signal.SIGKILL)
        if kill.after_ms is None:
            die()
        else:
            threading.Timer(kill.after_ms / 1000, die).start()


class TracingAdmin(MaintenanceClient):
    """The client of a connection; says when it reads and deletes."""

    tracer: Tracer

    async def describe_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> GroupResults[GroupDescription]:
        ids = list(group_ids)
        self.tracer.note("read", groups=ids)
        self.tracer.at("describe")
        return await super().describe_consumer_groups(ids, **more)

    async def stream_consumer_group_offsets(self, groups: Any, **more: Any) -> AsyncGenerator[Any, None]:
        self.tracer.note("read", groups=list(groups))
        self.tracer.at("offsets")
        async for result in super().stream_consumer_group_offsets(groups, **more):
            yield result

    async def delete_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> GroupResults[None]:
        ids = list(group_ids)
        self.tracer.note("delete", groups=ids)
        self.tracer.at("delete")
        return await super().delete_consumer_groups(ids, **more)

    async def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], **more: Any
    ) -> None:
        of = list(partitions)
        self.tracer.note("delete offsets", topics=sorted({where.topic for where in of}))
        self.tracer.at("delete offsets")
        await super().delete_consumer_group_offsets(group_id, of, **more)

    async def alter_consumer_group_offsets(self, offsets: Any, **more: Any) -> GroupResults[None]:
        self.tracer.at("alter")
        return await super().alter_consumer_group_offsets(offsets, **more)


def work(job: Job) -> None:
    """Run one job; a worker process is started with this function."""
    os.environ.update(job.environment)
    logging.disable(logging.CRITICAL)
    tracer = Tracer(job)
    if job.storage.startswith("s3:"):
        attach_s3(skip_instance_cache=True)

    @contextmanager
    def counted(what: str, path: Any) -> Iterator[None]:
        tracer.at(what)
        with storage_errors(what, path):
            yield

    patch.object(file_storage, "storage_errors", counted).start()  # until the process ends
    try:
        with without(job.without) if job.without is not None else nullcontext():
            asyncio.run(_act(job, tracer))
        tracer.note("done", cpu=time.process_time())
    except Exception as error:
        expected = isinstance(error, (KafkaGroupsError, OSError, ValueError, TimeoutError, *_of_s3()))
        tracer.note("refused" if expected else "crashed", error=f"{type(error).__name__}: {error}"[:2_000])
        if not expected:
            raise


def _of_s3() -> tuple[type[Exception], ...]:
    """Return the errors of S3 clients that are no ``OSError``: snapshots and plans let them pass."""
    exceptions = import_module("botocore.exceptions")
    return exceptions.BotoCoreError, exceptions.ClientError


async def _act(job: Job, tracer: Tracer) -> None:
    config = ClientConfig.from_librdkafka({"bootstrap.servers": job.bootstrap})
    async with TracingAdmin(config, ConnectionSettings(conn_id="lab", properties={})) as admin:
        admin.tracer = tracer
        await ACTIONS[job.action](job, admin, tracer)


async def _snapshot(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    view = partial(read_view_for_snapshot, admin)
    found = await take_snapshot(admin, job.layout, include=[f"{job.prefix}*", "live.*"], view=view)
    tracer.note("snapshot", complete=found.complete, groups=found.groups)


async def _plan(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    layout = job.layout
    seen = [_of_reader(SnapshotReader(layout, id_), job.last_commits or {}) for id_ in snapshot_ids(layout)]
    newest = seen[-1]
    policy = PlanPolicy(min_idle_seconds=MIN_IDLE, max_share=1.0, max_groups=100, max_plan_age_seconds=3_600)
    history = await asyncio.to_thread(read_history, layout, await admin.cluster_id())
    found = verdicts(seen, newest, 0, min_idle=MIN_IDLE)
    reader = SnapshotReader(layout, newest.manifest.snapshot_id)
    plan = make_plan(verdicts_of(found), reader, policy, utc_now(), Known(history=history))
    if not plan.groups:
        return
    # Noted first: a plan may be saved by a worker that is killed before it could say so.
    judged_at = {id_: newest.rows[id_].observed_at.timestamp() for id_ in plan.group_ids}
    tracer.note("plan", plan_id=plan.plan_id, digest=plan.digest, judged_at=judged_at)
    await asyncio.to_thread(save_plan, layout, plan)


def _of_reader(reader: SnapshotReader, last_commits: Mapping[str, float]) -> ModelSnapshot:
    rows = {row.group_id: row for row in groups_in(reader)}
    return ModelSnapshot(reader.manifest, rows, reader.manifest.observed_at.timestamp(), dict(last_commits))


async def _ask(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    plan = load_plan(job.layout, _plan_of(job)[0])
    await asyncio.to_thread(seal_question, job.layout, plan, ASKED_BY, utc_now())
    tracer.note("asked", plan_id=plan.plan_id)


async def _answer(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    plan = load_plan(job.layout, _plan_of(job)[0])
    excluded = sorted(plan.group_ids)[::3] if job.detail == "but some" else []
    if job.detail != "no":
        tracer.note("answered", plan_id=plan.plan_id, approved=sorted(set(plan.group_ids) - set(excluded)))
    seal_answer(
        job.layout,
        plan,
        asked_by=ASKED_BY,
        approved=job.detail != "no",
        person={"id": "1", "name": "ann"},
        responded_at=utc_now().isoformat(),
        confirmed=str(len(plan.group_ids)),
        excluded=excluded,
    )


async def _backup(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    await back_up_plan(admin, job.layout, load_plan(job.layout, _plan_of(job)[0]))


async def _delete(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    plan_id, digest = _plan_of(job)
    request = DeletionRequest(
        request_id=plan_id,
        dry_run=False,
        actor={"worker": str(job.number)},
        lease=partial(_lease, job) if job.lease else no_lease,
        limits=LIMITS,
    )
    terms = ApprovalTerms(rule=ALWAYS if job.asks else NEVER)
    result = await delete_by_plan(admin, job.layout, plan_id, digest, request, approval=terms)
    tracer.note("deleted", counts=result.report.summary()["counts"])


async def _prune(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    plan_id, digest = _plan_of(job)
    limits = DeletionLimits(chunk_size=1)
    request = DeletionRequest(request_id=plan_id, dry_run=False, limits=limits)
    result = await delete_by_plan(admin, job.layout, plan_id, digest, request, prunes=True)
    tracer.note("pruned", counts=result.report.summary()["counts"])


async def _restore(job: Job, admin: TracingAdmin, tracer: Tracer) -> None:
    changes = await RestoreRequest(plan_id=_plan_of(job)[0]).propose(admin, job.layout)
    results = await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
    tracer.note("restored", groups=len(results))


@asynccontextmanager
async def _lease(job: Job) -> AsyncIterator[LeaseGuard]:
    """Take the run's lease as ``deletion_lease`` does, with a session that ends soon."""
    config = ClientConfig.from_librdkafka({"bootstrap.servers": job.bootstrap})
    group_id = f"lease.{job.prefix}airflow-kafka-groups-lease"
    lease = MaintenanceLease(config, group_id=group_id, owner=f"worker {job.number}", session_timeout=SESSION_S)
    try:
        await lease.acquire(LEASE_WAIT_S)
        yield LeaseGuard(lease)
    finally:
        await lease.aclose()


def _plan_of(job: Job) -> tuple[str, str]:
    if job.plan is None:
        raise ValueError("there is no plan")
    return job.plan


ACTIONS: dict[str, Callable[[Job, TracingAdmin, Tracer], Awaitable[None]]] = {
    "snapshot": _snapshot,
    "plan": _plan,
    "ask": _ask,
    "answer": _answer,
    "backup": _backup,
    "delete": _delete,
    "prune": _prune,
    "restore": _restore,
}
