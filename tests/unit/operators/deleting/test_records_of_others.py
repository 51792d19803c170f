"""Records in ``changes/`` that are of no earlier try of the task: damaged, half written, or in folders of others."""

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError, StorageError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.storage.file_storage import FILES, READERS
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.deleting.test_reset_again import positions, shift
from tests.unit.operators.scene import context

T0 = TopicPartition("t", 0)
pytestmark = pytest.mark.safety


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}


def put(storage: Path, content: bytes, cluster: str = scene.CLUSTER, kind: str = "", number: int = 1) -> Path:
    folder = storage / cluster / "changes"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{number:08}-{kind}before.json"
    path.write_bytes(content)
    return path


def of_another_task(storage: Path) -> bytes:
    """Return what another task recorded, and remove it."""
    shift(storage, 0, context("another"))
    (path,) = (storage / scene.CLUSTER / "changes").glob("*-before.json")
    content = path.read_bytes()
    path.unlink()
    return content


@pytest.mark.parametrize("kind", ["", "restore-"])
def test_what_a_killed_task_left_half_written_stops_no_other_task(tmp_path: Path, admin: FakeAdmin, kind: str) -> None:
    """On a disk without hard links a file is there before all of it is."""
    whole = of_another_task(tmp_path)
    put(tmp_path, whole[:-20], kind=kind)
    assert shift(tmp_path)["counts"]["changed"] == 2
    put(tmp_path, b"", kind=kind)
    assert shift(tmp_path)["counts"]["unchanged"] == 2
    assert positions(admin) == [{T0: 6}, {T0: 5}]


def test_what_nobody_can_tell_whose_it_is_is_named_with_its_remedy(tmp_path: Path) -> None:
    path = put(tmp_path, b"{")
    with pytest.raises(MaintenanceError, match=rf"{path.name} is damaged .*\. Restore it from a copy, or remove it"):
        shift(tmp_path)


def test_a_damaged_record_of_another_cluster_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = put(tmp_path, b"{", "another")
    with caplog.at_level(logging.WARNING):
        assert shift(tmp_path)["counts"]["changed"] == 2
    assert f"{path} is damaged" in caplog.text


@pytest.mark.parametrize("is_denied", [True, False])
@pytest.mark.parametrize("of_folder", [True, False], ids=["folder", "record"])
def test_what_this_user_may_not_read_of_another_cluster_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_denied: bool, of_folder: bool
) -> None:
    """A storage that fails is no such case: there may be the first try of the task."""
    path = put(tmp_path, b"{}", "another")
    error = PermissionError(13, "denied") if is_denied else OSError(5, "broken")
    scandir, read = os.scandir, Path.read_bytes

    def listed(self: Any) -> Any:
        if of_folder and self == path.parent:
            raise error
        return scandir(self)

    def read_bytes(self: Path) -> bytes:
        if self == path:
            raise error
        return read(self)

    monkeypatch.setattr(os, "scandir", listed)
    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    if is_denied:
        assert shift(tmp_path)["counts"]["changed"] == 2
    else:
        with pytest.raises(StorageError, match="broken"):
            shift(tmp_path)


def test_records_are_read_several_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is mapped over a thousand groups reads a thousand records each time: they meet here."""
    content = of_another_task(tmp_path)
    meeting, read = Barrier(READERS), Path.read_bytes
    paths = [put(tmp_path, content, number=number) for number in range(2 * READERS)]

    def met(self: Path) -> bytes:
        if self in paths:
            meeting.wait(timeout=5)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", met)
    assert shift(tmp_path)["counts"]["changed"] == 2


def test_a_record_that_is_pruned_meanwhile_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, json.dumps({"format": 1, "what": "reset", "groups": []}).encode())
    read = Path.read_bytes

    def pruned(self: Path) -> bytes:
        path.unlink(missing_ok=True)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", pruned)
    assert FILES.names(path.parent) == [path.name]
    assert shift(tmp_path)["counts"]["changed"] == 2
