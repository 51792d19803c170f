import os
import tempfile
from pathlib import Path

import pytest

from tests.lab.machine import scratch
from tests.lab.machine.scratch import memory_folder, use_memory


def test_a_folder_with_room_is_used(tmp_path: Path) -> None:
    assert memory_folder(tmp_path, room=1) == str(tmp_path)


def test_without_the_folder_the_room_or_the_right_none_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_folder(tmp_path / "missing", room=1) is None
    assert memory_folder(tmp_path, room=2**60) is None
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        assert memory_folder(tmp_path, room=1) is None
    mounted = os.statvfs(tmp_path)
    flagged = os.statvfs_result((*mounted[:8], mounted.f_flag | os.ST_NOEXEC, mounted.f_namemax))
    monkeypatch.setattr(os, "statvfs", lambda _: flagged)
    assert memory_folder(tmp_path, room=1) is None


@pytest.mark.parametrize("chosen", [None, "by-user"])
def test_it_is_the_folder_of_temporary_files_unless_the_user_named_one(
    chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "memory_folder", lambda: str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.delenv("TMPDIR", raising=False)
    if chosen:
        (tmp_path / chosen).mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / chosen))
        monkeypatch.setattr(tempfile, "tempdir", None)
    use_memory()
    assert tempfile.gettempdir() == str(tmp_path / (chosen or ""))
    assert os.environ["TMPDIR"] == str(tmp_path / (chosen or ""))
