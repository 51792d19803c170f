"""Read what the recorder wrote: counts, progress and the slowest tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True, kw_only=True)
class TestRecord:
    """One test: its duration over all phases and tries, and its outcome so far."""

    __test__ = False  # its name looks like a test class

    test: str
    seconds: float = 0.0
    setup_seconds: float = 0.0
    outcome: str = ""
    repeated: bool = False

    def add(self, phase: str, outcome: str, seconds: float) -> None:
        """Add one phase. A failure in any phase is a failure of the test; a repetition starts over."""
        self.seconds += seconds
        if phase == "setup":
            self.setup_seconds += seconds
        if outcome == "rerun":
            self.repeated, self.outcome = True, ""
        elif outcome == "failed":
            self.outcome = "failed"
        elif outcome == "skipped" and self.outcome != "failed":
            self.outcome = "skipped"
        elif phase == "call" and not self.outcome:
            self.outcome = "passed"


@dataclass(slots=True, kw_only=True)
class Records:
    """The tests of one lane.

    :param total: how many tests were collected; 0 as long as that is not known.
    """

    total: int = 0
    tests: dict[str, TestRecord] = field(default_factory=dict)

    def count(self, outcome: str) -> int:
        """Return how many tests have this outcome."""
        return sum(test.outcome == outcome for test in self.tests.values())

    def named(self, outcome: str) -> list[str]:
        """Return the tests of this outcome."""
        return [test.test for test in self.tests.values() if test.outcome == outcome]

    @property
    def repeated(self) -> list[str]:
        """The tests that needed a second try."""
        return [test.test for test in self.tests.values() if test.repeated]


def read_records(path: Path) -> Records:
    """Read a lane's file; a last line that is still being written is left out."""
    return parse_records(path.read_text().splitlines(keepends=True) if path.exists() else [])


def parse_records(lines: Iterable[str]) -> Records:
    """Parse the recorder's lines."""
    records = Records()
    for line in lines:
        if not line.endswith("\n"):
            break
        entry: dict[str, Any] = json.loads(line)
        if "total" in entry:
            records.total += entry["total"]
            continue
        name = entry["test"]
        test = records.tests.setdefault(name, TestRecord(test=name))
        test.add(entry["phase"], entry["outcome"], entry["seconds"])
    return records


def slowest(records: Iterable[tuple[str, Records]], limit: int) -> list[tuple[str, TestRecord]]:
    """Return the slowest tests of all lanes, the slowest first, each with its lane's name."""
    every = [(lane, test) for lane, found in records for test in found.tests.values()]
    return sorted(every, key=lambda pair: -pair[1].seconds)[:limit]
