"""Print the lanes' progress, the output of those that fail, and the closing summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from tests.lanes.process import LaneProcess
from tests.lanes.results import Records, slowest

SLOWEST = 20
_EVERY_S = 30.0


def clock(seconds: float) -> str:
    """Format a duration as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def progress_line(name: str, seconds: float, records: Records) -> str:
    """Return a lane's line of progress."""
    done = sum(bool(test.outcome) for test in records.tests.values())
    said = f"{done:4d} of {records.total} tests" if records.total else ""
    failed = records.count("failed")
    return f"{name:<13}{clock(seconds):>6}  {said}{f', {failed} failed' if failed else ''}"


class Screen:
    """What the runner prints. A terminal shows a line for each lane, redrawn every second; a log every 30 seconds."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._started = time.monotonic()
        self._shown_at = self._started
        self._drawn = 0

    def say(self, text: str) -> None:
        """Print a line, with the time since the start."""
        self._erase()
        self._print(f"[{clock(time.monotonic() - self._started):>5}] {text}")

    def show(self, running: Sequence[LaneProcess]) -> None:
        """Print the progress of the lanes that run, when it is time for it."""
        now = time.monotonic()
        if now - self._shown_at < (1.0 if self._out.isatty() else _EVERY_S):
            return
        self._shown_at = now
        lines = [progress_line(lane.lane.name, lane.seconds, lane.records) for lane in running]
        if self._out.isatty():
            self._erase()
            self._drawn = len(lines)
            for line in lines:
                self._print(line)
        else:
            for line in lines:
                self.say(line)

    def ended(self, lane: LaneProcess, code: int) -> None:
        """Print how a lane ended; if it failed, with all its output."""
        line = progress_line(lane.lane.name, lane.seconds, lane.records)
        outcome = "passed" if code == 0 else f"FAILED (exit code {code})"
        self.say(f"{line}  {outcome}, {lane.cpu_seconds:.0f} s of processor time")
        if code != 0:
            self._print(f"----- output of the lane {lane.lane.name} -----")
            self._print(lane.log.read_text(errors="replace").rstrip())
            self._print(f"----- end of the output of the lane {lane.lane.name} -----")

    def summary(self, lanes: Sequence[LaneProcess], failed: Sequence[str], notes: Sequence[str] = ()) -> str:
        """Print, and return, the slowest tests, what needs attention, and as the last line what passed and failed.

        :param failed: the names of the lanes that failed or could not run.
        :param notes: what else there is to say.
        """
        self._erase()
        lines = [*(lane_line(lane) for lane in lanes), *notes]
        lines += closing_lines([(lane.lane.name, lane.records) for lane in lanes], failed)
        self._print("\n".join(["", *lines]))
        return "\n".join([*lines, ""])

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def _erase(self) -> None:
        """Remove the lines of progress from the terminal."""
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0


def lane_line(lane: LaneProcess) -> str:
    """Return a lane's line of the closing summary."""
    tests = f"{lane.records.total:5d} tests" if lane.records.total else ""
    return (
        f"{lane.lane.name:<13}{clock(lane.seconds):>6}, {lane.cpu_seconds:4.0f} s of processor time  {tests}".rstrip()
    )


def closing_lines(records: Sequence[tuple[str, Records]], failed: Sequence[str]) -> list[str]:
    """Return the closing summary. A lane that failed without a failed test counts as one failure."""
    lines = ["", f"The slowest {SLOWEST} tests (seconds, those of setup, lane, test):"]
    for lane, test in slowest(records, SLOWEST):
        lines.append(f"{test.seconds:8.1f} {test.setup_seconds:7.1f}  {lane:<9} {test.test}")
    lines.append("")
    for lane, found in records:
        lines += [f"repeated  {lane:<9} {test}" for test in found.repeated]
        lines += [f"skipped   {lane:<9} {test}" for test in found.named("skipped")]
        lines += [f"FAILED    {lane:<9} {test}" for test in found.named("failed")]
    tests_failed = sum(found.count("failed") for _, found in records)
    blamed = {lane for lane, found in records if found.count("failed")}
    others = [name for name in failed if name not in blamed]
    lines += [f"FAILED    {name}" for name in others]
    skipped = sum(found.count("skipped") for _, found in records)
    if skipped:
        lines.append(f"{skipped} skipped")
    passed = sum(found.count("passed") for _, found in records)
    lines.append(f"{passed} passed, {tests_failed + len(others)} failed")
    return lines
