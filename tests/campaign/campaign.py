"""Runs of the campaign: many histories, their counts, and the shortest form of one that breaks an invariant."""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import pyarrow

from airflow_kafka_groups.change.backup import file
from airflow_kafka_groups.change.backup import make_backup as planned
from airflow_kafka_groups.kafka.regexes import RegexSet
from airflow_kafka_groups.ledger import journal
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe import patterns
from airflow_kafka_groups.storage import file_storage
from airflow_kafka_groups.storage import paths as ids
from airflow_kafka_groups.storage.layout import StoragePath
from tests.campaign.actions import run_steps
from tests.campaign.ending import check_end
from tests.campaign.process import Loops
from tests.campaign.pruning import PruneWorld, run_pruning
from tests.campaign.pruning import story_of as pruning_of
from tests.campaign.steps import DAY, Story, shorter, story_of
from tests.campaign.world import World

_PRUNING_EVERY = 40
BROKER_CLOCKS = (*[0.0] * 7, 240.0, -240.0, 7_200.0, -30.0 * DAY)
"""What the brokers' clock may be wrong by, in seconds. No snapshot is sure to find one that is behind by less than the
time since the one before."""
INVARIANTS = (
    "live_deleted",
    "late_deleted",
    "deleted_without_backup",
    "deleted_twice",
    "unapproved_deleted",
    "restores_different",
    "journal_lies",
)


class _Counted:
    """Stands for ``secrets``: ids are the same each time a history is run."""

    def __init__(self) -> None:
        self._count = 0

    def token_hex(self, size: int) -> str:
        self._count += 1
        return f"{self._count:0{2 * size}x}"


def run_story(story: Story, loops: Loops) -> World:
    """Run one history from an empty cluster and storage, and check every invariant."""
    names = _Counted()
    seed = story.seed
    verified = 3 if seed % 2 else journal.VERIFIED  # entries that each run reads again
    with (
        patch.object(ids, "secrets", names),
        patch.object(planned, "secrets", names),
        patch.object(journal, "VERIFIED", verified),
    ):
        if story.prunes:
            return run_pruning(story, loops)
        world = World(
            loops,
            story.behaviours,
            run_steps,
            reads_commits=bool(seed % 2),
            takes_lease=bool(seed % 3),
            broker_off=BROKER_CLOCKS[seed % len(BROKER_CLOCKS)],
        )
        run_steps(world, story.steps)
        check_end(world)
    return world


def shrink(story: Story, loops: Loops, seconds: float = 60.0) -> Story:
    """Return the shortest history found that breaks the same invariant."""
    wanted = run_story(story, loops).problems[0].partition(":")[0]
    until = time.process_time() + seconds
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in shorter(story):
            if time.process_time() > until:
                return story
            if any(problem.startswith(wanted) for problem in run_story(candidate, loops).problems):
                story, shrunk = candidate, True
                break
    return story


@dataclass(slots=True)
class Summary:
    """The counts of many histories."""

    runs: int = 0
    steps: int = 0
    deleted: int = 0
    found: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    prunings: int = 0
    pruned: int = 0
    failing: list[int] = field(default_factory=list)
    failing_prunings: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def add(self, story: Story, world: World) -> None:
        """Count one history."""
        self.runs += not story.prunes
        self.prunings += story.prunes
        self.steps += len(story.steps)
        self.deleted += len(world.deletions)
        self.pruned += len(world.pruned) if isinstance(world, PruneWorld) else 0
        self.found += world.found
        self.injected += world.injected
        if world.problems:
            (self.failing_prunings if story.prunes else self.failing).append(story.seed)

    @property
    def broken(self) -> dict[str, int]:
        """The invariants that were broken, with how often."""
        return {name: self.found[name] for name in INVARIANTS if self.found[name]}

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "runs": self.runs,
            "steps": self.steps,
            "faults_injected": sum(self.injected.values()),
            "deleted": self.deleted,
            "pruning_runs": self.prunings,
            "pruned": self.pruned,
            **{name: self.found[name] for name in INVARIANTS},
            "restores_compared": self.found["restores_compared"],
            "faults": dict(sorted(self.injected.items())),
            "failing_seeds": self.failing[:20],
            "failing_pruning_seeds": self.failing_prunings[:20],
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def _stories(seeds: Iterable[int], pruning: bool) -> Iterator[Story]:
    for seed in seeds:
        if not pruning:
            yield story_of(seed)
        if pruning or seed % _PRUNING_EVERY == 0:
            yield pruning_of(seed)


@contextmanager
def quick() -> Iterator[Loops]:
    """Provide the loops of a campaign, with the code's threads and repeated work taken out."""
    # More threads would make the order of calls, and so the faults, depend on the machine.
    readers, file_storage.READERS = file_storage.READERS, 1 << 30
    decode, decoded = file.entries_of, dict[Any, dict[str, Target]]()

    def entries(path: StoragePath, data: bytes, backup: file.Backup) -> dict[str, Target]:
        # The same bytes hold the same rows; Parquet is most of the time that a campaign takes.
        key = (data, backup.plan_id, backup.cluster, backup.kafka_cluster_id, backup.rows)
        if key not in decoded:
            if len(decoded) > 100:
                decoded.clear()
            decoded[key] = decode(path, data, backup)
        return decoded[key]

    logging.disable(logging.CRITICAL)
    cpus = pyarrow.cpu_count()
    pyarrow.set_cpu_count(1)
    loops = Loops()
    file.entries_of = planned.entries_of = entries  # type: ignore[attr-defined]
    compile_set = RegexSet
    compiled = lru_cache(1_000)(compile_set)
    setattr(patterns, "RegexSet", lambda expressions: compiled(tuple(expressions)))  # noqa: B010 - it is a class
    try:
        yield loops
    finally:
        file.entries_of = planned.entries_of = decode  # type: ignore[attr-defined]
        setattr(patterns, "RegexSet", compile_set)  # noqa: B010
        file_storage.READERS = readers
        pyarrow.set_cpu_count(cpus)
        logging.disable(logging.NOTSET)
        loops.close()


def run_many(seeds: Iterable[int], *, stop_at_first: bool = False, pruning: bool = False) -> Summary:
    """Run the histories of many seeds; every 40th has one that prunes topics, too.

    :param pruning: only those that prune, of every seed.
    """
    summary, began = Summary(), time.process_time()
    with quick() as loops:
        for story in _stories(seeds, pruning):
            world = run_story(story, loops)
            summary.add(story, world)
            if world.problems and stop_at_first:
                break
    summary.cpu_seconds = time.process_time() - began
    return summary
