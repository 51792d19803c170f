"""Local disks on which other programs write and delete meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_kafka_groups.storage import job_files as local_disk

pytestmark = pytest.mark.safety


def test_a_file_that_is_deleted_while_its_folder_is_listed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop passes it over, too: a pruning, or another snapshot's temporary file, must not stop a judgement."""
    folder = tmp_path / "data" / "snapshot"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / name).write_text("12345")
    listed = local_disk._entries

    def meanwhile(there: Path) -> list[os.DirEntry[str]]:
        found = listed(there)
        if there == folder:
            (folder / "a").unlink()
        return found

    monkeypatch.setattr(local_disk, "_entries", meanwhile)
    assert local_disk.files_below(tmp_path / "data") == {("snapshot", "b"): 5}


def test_a_file_that_is_not_replaced_keeps_its_checksum(tmp_path: Path) -> None:
    there, checksum = tmp_path / "x", tmp_path / ".x.crc"
    there.write_text("theirs")
    checksum.write_text("of theirs")
    with pytest.raises(FileExistsError):
        local_disk.write(there, b"mine", replace=False)
    assert (there.read_text(), checksum.read_text()) == ("theirs", "of theirs")
