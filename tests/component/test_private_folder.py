"""The folder of a Spark job's private files: it goes with the block, and with the process."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from airflow_kafka_groups.spark.private_files import private_folder
from tests.lab.machine.waiting import until

pytestmark = pytest.mark.safety

HOLDER = """
import time
from airflow_kafka_groups.spark.private_files import private_folder
with private_folder() as folder:
    (folder / "secret").write_text("s3cr3t")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_private_and_goes_with_the_block(temporary: Path) -> None:
    def fail() -> None:
        with private_folder() as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert folder.parent == temporary
            (folder / "secret").write_text("s3cr3t")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("of_group", [False, True], ids=["the process", "its group"])
def test_after_kill_9_the_guard_removes_the_folder(of_group: bool) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert holder.stdout is not None
    folder = Path(holder.stdout.readline().strip())
    assert (folder / "secret").is_file()
    (os.killpg if of_group else os.kill)(holder.pid, signal.SIGKILL)
    holder.wait()
    until(lambda: not folder.exists())


def test_the_guard_is_told_no_secret_and_does_not_outlive_the_block() -> None:
    with private_folder() as folder:
        until(lambda: len(guards_of(folder)) == 1)
        (guard,) = guards_of(folder)
        assert Path(f"/proc/{guard}/cmdline").read_bytes().split(b"\0")[3:5] == [b"kafka-groups-guard", bytes(folder)]
        assert Path(f"/proc/{guard}/environ").read_bytes().count(b"=") == 1
    assert guards_of(folder) == []


def guards_of(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if bytes(folder) in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found
