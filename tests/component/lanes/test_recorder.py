"""The pytest plugin writes down what pytest says, in one process and in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.lab.jars import REPOSITORY
from tests.lanes.lane import RECORDS_VARIABLE
from tests.lanes.results import read_records

TESTS = """
import pytest

def test_passes(): pass

@pytest.mark.flaky(reruns=1)
def test_fails(): assert False

@pytest.mark.skip
def test_is_left_out(): pass
"""


def test_the_recorder_writes_what_pytest_says(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_broken.py").write_text("import no_such_module")
    plugins = [
        f"-p{name}" for name in ("tests.forks", "pytest_rerunfailures", "tests.lanes.recorder", "no:cacheprovider")
    ]
    options = ["-c", os.devnull, "--rootdir", str(tmp_path), "--continue-on-collection-errors"]
    command = [sys.executable, "-m", "pytest", *plugins, *options, str(tmp_path)]
    written = tmp_path / "records.jsonl"
    for processes in ("1", "2"):
        written.unlink(missing_ok=True)
        environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            [*command, "--processes", processes],
            env=os.environ | environment | {RECORDS_VARIABLE: str(written)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        found = read_records(written)
        assert found.total == 3, done.stdout
        assert found.named("passed") == ["test_it.py::test_passes"]
        assert sorted(found.named("failed")) == ["test_broken.py", "test_it.py::test_fails"]
        assert found.named("skipped") == ["test_it.py::test_is_left_out"]
        assert found.repeated == ["test_it.py::test_fails"]
