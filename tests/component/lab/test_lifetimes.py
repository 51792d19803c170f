"""Nothing outlives its owner."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.lab.jars import REPOSITORY
from tests.lab.machine.reaper import Reaper
from tests.lab.machine.waiting import is_alive, until

SLEEP = ["sleep", "60"]


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
    until(lambda: not is_alive(int(owner.stdout)))
    until(lambda: not folder.exists())
