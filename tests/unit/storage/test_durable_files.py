"""Files are created once, whatever goes wrong, and only "not found" reads as absent."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import FileExistsAlreadyError, StorageError
from airflow_kafka_groups.storage import disk
from airflow_kafka_groups.storage.file_storage import FILES, LocalStorage
from tests.fakes.network_folder import NetworkFolder
from tests.fakes.refusing_path import BotoError, path_in
from tests.histories.judged import judge, write_hour
from tests.histories.lake import CLUSTER
from tests.histories.shorthand import snapshot_id


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a" / "b"


def test_a_file_is_created_once_and_never_replaced(folder: Any) -> None:
    assert FILES.read(folder / "one") is None
    FILES.create(folder / "one", b"first")
    FILES.create(folder / "one", b"first")  # the answer of the first try was lost
    with pytest.raises(FileExistsAlreadyError, match="never overwritten"):
        FILES.create(folder / "one", b"second")
    assert FILES.read(folder / "one") == b"first"
    assert FILES.names(folder) == ["one"], "no temporary file is left"


def test_of_many_writers_exactly_one_succeeds(tmp_path: Path) -> None:
    won: list[int] = []

    def write(number: int) -> None:
        try:
            FILES.create(tmp_path / "contested", f"{number}".encode())
        except FileExistsAlreadyError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert FILES.read(tmp_path / "contested") == f"{won[0]}".encode()


def test_a_missing_folder_lists_as_empty_and_any_other_error_does_not(tmp_path: Path) -> None:
    assert FILES.names(tmp_path / "nothing") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="could not be listed: NotADirectoryError"):
        FILES.names(tmp_path / "file")
    with pytest.raises(StorageError, match="could not be read: IsADirectoryError"):
        FILES.read(tmp_path)


def test_what_another_machine_has_created_on_nfs_is_there_also_where_it_was_absent_a_moment_ago(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An absence is remembered for up to a minute: of the switch STOP, of a later run, of the record of a restore."""
    FILES.create(folder / "new" / "one", b"x")
    mount, local = NetworkFolder(monkeypatch), folder
    for hidden in ({local / "new" / "one"}, {local / "new", local / "new" / "one"}):
        mount.hidden = set(hidden)
        assert FILES.read(folder / "new" / "one") == b"x"
        mount.hidden = set(hidden)
        assert FILES.names(folder / "new") == ["one"]
        mount.hidden = set(hidden)
        assert FILES.list(folder / "new") == {"one": {False}}
    assert FILES.read(folder / "two") is None
    assert FILES.read(folder / "three" / "four" / "five") is None


@pytest.mark.promise(3)
def test_the_file_and_its_folders_are_fsynced_before_the_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    FILES.create(tmp_path / "new" / "file", b"x")
    assert synced[0] == str(tmp_path), "the new folder's name"
    assert ".file." in synced[1], "the content, before it has its name"
    assert synced[2] == str(tmp_path / "new"), "the name"
    synced.clear()
    FILES.sync(tmp_path / "new" / "file")
    assert synced == [str(tmp_path / "new" / "file"), str(tmp_path / "new")]
    synced.clear()
    FILES.create(tmp_path / "new" / "file", b"x")
    assert synced[-2:] == [str(tmp_path / "new" / "file"), str(tmp_path / "new")], "an earlier try may have died first"


def test_a_share_that_cannot_sync_folders_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    for write in (FILES.replace, FILES.create):
        with pytest.raises(StorageError, match="Invalid argument"):
            write(tmp_path / "intent", b"x")


