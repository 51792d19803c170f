"""A run of lanes as a user starts it: exit codes, closing lines, and Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.jars import REPOSITORY
from tests.lab.machine.waiting import is_alive, until

SCRIPT = """
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tests.lanes import __main__ as program
from tests.lanes.lane import Lane
program.FOLDER = program.ROOT = Path.cwd()
program.LANES = tuple(
    Lane(name=name, commands=(("sh", "-c", script),), needs=needs.split())
    for name, needs, script in {lanes!r}
)
sys.exit(program.main(sys.argv[1:]))
"""

PASSES, FAILS = ("good", "", "echo fine"), ("bad", "", "echo ouch; exit 3")


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def is_gone(pid_file: Path) -> bool:
    """Return whether the process whose id is in the file has ended; its parent may not have noticed."""
    return not is_alive(int(pid_file.read_text()))


def start(tmp_path: Path, *lanes: tuple[str, str, str], arguments: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT.format(lanes=lanes), *arguments]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_all_is_well(tmp_path: Path) -> None:
    with start(tmp_path, PASSES, ("after", "good", "true")) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.splitlines()[-1] == "0 passed, 0 failed"
    assert "fine" not in said


def test_the_output_of_a_failing_lane_is_printed_and_the_others_run_on(tmp_path: Path) -> None:
    with start(tmp_path, FAILS, ("after", "bad", "true"), PASSES) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(r"bad .*FAILED \(exit code 3\)", said)
    assert "\nouch\n" in said
    assert re.search(r"after +is not run: bad failed", said)
    assert re.search(r"good .*passed", said)
    assert said.splitlines()[-1] == "0 passed, 2 failed"
    assert (tmp_path / "summary.txt").read_text().splitlines()[-1] == "0 passed, 2 failed"


def test_only_the_named_lanes_run(tmp_path: Path) -> None:
    with start(tmp_path, FAILS, PASSES, arguments=("good",)) as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    with start(tmp_path, FAILS, arguments=("worse",)) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "There is no lane 'worse'" in said


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_every_lane_and_says_that_they_failed(tmp_path: Path, sign: signal.Signals) -> None:
    lanes = [(name, "", f"echo $$ > {name}.pid; exec sleep 60") for name in ("a", "b")]
    with start(tmp_path, *lanes, ("c", "a", "true")) as process:
        pids = [tmp_path / "a.pid", tmp_path / "b.pid"]
        until(lambda: all(map(is_written, pids)))
        process.send_signal(sign)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "0 passed, 3 failed"
    assert all(map(is_gone, pids))


def test_a_killed_runner_takes_its_lanes_along(tmp_path: Path) -> None:
    lanes = [("a", "", "echo $$ > a.pid; exec sleep 60"), ("b", "", "echo started > b")]
    with start(tmp_path, *lanes) as process:
        pid = tmp_path / "a.pid"
        until(lambda: is_written(pid) and is_written(tmp_path / "b"))  # b starts when the reaper knows a
        process.kill()
        process.wait()
        until(lambda: is_gone(pid))
