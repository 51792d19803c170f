"""Tests that run in several forked processes are shown and counted as in one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.jars import REPOSITORY

OUTCOMES = """
import os, warnings
import pytest

@pytest.fixture(scope="module")
def made():
    made = []
    yield made
    assert len(made) == 2, "the fixture of the module ended too early"

def test_first(made): made.append(1)
def test_second(made): made.append(2)
def test_passes(tmp_path): (tmp_path / "file").write_text("")
def test_fails():
    print("what it printed")
    assert [1, 2] == [1, 3]
@pytest.mark.skip(reason="not here")
def test_is_skipped(): pass
@pytest.mark.xfail(strict=True)
def test_fails_as_expected(): assert False
def test_warns(): warnings.warn(UserWarning("take care"))
@pytest.mark.parametrize("number", range(40))
def test_many(number): pass
"""

DIES = """
import os, signal
def test_before(): pass
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.forks", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [*command, "--rootdir", str(folder), "-rA", *options, str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def outcomes(shown: str) -> set[str]:
    """Return the lines of the summary, without their reasons, and its numbers."""
    lines = re.findall(r"^(?:PASSED|FAILED|ERROR|XFAIL) \S+", shown, re.MULTILINE)
    return {*lines, *re.findall(r"\d+ (?:passed|failed|skipped|xfailed|errors?|warnings?)", shown.splitlines()[-1])}


@pytest.mark.parametrize("options", [(), ("-v",), ("-s",)], ids=["", "verbose", "not captured"])
def test_the_outcomes_are_those_of_one_process(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_outcomes.py").write_text(OUTCOMES)
    (tmp_path / "test_others.py").write_text("def test_other(): pass")
    alone, spread = (run(tmp_path, "--processes", count, *options) for count in ("1", "3"))
    assert outcomes(spread.stdout) == outcomes(alone.stdout), spread.stdout
    assert {"45 passed", "1 failed", "1 skipped", "1 xfailed", "1 warning"} <= outcomes(spread.stdout), spread.stdout
    assert spread.returncode == 1
    for shown in ("what it printed", "At index 1 diff: 2 != 3", "UserWarning: take care"):
        assert shown in spread.stdout + spread.stderr


def test_a_process_that_dies_fails_its_test_and_those_that_it_had_taken(tmp_path: Path) -> None:
    (tmp_path / "test_dies.py").write_text(DIES)
    (tmp_path / "test_others.py").write_text("def test_other(): pass")
    done = run(tmp_path, "--processes", "2")
    assert done.returncode == 1
    assert {"PASSED test_dies.py::test_before", "PASSED test_others.py::test_other"} <= outcomes(done.stdout)
    assert {"FAILED test_dies.py::test_dies", "FAILED test_dies.py::test_after"} <= outcomes(done.stdout)
    assert "the process of this test ended with -9" in done.stdout
    assert "it was not run, since the process that had taken it ended before" in done.stdout


def test_the_first_failure_ends_all_processes_where_one_is_enough(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text("import time\ndef test_it(): assert False, time.sleep(0.2)\n" * 9)
        (tmp_path / f"test_slow_{number}.py").write_text("import time\ndef test_slow(): time.sleep(30)")
    done = run(tmp_path, "-x", "--processes", "2")
    assert done.returncode == 1
    assert "stopping after 1 failures" in done.stdout


def test_files_that_cannot_be_collected_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_module")
    (tmp_path / "test_others.py").write_text("def test_other(): pass")
    done = run(tmp_path, "--processes", "2")
    assert done.returncode == 2
    assert "1 error" in done.stdout


def test_a_number_is_needed(tmp_path: Path) -> None:
    done = run(tmp_path, "--processes", "many")
    assert done.returncode == 4
    assert "--processes must be a number or auto, not 'many'" in done.stderr