def test_a_disk_without_hard_links_is_refused(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, a killed process could leave a torn entry, which would have its number for good."""

    def refused(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    FILES.create(folder / "before", b"x")
    monkeypatch.setattr("os.link", refused)
    with pytest.raises(StorageError, match=r"one cannot be created exclusively .*with hard links"):
        FILES.create(folder / "one", b"all of it")
    assert FILES.names(folder) == ["before"]


class Store:
    """A file system of fsspec's shape that fails as it is told."""

    protocol = ("s3", "s3a")

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fails: Exception | None = None
        self.after: Exception | None = None
        self.hidden: set[str] = set()

    def _ask(self) -> None:
        if self.fails is not None:
            raise self.fails

    def pipe_file(self, key: str, data: bytes, mode: str) -> None:
        assert mode == "create"
        self._ask()
        if key in self.files:
            raise FileExistsError(key)
        self.files[key] = data
        if self.after is not None:
            raise self.after

    def cat_file(self, key: str, start: int | None = None) -> bytes:
        assert start == 0, "s3fs asks for the size first, and the answer to that cannot say what is missing"
        self._ask()
        if key not in self.files:
            raise FileNotFoundError(key)
        return self.files[key]

    def invalidate_cache(self, key: str) -> None:
        self.hidden.clear()

    def ls(self, key: str, detail: bool) -> list[dict[str, str]]:
        assert detail
        self._ask()
        found = {f"{key}/{name[len(key) + 1 :].split('/')[0]}" for name in self.files if name.startswith(f"{key}/")}
        return [{"name": name, "type": "file"} for name in (key, *sorted(found - self.hidden))]


def test_an_object_store_is_asked_for_an_exclusive_create() -> None:
    store = Store()
    folder = path_in(store)
    FILES.create(folder / "one", b"first")
    with pytest.raises(FileExistsAlreadyError):
        FILES.create(folder / "one", b"second")
    FILES.create(folder / "sub" / "two", b"2")
    store.hidden = {"bucket/groups/one"}
    assert FILES.names(folder) == ["one", "sub"], "the listing cache was dropped"


@pytest.mark.parametrize("error", [BotoError("AccessDenied"), PermissionError("no"), OSError("reset"), KeyError("x")])
@pytest.mark.promise(10)
def test_every_error_of_the_storage_is_a_storage_error_and_never_absence(error: Exception) -> None:
    store = Store()
    store.fails = error
    folder = path_in(store)
    for ask in (lambda: FILES.read(folder / "x"), lambda: FILES.names(folder), lambda: FILES.create(folder / "x", b"")):
        with pytest.raises(StorageError, match=r"s3://bucket/groups.*" + type(error).__name__):
            ask()


def test_a_client_that_drops_the_condition_creates_nothing() -> None:
    """s3fs before 2024.12 took ``mode`` for an argument of S3, which has none, and replaced what was there."""

    class Former(Store):
        async def _pipe_file(self, path: str, data: bytes, chunksize: int = 1, **kwargs: Any) -> None:
            raise AssertionError("called by pipe_file")

    store = Former()
    with pytest.raises(StorageError, match=r"install s3fs 2024\.12 or newer"):
        FILES.create(path_in(store) / "x", b"mine")
    assert store.files == {}


def test_a_file_whose_creation_was_answered_by_an_error_is_not_taken_as_created() -> None:
    store = Store()
    store.after = BotoError("connection reset")
    folder = path_in(store)
    with pytest.raises(StorageError, match="connection reset"):
        FILES.create(folder / "x", b"mine")
    store.after = None
    FILES.create(folder / "x", b"mine")  # it is there after all, and it is this very content


def test_a_storage_that_returns_other_bytes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    folder = path_in(store)
    monkeypatch.setattr(Store, "cat_file", lambda self, key, start: b"other")
    with pytest.raises(StorageError, match="does not hold what was written"):
        FILES.create(folder / "x", b"mine")


def test_a_folder_that_is_yet_to_be_made_can_be_written(tmp_path: Path) -> None:
    FILES.require_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == [], "nothing is made"


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file is not a folder; choose another storage path"):
        FILES.require_writable(tmp_path / "file" / "prod")


def test_a_folder_in_which_this_user_may_create_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)  # root may create files everywhere
    with pytest.raises(StorageError, match=rf"this user may create nothing in {tmp_path};"):
        FILES.require_writable(tmp_path / "prod")


@pytest.mark.safety
def test_a_file_that_is_deleted_while_its_folder_is_listed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop passes it over, too: a pruning, or another snapshot's temporary file, must not stop a judgement."""
    folder = tmp_path / "data" / "snapshot"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / name).write_text("12345")
    listed = disk._entries

    def meanwhile(there: Path) -> list[os.DirEntry[str]]:
        found = listed(there)
        if there == folder:
            (folder / "a").unlink()
        return found

    monkeypatch.setattr(disk, "_entries", meanwhile)
    assert LocalStorage().sizes_below(f"{tmp_path}/data") == {("snapshot", "b"): 5}


@pytest.mark.safety
def test_what_another_machine_has_created_on_nfs_is_there_for_jobs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest that is taken for absent could be that of the only snapshot that shows a group in use."""
    folder, file = tmp_path / "new", tmp_path / "new" / "one"
    folder.mkdir()
    file.write_text("x")
    mount, storage = NetworkFolder(monkeypatch), LocalStorage()
    for look, expected in (
        (lambda: storage.read_text(str(file)), "x"),
        (lambda: storage.read(str(file)), b"x"),
        (lambda: storage.files(str(folder)), ["one"]),
        (lambda: storage.folders(str(tmp_path)), ["new"]),
    ):
        mount.hidden = {folder, file}
        assert look() == expected
    assert storage.read(f"{folder}/two") is None
    assert storage.files(f"{tmp_path}/three/four") == []


@pytest.mark.safety
def test_a_file_that_is_not_replaced_keeps_its_checksum(tmp_path: Path) -> None:
    there, checksum = tmp_path / "x", tmp_path / ".x.crc"
    there.write_text("theirs")
    checksum.write_text("of theirs")
    with pytest.raises(StorageError, match="exists with other content"):
        LocalStorage().create(str(there), b"mine")
    assert (there.read_text(), checksum.read_text()) == ("theirs", "of theirs")


@pytest.mark.safety
def test_an_entry_that_cannot_be_looked_at_is_not_passed_over(tmp_path: Path) -> None:
    """It may be the manifest of the only snapshot that shows a group in use."""
    for number in (0, 1):
        write_hour(tmp_path, number)
    manifest = tmp_path / CLUSTER / "manifests" / f"{snapshot_id(0)}.json"
    manifest.rename(tmp_path / "manifest")
    manifest.symlink_to(manifest.name)
    with pytest.raises(StorageError, match=r"manifests could not be listed: .*symbolic links"):
        judge(tmp_path)
