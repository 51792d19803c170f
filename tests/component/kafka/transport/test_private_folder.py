import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_kafka_groups.kafka.transport.security import PREFIX, SecurityConfig, private_folder, remove_leftovers
from tests.lab.security.certificates import Authority

pytestmark = pytest.mark.safety

HOLDER = """
import sys, time
from airflow_kafka_groups.kafka.transport.security import private_folder
with private_folder(guarded=sys.argv[1] == "guarded") as folder:
    (folder / "secret").write_text("s3cr3t")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def start(how: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that holds a folder with a secret, in a process group of its own."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, how], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert holder.stdout is not None
    return holder, Path(holder.stdout.readline().strip())


def eventually(true: Callable[[], bool], seconds: float = 30) -> bool:
    limit = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < limit:
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("guarded", [True, False])
def test_the_folder_is_private_and_goes_with_the_block(temporary: Path, guarded: bool) -> None:
    def fail() -> None:
        with private_folder(guarded=guarded) as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert folder.parent == temporary
            (folder / "secret").write_text("s3cr3t")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("of_group", [False, True], ids=["the process", "its group"])
def test_after_kill_9_the_guard_removes_the_folder(of_group: bool) -> None:
    holder, folder = start("guarded")
    assert (folder / "secret").is_file()
    (os.killpg if of_group else os.kill)(holder.pid, signal.SIGKILL)
    holder.wait()
    assert eventually(lambda: not folder.exists())


def test_what_is_left_when_the_guard_died_too_goes_with_the_next_folder() -> None:
    holder, folder = start("not guarded")
    with private_folder() as another:
        assert (folder / "secret").is_file(), "its process lives"
        assert another.is_dir()
    holder.kill()
    holder.wait()
    assert (folder / "secret").is_file(), "nobody guards it"
    with private_folder():
        assert not folder.exists()


def test_folders_of_others_and_links_are_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, folder = start("not guarded")
    holder.kill()
    holder.wait()
    target = temporary / "elsewhere"
    folder.rename(target)
    link = temporary / f"{PREFIX}link"
    link.symlink_to(target)
    being_made = temporary / f"{PREFIX}being-made"
    being_made.mkdir()
    remove_leftovers()
    assert (target / "secret").is_file()
    assert being_made.is_dir()
    target.rename(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        remove_leftovers()
    assert (folder / "secret").is_file()
    remove_leftovers()
    assert not folder.exists()


def test_the_guard_is_told_no_secret_and_does_not_outlive_the_block() -> None:
    with private_folder() as folder:
        assert eventually(lambda: len(guards_of(folder)) == 1)
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


def test_the_key_that_openssl_reads_lies_in_such_a_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    seen: list[Path] = []
    load = ssl.SSLContext.load_cert_chain

    def noting(self: ssl.SSLContext, certificate: str, key: str, password: str) -> None:
        seen.append(Path(key))
        load(self, certificate, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", noting)
    from airflow_kafka_groups.kafka.cluster.config import ClientConfig

    pair = Authority().issue("me")
    given = {"ssl.certificate.pem": pair.certificate, "ssl.key.pem": pair.key, "security.protocol": "SSL"}
    security: SecurityConfig = ClientConfig.parse({"bootstrap.servers": "b1", **given}).security
    assert security.ssl_context() is not None
    assert [path.parent.name.startswith(PREFIX) for path in seen] == [True]
    assert list(temporary.iterdir()) == []
