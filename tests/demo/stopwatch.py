"""What each step of the demo took: seconds on the wall, and processor seconds of all programs that are at work."""

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """The time since the start, and the steps so far."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.steps: dict[str, dict[str, float]] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure what is done in the ``with`` block. Processor time includes what goes on beside it."""
        began, worked = time.monotonic(), processor_seconds()
        try:
            yield
        finally:
            self.steps[name] = {
                "from": round(began - self._began, 1),
                "seconds": round(time.monotonic() - began, 1),
                "processor_seconds": round(processor_seconds() - worked, 1),
            }

    def table(self) -> str:
        """Lay the steps out for people."""
        width = max(map(len, self.steps), default=0)
        head = f"  {'step':<{width}}  {'from':>6}  {'took':>6}  {'processor':>9}"
        rows = [
            f"  {name:<{width}}  {step['from']:>4.1f} s  {step['seconds']:>4.1f} s  {step['processor_seconds']:>7.1f} s"
            for name, step in self.steps.items()
        ]
        return "\n".join([head, *rows])


def processor_seconds() -> float:
    """Return the processor time of this process and of what it started, so far. Without /proc, only its own."""
    of_parent: dict[int, list[tuple[int, float]]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # it has ended meanwhile
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            spent = sum(map(int, fields[11:15])) / _TICKS  # its own, and that of children that it waited for
            of_parent.setdefault(int(fields[1]), []).append((int(folder.name), spent))
    times = os.times()
    total, parents = sum(times[:4]), [os.getpid()]
    while parents:
        children = of_parent.get(parents.pop(), [])
        total += sum(spent for _, spent in children)
        parents += [pid for pid, _ in children]
    return total
