"""Storages of fsspec with folders that have to be made, such as SFTP, SMB and HDFS."""

from __future__ import annotations

import gc
import io
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec import register_implementation  # type: ignore[import-untyped]
from fsspec.implementations.dirfs import DirFileSystem  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, JournalError, StorageError
from airflow_kafka_groups.maintenance.cluster_folders import other_folders
from airflow_kafka_groups.maintenance.durable_files import (
    create_file,
    is_exclusive,
    list_names,
    read_file,
    remove_file,
    remove_folder,
)
from airflow_kafka_groups.maintenance.journal.journal import Journal
from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.restore.recorded import change_recorded
from airflow_kafka_groups.maintenance.storage import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.busy_store import BusyStore, busy_store
from tests.fakes.sftp_store import sftp_store
from tests.unit.maintenance.scene import backed_up, delete_plan, layout_in

pytestmark = pytest.mark.safety


async def test_a_clean_up_makes_its_folders(tmp_path: Path) -> None:
    admin = FakeAdmin(log=(0, 10))
    admin.add("a", ("t", 0, 5), protocol_type="")
    _, folder = busy_store(tmp_path / "new")
    layout = layout_in(folder)
    plan, _ = await backed_up(admin, layout)
    assert (await delete_plan(admin, layout, plan)).report.counts["deleted"] == 1
    propose = partial(propose_restore, admin, layout, plan.plan_id)
    await change_recorded(
        admin, layout, "restore", propose, protects=lambda _: False, dry_run=False, may_be_absent=True
    )
    assert set(admin.groups) == set(KeepAliveRecords(layout).read()) == {"a"}


def plain_or_sftp(name: str, folder: Path) -> Any:
    return busy_store(folder)[1] if name == "plain" else sftp_store(folder)


@pytest.mark.parametrize("name", ["plain", "sftp"])
def test_a_file_that_exists_is_not_replaced_where_the_library_does_not_see_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two writers that look at once both find none, and to fsspec a file that it cannot ask for does not exist."""
    base = plain_or_sftp(name, tmp_path)
    monkeypatch.setattr(BusyStore, "exists", lambda *_: False)
    create_file(base / "backups" / "manifest.json", b"mine")
    create_file(base / "backups" / "manifest.json", b"mine")  # the answer was lost
    with pytest.raises(FileExistsAlreadyError):
        create_file(base / "backups" / "manifest.json", b"another's")
    assert read_file(base / "backups" / "manifest.json") == b"mine"
    assert is_exclusive(base / "probe")


@pytest.mark.parametrize("name", ["plain", "sftp"])
def test_of_two_runs_that_begin_at_once_one_is_refused_on_each_storage(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, at = plain_or_sftp(name, tmp_path), datetime(2026, 11, 1, tzinfo=UTC)
    monkeypatch.setattr(BusyStore, "exists", lambda *_: False)
    journal = Journal(base, "cluster-1")
    before = journal.read()
    journal.begin({"run_id": "1", "request_id": None}, at, after=before)
    with pytest.raises(JournalError, match="another run has begun at the same time"):
        journal.begin({"run_id": "2", "request_id": None}, at, after=before)
    assert [run.run_id for run in journal.read().runs] == ["1"]


def test_a_part_of_a_file_is_that_part_where_the_library_reads_all_of_it(tmp_path: Path) -> None:
    """The lines of a checkpoint seemed to have been changed."""
    base = sftp_store(tmp_path)
    create_file(base / "1.json", b"0123456789")
    assert read_file(base / "1.json", 2, 5) == b"234"
    assert read_file(base / "2.json", 2, 5) is None


class SmbError(OSError):
    """As smbprotocol's: it has the number of Python's error, and is not of its class."""

    ntstatus = 0xC0000034


class SmbStore(LocalFileSystem):  # type: ignore[misc]
    """As fsspec's: its library raises such errors for each call."""

    protocol = "share"  # by its own name, pathlib's imitation asks for smbprotocol
    cachable = False

    def info(self, path: str, **_: Any) -> Any:
        return self._asked(super().info, path)

    def ls(self, path: str, detail: bool = False, **_: Any) -> Any:
        return self._asked(lambda folder: [self.info(name.path) for name in os.scandir(folder)], path)

    def rm_file(self, path: str) -> None:
        self._asked(super().rm_file, path)

    def _open(self, path: str, mode: str = "rb", **how: Any) -> Any:
        return self._asked(super()._open, path, mode=mode)

    def _asked(self, call: Callable[..., Any], path: str, **how: Any) -> Any:
        try:
            return call(path, **how)
        except OSError as exc:
            raise SmbError(exc.errno, exc.strerror, path) from exc


def test_what_is_absent_on_smb_is_absent(tmp_path: Path) -> None:
    """Nothing could be read or planned there: what was not there yet was an error of the storage."""
    register_implementation("share", SmbStore, clobber=True)
    attach(protocol="share", conn_id="smb", fs=SmbStore())
    base = ObjectStoragePath(f"share://smb@{tmp_path}/groups")
    assert (read_file(base / "prod" / "1.json"), list_names(base / "prod")) == (None, [])
    remove_file(base / "prod" / "1.json")
    remove_folder(base / "prod")
    create_file(base / "prod" / "1.json", b"one")
    assert (read_file(base / "prod" / "1.json", 1, 2), list_names(base / "prod")) == (b"n", ["1.json"])
    create_file(base / "README", b"")
    assert list(other_folders(Layout(base, "prod"))) == []
    assert read_file(base / "STOP") is None


