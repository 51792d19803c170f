"""Run a scenario: every peer in turn, in an order that is shuffled anew each round, each answer checked.

Cold calls come first, each in a fresh process that is then ended, but for the last, which goes on to the warm rounds.
What drifts on the machine meets all peers alike, since a round of all peers takes seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.cluster import CHECKSUM_OF_GROUP, FilledCluster
from tests.bench.process import Answer, PeerError, PeerLostError, PeerProcess
from tests.bench.results import PeerResult
from tests.bench.scenarios import OURS, Scenario
from tests.bench.skipping import has_enough, why_not
from tests.bench.toolchains import REPOSITORY, Peer

WARM_UP_CALLS = 5
WARM_UP_GROUPS = 1_000
WARM_UP_DELETIONS = 5
WARM_UP_DELETED_GROUPS = 10_000
QUICK_TO_DELETE = (OURS, "franz_go", "kafka_python")
ENOUGH_COLD_S = 15.0
LEAST_WARM_ROUNDS = 3

Say = Callable[[str], None]


@dataclass(slots=True)
class Run:
    """What a whole run of the benchmark shares.

    ``history``: (operation, broker kind, peer) -> groups -> seconds, which later scenarios' skipping goes by.
    """

    peers: Mapping[str, Peer]
    build: Path
    say: Say
    random: random.Random = field(default_factory=random.Random)
    history: dict[tuple[str, str, str], dict[int, float]] = field(default_factory=dict)

    def start(self, name: str, bootstrap: str) -> PeerProcess:
        log = self.build / "logs" / f"{name}.log"
        return PeerProcess(name, list(self.peers[name].command), bootstrap, folder=REPOSITORY, log=log)


def warm_up(run: Run, cluster: FilledCluster, scenarios: Iterable[Scenario]) -> None:
    """Let the brokers' JVMs optimise what all peers are going to use, so that the first scenario is like the others.

    Brokers in use have run for weeks. A first deletion of thousands takes theirs ten times as long as the fifth.

    :param scenarios: what will be measured on this cluster.
    """
    group_file = cluster.groups_to_read(max(WARM_UP_GROUPS, cluster.readable))
    with run.start(OURS, cluster.bootstrap) as process:
        for _ in range(WARM_UP_CALLS):
            process.call("list_offsets", group_file)
        for operation in ("find_coordinators", "describe"):
            process.call(operation, group_file)
    sizes = [scenario.groups for scenario in scenarios if scenario.operation == "delete"]
    if sizes:
        _warm_up_deletions(run, cluster, min(max(sizes), WARM_UP_DELETED_GROUPS))


def _warm_up_deletions(run: Run, cluster: FilledCluster, groups: int) -> None:
    """Delete with the clients that are quick, in turn: none is to find brokers that know only the other's requests."""
    quick = [name for name in QUICK_TO_DELETE if name in run.peers and not run.peers[name].missing]
    for _ in range(WARM_UP_DELETIONS):
        for name, some in zip(quick, cluster.groups_to_delete(groups, len(quick)), strict=True):
            # A client that cannot is left out where it is measured, and does not end the run here.
            with suppress(PeerError), run.start(name, cluster.bootstrap) as process:
                process.call("delete", some)


def run_scenario(run: Run, scenario: Scenario, cluster: FilledCluster) -> dict[str, PeerResult]:
    """Measure every peer that takes part, and say of the others why they do not."""
    results = {name: _entry(run, scenario, peer) for name, peer in run.peers.items()}
    _Rounds(run, scenario, cluster, results).measure()
    for name, result in results.items():
        if result.warm_median is not None and not result.failed:
            run.history.setdefault((scenario.operation, scenario.broker, name), {})[scenario.groups] = (
                result.warm_median
            )
    return results


def _entry(run: Run, scenario: Scenario, peer: Peer) -> PeerResult:
    before = run.history.get((scenario.operation, scenario.broker, peer.name), {})
    skipped = peer.missing or why_not(peer.name, scenario, before)
    if skipped:
        run.say(f"    {peer.name}: {skipped}")
    return PeerResult(peer.name, peer.version, skipped=skipped)


