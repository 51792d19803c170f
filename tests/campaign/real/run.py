"""One run: its groups, its steps with workers and faults, and what everybody was seen to do."""

import contextlib
import itertools
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from airflow_kafka_groups.hooks.storage import open_path
from airflow_kafka_groups.storage.layout import Layout
from tests.campaign.judging import CLUSTER
from tests.campaign.real.clients import LIVE, PARTITIONS, RECORDS, RealCluster
from tests.campaign.real.offsets_log import GroupTruth
from tests.campaign.real.story import RealStep, RealStory
from tests.campaign.real.worker import MIN_IDLE, Job, work
from tests.lab.errors import LabError
from tests.lab.servers.object_store import BUCKET, ObjectStore
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer

WORKER_S = 120.0
"""How long a worker may take, faults and time-outs of clients included."""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.campaign.real.warm"])


def prepare_workers() -> None:
    """Start the server that workers are forked from: it imports for some seconds, which may be while brokers start."""
    _FORKS.Process(target=int, daemon=True).start()


class RealRun:
    """One run of the campaign on clusters and an S3 server that other runs use at the same time.

    :param folder: a local folder of this run.
    :param without: the guard that its workers lack.
    """

    def __init__(
        self, story: RealStory, cluster: RealCluster, store: ObjectStore, folder: Path, without: str | None = None
    ) -> None:
        self.story = story
        self._without = without
        self.cluster = cluster
        self.store = store
        self.prefix = f"run-{story.seed:05d}."
        self.trace_path = folder / "trace"
        self.trace_path.touch()
        self.key = f"{folder.name}-{story.seed:05d}"
        self.storage = f"s3://{BUCKET}/{self.key}" if story.storage == "s3" else str(folder / "storage")
        self.injected: Counter[str] = Counter()
        self.log: list[str] = []
        self.began = time.time()
        self._random = Random(f"groups {story.seed}")
        self._numbers = itertools.count(1)
        self.mover, self.same = f"{self.prefix}mover", f"{self.prefix}same"
        self.dead = [f"{self.prefix}dead-{number:02d}" for number in range(story.dead)]

    @property
    def layout(self) -> Layout:
        """The paths of the run's files, as this process reaches them."""
        return Layout(open_path("storage_path", self.storage), CLUSTER)

    def trace(self) -> list[dict[str, Any]]:
        """Return what the workers have said so far. Of a line that was being written nothing counts."""
        lines = self.trace_path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def plans(self) -> dict[str, dict[str, Any]]:
        """Return the plans that workers have made, oldest first."""
        return {line["plan_id"]: line for line in self.trace() if line["what"] == "plan"}

    @contextlib.contextmanager
    def clients(self) -> Iterator[None]:
        """Seed the dead groups, and let the living ones commit."""
        commit_offsets(self.cluster.bootstrap, {id_: self._offsets() for id_ in self.dead})
        clients = self.cluster.clients
        clients.commit_with_metadata(self.dead[:2])
        clients.begin(self.mover, moves=True)
        clients.begin(self.same, moves=False)
        try:
            yield
        finally:
            clients.end((self.mover, self.same))

    def take_steps(self) -> None:
        """Take all steps, one after the other."""
        for step in self.story.steps:
            self._take(step)

    def _offsets(self) -> dict[tuple[str, int], int]:
        parts = self._random.sample(range(PARTITIONS), self._random.randint(1, PARTITIONS))
        return {("dead", part): self._random.randint(0, RECORDS) for part in parts}

    def _take(self, step: RealStep) -> None:
        self.log.append(f"{time.time() - self.began:6.2f} {step}")
        match step.action:
            case "wait":
                time.sleep(MIN_IDLE + 0.2)
            case "life":
                self._live(step.detail)
            case "broker":
                self._inject("broker")
                self.cluster.restart_broker(self.story.seed)
            case "election":
                self._inject("election")
                self.cluster.elect()
            case "server":
                self._break_server(step.detail)
            case _:
                self._work(step)

    def _inject(self, what: str) -> None:
        self.injected[what] += 1

    def _live(self, how: str) -> None:
        """Let somebody use a group that is dead until now."""
        self._inject(f"life: {how}")
        group_id = self._random.choice(self.dead)
        with contextlib.suppress(LabError, OSError):
            if how == "join":
                with LiveConsumer(self.cluster.bootstrap, group_id, ["dead"], commit_every=0.1):
                    time.sleep(0.5)
            else:
                has = self.cluster.log.groups(group_id).get(group_id, GroupTruth()).has
                offsets = {where: value.offset for where, value in has.items()} if how == "same" else self._offsets()
                commit_offsets(self.cluster.bootstrap, {group_id: offsets or self._offsets()})

    def _break_server(self, kind: str) -> None:
        self._inject(f"server: {kind}")
        if kind == "down":
            self.store.restart()
        else:
            count = self._random.choice((1, 2, 12))
            self.store.let_fail(self.key, kind, count, status=self._random.choice((500, 503)), seconds=1.0)

    def _work(self, step: RealStep) -> None:
        """Let workers do a step, with what happens beside it, and wait for their ends."""
        processes = [self._start(step, first=number == 0) for number in range(step.workers)]
        if step.workers > 1:
            self._inject("two at once")
        with ThreadPoolExecutor(max(len(step.beside), 1)) as pool:
            beside = [pool.submit(self._later, seconds, other) for seconds, other in step.beside]
            for process in processes:
                self._wait(process)
            for done in beside:
                done.result()
        self.store.heal(self.key)

    def _later(self, seconds: float, step: RealStep) -> None:
        time.sleep(seconds)
        self._take(step)

    def _start(self, step: RealStep, *, first: bool) -> BaseProcess:
        plans = list(self.plans().values())
        story = self.story
        commits: Mapping[str, float] | None = None
        if step.action == "plan" and story.reads_commits:
            log = self.cluster.log
            commits = {**log.last_commits(self.prefix), **log.last_commits(LIVE)}
        job = Job(
            number=next(self._numbers),
            action=step.action,
            bootstrap=self.cluster.bootstrap,
            storage=self.storage,
            prefix=self.prefix,
            trace=str(self.trace_path),
            plan=(plans[-1]["plan_id"], plans[-1]["digest"]) if plans else None,
            last_commits=commits,
            kill=step.kill if first else None,
            detail=step.detail,
            lease=story.takes_lease,
            asks=story.asks,
            without=self._without,
            environment=self.store.environment,
        )
        process = _FORKS.Process(target=work, args=(job,), daemon=True)
        process.start()
        return process

    def _wait(self, process: BaseProcess) -> None:
        process.join(WORKER_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise LabError(f"a worker of seed {self.story.seed} did not end within {WORKER_S:g} s")
        if process.exitcode == -9:
            self._inject("kill")
