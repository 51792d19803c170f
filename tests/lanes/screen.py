"""Print how the lanes ended, the output of those that failed, and the closing summary, from what pytest said."""

import re
import time
from collections import Counter
from collections.abc import Sequence

from tests.lanes.process import LaneProcess

_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped|rerun)")
_TOTAL = re.compile(r"^(?:=+ )?\d+ \w+.* in [\d.]+s\b", re.MULTILINE)
_NAMED = re.compile(r"^(?:FAILED|ERROR|SKIPPED|RERUN) .*", re.MULTILINE)
_STARTED = time.monotonic()


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def say(text: str) -> None:
    print(f"[{clock(time.monotonic() - _STARTED):>5}] {text}", flush=True)


def counts(log: str) -> Counter[str]:
    """Return how many tests passed, failed and so on, by the last lines of the runs of pytest in a log."""
    found = Counter[str]()
    for total in _TOTAL.findall(log):
        for number, outcome in _COUNT.findall(total):
            found["failed" if outcome == "error" else outcome] += int(number)
    return found


def ended(lane: LaneProcess, code: int) -> None:
    """Print how a lane ended; if it failed, with all its output."""
    say(f"{_line(lane)}  {'passed' if code == 0 else f'FAILED (exit code {code})'}")
    if code != 0:
        name = lane.lane.name
        print(f"----- output of the lane {name} -----\n{lane.output.rstrip()}\n----- end of the lane {name} -----")


def _line(lane: LaneProcess) -> str:
    said = ", ".join(f"{number} {outcome}" for outcome, number in counts(lane.output).items())
    return f"{lane.lane.name:<13}{clock(lane.seconds):>6}  {said}"


def summary(lanes: Sequence[LaneProcess], failed: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Print, and return, what needs attention, and as the last line what passed and failed.

    :param failed: the names of the lanes that failed or could not run. One without a failed test counts as a failure.
    :param notes: what else there is to say.
    """
    lines = [*map(_line, lanes), *notes, ""]
    found = Counter[str]()
    blamed = set[str]()
    for lane in lanes:
        lines += [f"{lane.lane.name:<13} {named}" for named in _NAMED.findall(lane.output)]
        found += (of_lane := counts(lane.output))
        blamed |= {lane.lane.name} if of_lane["failed"] else set()
    others = [name for name in failed if name not in blamed]
    lines += [f"FAILED    {name}" for name in others]
    lines += [f"{found[name]} {name}" for name in ("rerun", "skipped") if found[name]]
    lines.append(f"{found['passed']} passed, {found['failed'] + len(others)} failed")
    print("\n".join(["", *lines]), flush=True)
    return "\n".join([*lines, ""])
