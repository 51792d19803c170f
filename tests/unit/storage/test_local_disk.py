"""Local disks on which other programs write and delete meanwhile."""

import os
from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.storage import disk
from airflow_kafka_groups.storage.file_storage import LocalStorage
from tests.fakes.network_folder import NetworkFolder

pytestmark = pytest.mark.safety


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


def test_a_file_that_is_not_replaced_keeps_its_checksum(tmp_path: Path) -> None:
    there, checksum = tmp_path / "x", tmp_path / ".x.crc"
    there.write_text("theirs")
    checksum.write_text("of theirs")
    with pytest.raises(StorageError, match="exists with other content"):
        LocalStorage().create(str(there), b"mine")
    assert (there.read_text(), checksum.read_text()) == ("theirs", "of theirs")
