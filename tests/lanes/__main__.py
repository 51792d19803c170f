"""Run lanes: ``python -m tests.lanes [lane …]``; without names all of them.

Exits with 1 when a lane fails, with 2 for an unknown lane, and with 130 after Ctrl-C, which ends everything.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence

from tests.lab.machine.reaper import Reaper
from tests.lanes import screen
from tests.lanes.lane import Lane, choose
from tests.lanes.process import LaneProcess
from tests.lanes.project import FOLDER, LANES, MISSING_VERSIONS, ON_REQUEST, ROOT
from tests.lanes.schedule import Schedule

_POLL_S = 0.2
_STOP_TIMEOUT_S = 30.0
_INTERRUPTED = 130
_NEEDED_BYTES = 6_000_000_000


class Interruptions:
    """How often the user has asked for the end. Counted, not raised: no process is lost half started."""

    def __init__(self) -> None:
        self.count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._add)  # a shell's background job would ignore SIGINT

    def _add(self, *_: object) -> None:
        self.count += 1


class Runner:
    """The lanes of one run."""

    def __init__(self, lanes: Sequence[Lane], capacity: float) -> None:
        self._interruptions = Interruptions()
        self._schedule = Schedule(lanes, capacity)
        self._reaper = Reaper()
        self._lanes: list[LaneProcess] = []
        self._failed: list[str] = []

    def run(self) -> int:
        FOLDER.mkdir(parents=True, exist_ok=True)
        if warning := short_of_space(shutil.disk_usage(FOLDER).free):
            screen.say(warning)
        try:
            while not self._schedule.is_finished and not self._interruptions.count:
                self._start_lanes()
                self._look_at_lanes()
                time.sleep(_POLL_S)
            if self._interruptions.count:
                screen.say("Interrupted: ending all lanes …")
                self._failed += [lane.lane.name for lane in self._running()]
                self._failed += [lane.name for lane in self._schedule.waiting]
                return _INTERRUPTED
        finally:
            self._stop()
            (FOLDER / "summary.txt").write_text(screen.summary(self._lanes, self._failed, notes()))
        return 1 if self._failed else 0

    def _running(self) -> list[LaneProcess]:
        return [lane for lane in self._lanes if lane.ended_after is None]

    def _start_lanes(self) -> None:
        while (lane := self._schedule.start_next()) is not None:
            screen.say(f"{lane.name:<13} starts")
            self._lanes.append(LaneProcess(lane, root=ROOT, folder=FOLDER, reaper=self._reaper))

    def _look_at_lanes(self) -> None:
        for lane in self._running():
            code = lane.poll()
            if code is None:
                continue
            screen.ended(lane, code)
            given_up = self._schedule.end(lane.lane.name, succeeded=code == 0)
            for other in given_up:
                screen.say(f"{other.name:<13} is not run: {lane.lane.name} failed")
            self._failed += [lane.lane.name] * (code != 0) + [other.name for other in given_up]

    def _stop(self) -> None:
        """End what runs: as Ctrl-C does at first, and by force after a while or a second Ctrl-C."""
        for lane in self._running():
            lane.interrupt()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while [lane for lane in self._running() if lane.poll() is None]:
            if time.monotonic() > deadline or self._interruptions.count > 1:
                break
            time.sleep(_POLL_S)
        for lane in self._running():
            lane.kill()
        self._reaper.close()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lanes", description="Run all checks and tests side by side.")
    names = [lane.name for lane in (*LANES, *ON_REQUEST)]
    parser.add_argument("lanes", nargs="*", metavar="lane", help=f"one of {', '.join(names)}")
    default = default_capacity()
    parser.add_argument("--capacity", type=float, default=default, help=f"the sum of loads (here {default:g})")
    arguments = parser.parse_args(argv)
    try:
        lanes = choose((*LANES, *ON_REQUEST), arguments.lanes or [lane.name for lane in LANES])
    except ValueError as error:
        parser.error(str(error))
    return Runner(lanes, arguments.capacity).run()


def notes() -> list[str]:
    """Return what the summary has to name: the promised versions of Python that cannot be tried on this machine."""
    return [f"not tried: Python {version}, which is not installed here" for version in MISSING_VERSIONS]


def short_of_space(free: int) -> str | None:
    """Return what is to be said of a disk with few free bytes: a full one fails tests for reasons of all kinds."""
    if free >= _NEEDED_BYTES:
        return None
    return (
        f"only {free / 1e9:.1f} GB of disk space are free: all lanes together need {_NEEDED_BYTES / 1e9:.0f} at first, "
        "for environments, jars and the installers' caches"
    )


def default_capacity() -> float:
    """Return the loads that may run at once: more than there are processors, since lanes wait for brokers as well."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors * 1.5


if __name__ == "__main__":
    sys.exit(main())
