"""Many real runs side by side, and their counts."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.campaign.real.clients import LIVE, RealCluster
from tests.campaign.real.judging import RealJudge
from tests.campaign.real.records import RealRecord, code_digest
from tests.campaign.real.run import RealRun, prepare_workers
from tests.campaign.real.story import VERSIONS, RealStory, real_story
from tests.lab.servers.object_store import ObjectStore, attach_s3, reached

INVARIANTS = (
    "live_deleted",
    "deleted_without_backup",
    "deleted_twice",
    "unapproved_deleted",
    "restores_different",
    "journal_lies",
    "crashed",
)
AT_ONCE = 6


@dataclass(slots=True)
class RealSummary:
    """The counts of many runs."""

    runs: int = 0
    deleted: int = 0
    found: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    failing: dict[int, list[str]] = field(default_factory=dict)
    not_run: dict[int, str] = field(default_factory=dict)
    by: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def broken(self) -> dict[str, int]:
        """The invariants that were broken, with how often."""
        return {name: self.found[name] for name in INVARIANTS if self.found[name]}

    def add(self, record: RealRecord) -> None:
        """Count one run."""
        self.runs += 1
        self.deleted += record.deleted
        self.found += record.found
        self.injected += record.injected
        self.by[f"kafka {record.version}"] += 1
        self.by[record.storage] += 1
        self.seconds += record.seconds
        if record.problems:
            self.failing[record.seed] = record.problems

    def merge(self, later: RealSummary) -> None:
        """Count other runs as well; what could not be run before was tried again in them."""
        self.runs += later.runs
        self.deleted += later.deleted
        for mine, theirs in ((self.found, later.found), (self.injected, later.injected), (self.by, later.by)):
            mine.update(theirs)
        self.failing |= later.failing
        self.not_run = later.not_run
        self.seconds += later.seconds

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "runs": self.runs,
            "faults_injected": sum(self.injected.values()),
            "deleted": self.deleted,
            **{name: self.found[name] for name in INVARIANTS},
            "restores_compared": self.found["restores_compared"],
            "confirmed_then_lost": self.found["confirmed_then_lost"],
            "runs_by": dict(sorted(self.by.items())),
            "faults": dict(sorted(self.injected.items())),
            "failing_seeds": sorted(self.failing)[:20],
            "not_run": {str(seed): why for seed, why in sorted(self.not_run.items())},
            "seconds": round(self.seconds, 1),
        }


class Site:
    """The clusters and the S3 server that all runs share."""

    def __init__(self, clusters: dict[str, RealCluster], store: ObjectStore, folder: Path) -> None:
        self.clusters = clusters
        self.store = store
        self.folder = folder

    def run(self, story: RealStory, without: str | None = None) -> tuple[RealRun, RealJudge]:
        """Run one story, with all guards or without one, and judge it."""
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        run = RealRun(story, self.clusters[story.version], self.store, folder, without)
        judge = RealJudge(run)
        with run.clients():
            run.take_steps()
        with run.cluster.steady(), self.store.steady() if story.storage == "s3" else nullcontext():
            judge.judge()  # what is wrong now is no fault of ours
        if not judge.problems:
            shutil.rmtree(folder)
        return run, judge

    def check_live(self) -> list[str]:
        """Return which groups that had members all the time were deleted."""
        lost = []
        for cluster in self.clusters.values():
            cluster.clients.check()
            cluster.log.sync()
            truths = cluster.log.groups(LIVE)
            lost += [
                f"live_deleted: {id_}, {truths[id_].deletions[0]}"
                for id_ in cluster.clients.live_groups()
                if truths[id_].deletions
            ]
        return lost


@contextmanager
def site(versions: Iterable[str] = VERSIONS) -> Iterator[Site]:
    """Start the clusters and the S3 server, and stop them."""
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="kafka-groups-campaign-") as folder:
        os.environ.setdefault("AIRFLOW_HOME", str(Path(folder, "airflow")))
        prepare_workers()
        store = stack.enter_context(ObjectStore())
        stack.enter_context(reached(store))
        attach_s3(skip_instance_cache=True)
        with ThreadPoolExecutor() as pool:
            started = [pool.submit(RealCluster(version).__enter__) for version in versions]
        for each in started:
            stack.push(each.result())
        clusters = {each.result().kafka.version: each.result() for each in started}
        yield Site(clusters, store, Path(folder))


def run_real(
    seeds: Iterable[int],
    place: Site,
    *,
    at_once: int = AT_ONCE,
    told: Callable[[str], None] = lambda text: None,
    record: Callable[[RealRecord], None] = lambda record: None,
    without: str | None = None,
) -> RealSummary:
    """Run the stories of many seeds, several at once, and count. Those that could not be run are ``not_run``.

    :param told: called with a line about each run, and with all that happened in one that breaks an invariant.
    :param record: called with each run's record.
    :param without: the guard that workers lack, of ``tests.campaign.mutants``.
    """
    summary, lock, code = RealSummary(), threading.Lock(), code_digest()

    def one(story: RealStory) -> None:
        since = time.monotonic()
        try:
            run, judge = place.run(story, without)
        except Exception as error:  # noqa: BLE001  # whatever it was, it is named
            # A story's own seeding may meet the faults of those beside it. What was not done proves nothing.
            told(f"seed {story.seed}: could not be run: {type(error).__name__}: {error}")
            with lock:
                summary.not_run[story.seed] = f"{type(error).__name__}: {error}"
            return
        with lock:
            done = _recorded(run, judge, code, time.monotonic() - since)
            summary.add(done)
            record(done)
            result = "; ".join(judge.problems) or "held"
            told(f"seed {story.seed}: {len(judge.deletions)} deleted, {done.seconds:.1f} s, {result}")
            for line in run.log if judge.problems else ():
                told(f"    {line}")

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(one, real_story(seed)) for seed in seeds]:
            done.result()
    for problem in place.check_live():
        summary.found["live_deleted"] += 1
        told(problem)
    return summary


def _recorded(run: RealRun, judge: RealJudge, code: str, seconds: float) -> RealRecord:
    return RealRecord(
        seed=run.story.seed,
        code=code,
        version=run.story.version,
        storage=run.story.storage,
        deleted=len(judge.deletions),
        seconds=round(seconds, 1),
        found=judge.found,
        injected=run.injected,
        problems=judge.problems,
    )
