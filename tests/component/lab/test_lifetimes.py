"""Nothing outlives its owner, and a shared cluster runs until its last test has ended."""

import os
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


CONFTEST = """
from tests.lab import fixtures

class Cluster:
    def __init__(self, *, version, **more):
        self.version, self.runs = version, True
    def __enter__(self):
        print("START", self.version)
        return self
    def __exit__(self, *_):
        self.stop()
    def stop(self):
        if self.runs:
            print("STOP", self.version)
        self.runs = False

fixtures.KafkaCluster = Cluster
pytest_plugins = ["tests.lab.fixtures"]
"""
TESTS = """
import pytest

tries = []

@pytest.mark.flaky(reruns=1)
def test_the_last_of_kafka44(kafka44):
    tries.append(1)
    print("TRY", len(tries), kafka44.runs)
    assert len(tries) > 1

def test_others_go_on(kafka41):
    print("OTHER", kafka41.runs)
"""


def test_a_test_that_is_run_again_has_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = [
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-p",
        "pytest_rerunfailures",
        "-p",
        "no:cacheprovider",
        "-sq",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    words = [line.lstrip(".R") for line in done.stdout.splitlines()]
    assert [line for line in words if line.split(" ")[0] in {"START", "STOP", "TRY", "OTHER"}] == [
        "START 4.4.0",
        "TRY 1 True",
        "TRY 2 True",
        "STOP 4.4.0",
        "START 4.1.0",
        "OTHER True",
        "STOP 4.1.0",
    ]
