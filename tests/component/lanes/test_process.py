import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.lanes.waiting import is_gone, is_written, until
from tests.lab.machine.reaper import Reaper
from tests.lanes.lane import Lane
from tests.lanes.process import LaneProcess


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    made = Reaper()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Handle SIGINT as the runner does: in a shell's background job it is ignored, and would be in every lane."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ended(process: LaneProcess) -> int:
    until(lambda: process.poll() is not None)
    code = process.poll()
    assert code is not None
    return code


def start(tmp_path: Path, reaper: Reaper, *scripts: str, nice: int = 0) -> LaneProcess:
    lane = Lane(name="one", commands=tuple(("sh", "-c", script) for script in scripts), nice=nice)
    return LaneProcess(lane, root=tmp_path, folder=tmp_path, reaper=reaper)


def test_commands_run_one_after_the_other_into_one_log(tmp_path: Path, reaper: Reaper) -> None:
    process = start(tmp_path, reaper, "echo one; nice", "echo two >&2", nice=3)
    assert process.ended_after is None
    assert ended(process) == 0
    own = os.nice(0)  # these tests run in a lane themselves
    assert process.log.read_text() == f"one\n{min(own + 3, 19)}\ntwo\n"
    assert process.ended_after is not None
    assert process.poll() == 0


def test_the_first_command_that_fails_ends_the_lane(tmp_path: Path, reaper: Reaper) -> None:
    process = start(tmp_path, reaper, "exit 7", "touch second")
    assert ended(process) == 7
    assert not (tmp_path / "second").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process of its parent's death")
def test_the_command_of_a_lane_ends_with_what_watches_it(tmp_path: Path, reaper: Reaper) -> None:
    child = tmp_path / "child"
    process = start(tmp_path, reaper, f"echo $$ > {child}; exec sleep 60")
    process.poll()
    until(lambda: is_written(child))
    reaper.close()  # as after the death of the runner
    until(lambda: is_gone(child))
    assert ended(process) == -signal.SIGKILL


@pytest.mark.parametrize("how", ["end", "interrupt", "kill"])
def test_nothing_is_left_of_a_lane_that_has_ended(tmp_path: Path, reaper: Reaper, how: str) -> None:
    child = tmp_path / "child"
    leave = f"sh -c 'trap \"\" INT; sleep 60' & echo $! > {child}"
    process = start(tmp_path, reaper, leave if how == "end" else f"{leave}; exec sleep 60", "touch second")
    process.poll()
    until(lambda: is_written(child))
    if how == "end":
        assert ended(process) == 0
    else:
        end = process.interrupt if how == "interrupt" else process.kill
        until(lambda: (end(), process.poll())[1] is not None)  # a shell may lose one right before it execs
        assert ended(process) < 0
        assert not (tmp_path / "second").exists(), "an interrupted lane starts nothing more"
    until(lambda: is_gone(child))


def test_each_lane_has_a_temporary_folder_that_is_left_only_by_one_that_fails(tmp_path: Path, reaper: Reaper) -> None:
    for script, is_left in (("echo $TMPDIR; touch $TMPDIR/a", False), ("echo $TMPDIR; touch $TMPDIR/a; false", True)):
        process = start(tmp_path, reaper, script)
        assert (ended(process) != 0) is is_left
        folder = Path(process.log.read_text().strip())
        assert folder.name.startswith("lane-one-")
        assert folder.exists() is is_left
        shutil.rmtree(folder, ignore_errors=True)
