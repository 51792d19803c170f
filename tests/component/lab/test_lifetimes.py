"""Nothing outlives its owner."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from tests.lab.jars import REPOSITORY
from tests.lab.machine.reaper import Reaper

SLEEP = ["sleep", "60"]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a zombie has ended; only its parent has not looked yet


def test_closing_kills_what_is_watched_and_removes_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    reaper = Reaper()
    with subprocess.Popen(SLEEP) as process:
        reaper.watch(process.pid)
        reaper.watch_folder(str(folder))
        reaper.close()
        try:
            assert process.wait(10) == -signal.SIGKILL
        finally:
            process.kill()
    assert not folder.exists()


def test_a_killed_owner_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    script = textwrap.dedent(f"""
        import os, signal, subprocess
        from tests.lab.machine.reaper import Reaper
        reaper = Reaper()
        process = subprocess.Popen({SLEEP}, stdout=subprocess.DEVNULL, start_new_session=True)
        reaper.watch(process.pid)
        reaper.watch_folder({str(folder)!r})
        print(process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    owner = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert owner.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while (is_running(int(owner.stdout)) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(int(owner.stdout))
    assert not folder.exists()