@dataclass(slots=True)
class _Rounds:
    run: Run
    scenario: Scenario
    cluster: FilledCluster
    results: dict[str, PeerResult]
    processes: dict[str, PeerProcess] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)

    def measure(self) -> None:
        deadline = time.monotonic() + self.scenario.budget_s
        try:
            for left in reversed(range(self.scenario.colds)):
                self._cold_round(keep=left == 0)
            for warm in range(self.scenario.warms):
                if warm >= LEAST_WARM_ROUNDS and time.monotonic() > deadline:
                    self.run.say(f"    (no more time: {warm} warm rounds instead of {self.scenario.warms})")
                    break
                self._warm_round()
        finally:
            for name in list(self.processes):
                self._end(name)

    def _cold_round(self, *, keep: bool) -> None:
        names = [
            name
            for name, result in self.results.items()
            # One cold call of a slow peer is enough: its process is kept.
            if not result.skipped and not result.failed and name not in self.processes
        ]
        files = self._files(names)
        for name in self._shuffled(names):
            self._start(name)
            if name in self.processes:
                self._call(name, files[name])
            if not keep and sum(self.results[name].cold) < ENOUGH_COLD_S:
                self._end(name)

    def _warm_round(self) -> None:
        names = [name for name in self.processes if not has_enough(self.results[name].warm, self.results[name].cold)]
        files = self._files(names)
        for name in self._shuffled(names):
            self._call(name, files[name])

    def _call(self, name: str, group_file: Path) -> None:
        result = self.results[name]
        try:
            answer = self.processes[name].call(self.scenario.operation, group_file)
            check(self.scenario, answer)
        except PeerLostError as error:
            self._replace(name, str(error))
            return
        except PeerError as error:
            self._fail(name, str(error))
            return
        if name in self.fresh:
            self.fresh.discard(name)
            result.cold.append(answer.seconds)
            result.requests["cold"] = answer.requests
            return
        result.warm.append(answer.seconds)
        result.requests["warm"] = answer.requests
        result.read.append(answer.read_seconds)
        if answer.cpu_seconds is not None:
            result.cpu.append(answer.cpu_seconds)

    def _start(self, name: str) -> None:
        try:
            self.processes[name] = self.run.start(name, self.cluster.bootstrap)
            self.fresh.add(name)
        except PeerError as error:
            self._fail(name, str(error))

    def _replace(self, name: str, reason: str) -> None:
        """Go on with another process of a peer that was lost, once: that it happened stays in its notes."""
        if self.results[name].notes:
            self._fail(name, f"{reason}, twice")
            return
        self.run.say(f"    {name}: {reason}; going on with a new process")
        self.results[name].notes.append(f"{reason}; measured on in a new process")
        self._end(name)
        self._start(name)

    def _files(self, names: list[str]) -> dict[str, Path]:
        if self.scenario.operation == "delete":
            return dict(zip(names, self.cluster.groups_to_delete(self.scenario.groups, len(names)), strict=True))
        return dict.fromkeys(names, self.cluster.groups_to_read(self.scenario.groups))

    def _shuffled(self, names: list[str]) -> list[str]:
        return self.run.random.sample(names, len(names))

    def _fail(self, name: str, reason: str) -> None:
        self.run.say(f"    {name} FAILED: {reason}")
        self.results[name].failed = reason
        self._end(name)

    def _end(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process is None:
            return
        peak = process.peak_mb()
        if peak is not None:
            self.results[name].peak_mb = max(peak, self.results[name].peak_mb or 0.0)
        process.close()


def check(scenario: Scenario, answer: Answer) -> None:
    """Compare an answer with what was committed; raises ``PeerError`` when something is missing or wrong."""
    if answer.errors:
        raise PeerError(f"{answer.errors:,} errors, the first: {answer.error}")
    if answer.groups != scenario.groups:
        raise PeerError(f"answered for {answer.groups:,} groups of {scenario.groups:,}")
    if answer.offsets != scenario.offsets:
        raise PeerError(f"gave {answer.offsets:,} offsets, and {scenario.offsets:,} are committed")
    if scenario.operation == "list_offsets" and answer.checksum != scenario.groups * CHECKSUM_OF_GROUP:
        raise PeerError("gave other offsets than were committed")
