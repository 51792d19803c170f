"""Snapshots on a disk that becomes full, and in folders with files of other people."""

import errno
import shutil
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.hooks.retries import is_final
from airflow_kafka_groups.observe.snapshot import table
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.members import last_members
from airflow_kafka_groups.observe.snapshot.reader import latest_manifest, snapshot_ids
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import NOW, Ticking
from tests.unit.change.scene import layout_in, snapshot

COPIES = ["README.json", "{} copy.json", "{}.bak.json", "{} (1).json", "0-notes.json"]


@pytest.mark.parametrize("name", COPIES)
async def test_a_file_of_somebody_else_among_the_manifests_is_no_snapshot(tmp_path: Path, name: str) -> None:
    """Whoever edits a manifest copies it first. The jobs leave such a file out, and so does pruning."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("g", ("t", 0, 1))
    first = (await snapshot(admin, layout)).manifest.snapshot_id
    manifest = Path(str(layout.manifest(first)))
    copy = manifest.with_name(name.format(first))
    shutil.copy(manifest, copy)
    second = (await take_snapshot(admin, layout, now=Ticking(NOW + timedelta(hours=1)))).snapshot_id
    assert last_members(layout, ["g"], await admin.cluster_id()) == {}
    assert latest_manifest(layout).snapshot_id == second
    assert snapshot_ids(layout) == [first, second]
    assert copy.exists()


async def test_a_snapshot_that_does_not_fit_leaves_nothing_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left would fill the disk for good: a running deletion could not write its journal any more."""

    def fill(file: IO[bytes], *_: Any) -> int:
        file.write(b"some of the rows")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(table, "write_parquet", fill)
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("g", ("t", 0, 1))
    with pytest.raises(StorageError, match="No space left"):
        await snapshot(admin, layout)
    assert names_in(tmp_path / "prod" / "data") == []


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*")]


async def test_a_storage_that_does_not_give_a_manifest_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What s3fs makes of a 503, and a disk of EIO, is an OSError: it was taken for a file that is not fit for good."""
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("g", ("t", 0, 1))
    await snapshot(admin, layout)

    def fail(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(StorageError, match="Input/output error") as caught:
        latest_manifest(layout)
    assert not is_final(caught.value), "Airflow retries it"