def test_what_could_not_be_written_completely_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = sftp_store(tmp_path)

    class Full:
        def __init__(self, *_: object) -> None:
            (tmp_path / "1.json").touch()

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, data: bytes) -> None:
            (tmp_path / "1.json").write_bytes(data[:1])
            raise OSError("no space left")

    monkeypatch.setattr(type(base.fs), "open", Full)
    with pytest.raises(StorageError, match="no space left"):
        create_file(base / "1.json", b"0123456789")
    monkeypatch.undo()
    assert read_file(base / "1.json") is None


def test_sftp_by_fsspecs_own_library_works_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of paramiko: a file can be written if it is opened by ``w``, and ``x`` is one condition more."""
    base = sftp_store(tmp_path)

    def open_file(_: object, path: str, mode: str) -> Any:
        file = Path(path).open(mode.replace("w", ""))  # noqa: SIM115 - as a library does
        return file if "w" in mode else io.BytesIO()

    monkeypatch.setattr(type(base.fs), "open", open_file)
    monkeypatch.setattr(type(base.fs), "ftp", "paramiko's", raising=False)
    create_file(base / "1.json", b"one")
    with pytest.raises(FileExistsAlreadyError):
        create_file(base / "1.json", b"two")
    assert (tmp_path / "1.json").read_bytes() == b"one"


class LateFile(io.BytesIO):
    """As of webdav4, and of fsspec's own buffered files: it is written when it is closed, whatever is there then."""

    def __init__(self, path: str, *, looks_again: bool) -> None:
        super().__init__()
        self._path, self._looks_again = Path(path), looks_again

    def close(self) -> None:
        """Write what is in it, unless it is closed."""
        if not self.closed:
            if self._looks_again and self._path.exists():
                super().close()
                raise FileExistsError(str(self._path))
            self._path.write_bytes(self.getvalue())
        super().close()

    def discard(self) -> None:
        """Write nothing."""
        super().close()


def test_a_library_that_looks_for_a_file_first_and_writes_it_later_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try to replace a file is refused there, but of two runs that begin at once, both find none."""
    base = sftp_store(tmp_path)
    monkeypatch.setattr(type(base.fs), "open", lambda _, path, mode: LateFile(path, looks_again=False))
    with pytest.raises(StorageError, match=r"so that nothing is replaced: .*writes it later.*Use a storage with excl"):
        create_file(base / "1.json", b"one")
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_another_writer_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = sftp_store(tmp_path)
    (tmp_path / "1.json").write_bytes(b"another's")
    with monkeypatch.context() as patched:
        patched.setattr(type(base.fs), "open", lambda _, path, mode: LateFile(path, looks_again=True))
        with pytest.raises(StorageError):
            create_file(base / "1.json", b"mine")
    assert (tmp_path / "1.json").read_bytes() == b"another's"


class ConditionalStore(LocalFileSystem):  # type: ignore[misc]
    """As of s3fs: it has the condition in one request, and writes a file that is opened when it is closed."""

    protocol = "conditional"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        with Path(path).open("xb" if mode == "create" else "wb") as file:
            file.write(value)

    def _open(self, path: str, mode: str = "rb", **how: Any) -> Any:
        return super()._open(path, mode, **how) if mode == "rb" else LateFile(path, looks_again=True)


def test_a_folder_of_a_storage_creates_as_the_storage_does(tmp_path: Path) -> None:
    """That of fsspec passes the condition on, and does not have it among its own arguments."""
    store = DirFileSystem(str(tmp_path), ConditionalStore())
    attach(protocol="dir", conn_id="folder", fs=store)
    path = ObjectStoragePath("dir://folder@/1.json")
    create_file(path, b"one")
    with pytest.raises(FileExistsAlreadyError):
        create_file(path, b"two")
    assert (tmp_path / "1.json").read_bytes() == b"one"


def test_a_file_of_which_nobody_knows_the_writer_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = sftp_store(tmp_path)

    def come_first(_: Any, path: str) -> None:
        Path(path).write_bytes(b"another's")
        raise TimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(base.fs), "open", lambda _, path, mode: LateFile(path, looks_again=False))
        patched.setattr(type(base.fs), "info", come_first)
        with pytest.raises(StorageError, match="no answer"):
            create_file(base / "1.json", b"mine")
    gc.collect()
    assert (tmp_path / "1.json").read_bytes() == b"another's"


@pytest.mark.parametrize("library", ["ftp", "_pool"], ids=["paramiko", "sshfs"])
def test_a_file_that_an_sftp_server_created_for_this_writer_does_not_stay_there_empty(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server opens no file of another's by ``x``. An entry of the journal without content stops every plan."""
    base, fail = sftp_store(tmp_path), Mock(side_effect=TimeoutError("no answer"))
    with monkeypatch.context() as patched:
        patched.setattr(type(base.fs), library, None if library == "ftp" else object(), raising=False)
        patched.setattr(type(base.fs), "open", lambda _, path, mode: open(path, mode.replace("w", "")))  # noqa: SIM115
        patched.setattr(type(base.fs), "info", fail)
        with pytest.raises(StorageError, match="no answer"):
            create_file(base / "1.json", b"mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("unsupported mode 'xb'"), NotImplementedError("File mode")])
def test_a_library_that_cannot_create_exclusively_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As of HDFS."""
    base = sftp_store(tmp_path)

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(base.fs), "open", refuse)
    with pytest.raises(StorageError, match=r"cannot be created so that nothing is replaced: .*Use a storage with excl"):
        create_file(base / "1.json", b"one")
    assert list(tmp_path.iterdir()) == []
