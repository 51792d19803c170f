"""A pytest plugin that writes each test's outcome and duration to ``$LANE_RECORDS`` as it goes, one JSON object a line.

Load it with ``-p tests.lanes.recorder``. The first line is ``{"total": n}``; the others are
``{"test", "phase", "outcome", "seconds"}``, one for each phase (setup, call, teardown) of each try.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.lanes.lane import RECORDS_VARIABLE


class Recorder:
    """Append what happens to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the number of tests."""
        self._write({"total": len(session.items)})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the outcome of a phase; with rerunfailures it may be ``rerun``."""
        self._write(
            {
                "test": report.nodeid,
                "phase": report.when,
                "outcome": report.outcome,
                "seconds": round(report.duration, 3),
            }
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write a module that could not be collected as a failed test."""
        if report.failed:
            self._write({"test": report.nodeid, "phase": "collect", "outcome": "failed", "seconds": 0})

    def _write(self, record: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder where a lane asks for it."""
    path = os.environ.get(RECORDS_VARIABLE)
    if path:
        config.pluginmanager.register(Recorder(Path(path)), "lane-recorder")
