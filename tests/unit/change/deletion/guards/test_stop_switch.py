"""The stop switch: a file in the folder of the cluster or the storage, heeded before each request."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.guards.stop_switch import why_stopped
from airflow_kafka_groups.exceptions import ConfigurationError, StorageError
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.network_folder import NetworkFolder
from tests.unit.change.scene import backed_up, delete_plan, layout_in

pytestmark = pytest.mark.safety


def switch(folder: Path, content: bytes = b"") -> Path:
    path = folder / "prod" / "STOP"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_without_the_file_nothing_stops(tmp_path: Path) -> None:
    assert why_stopped(layout_in(tmp_path)) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "STOP; remove it"),
        (b"incident 4711\nmore", "(incident 4711)"),
        (b"\xff\x00" + b"x" * 9_999, "(\ufffd\\x00xxx"),
    ],
    ids=["empty", "a reason", "rubbish"],
)
def test_the_file_stops_whatever_is_in_it_and_its_first_line_is_shown(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = switch(tmp_path, content)
    why = why_stopped(layout_in(tmp_path)) or ""
    assert str(path) in why
    assert said in why
    assert len(why) < 500


def test_a_file_beside_the_folders_of_all_clusters_stops_each_of_them(tmp_path: Path) -> None:
    """A run may have another name for the cluster than whoever has to stop it."""
    (tmp_path / "STOP").write_bytes(b"incident 4711")
    assert f"somebody created {tmp_path / 'STOP'} (incident 4711)" in (why_stopped(layout_in(tmp_path)) or "")


def test_a_folder_of_that_name_is_somebody_s_wish_to_stop_and_no_cluster_s(tmp_path: Path) -> None:
    (tmp_path / "STOP").mkdir()
    assert "could not be read" in (why_stopped(layout_in(tmp_path)) or "")
    with pytest.raises(ConfigurationError, match="not 'STOP'"):
        Layout(tmp_path, "STOP")


def test_a_file_that_another_machine_has_just_created_on_nfs_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = NetworkFolder(monkeypatch)
    mount.hidden = {switch(tmp_path)}
    assert why_stopped(layout_in(tmp_path)) is not None


def test_a_storage_that_fails_stops_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Any) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr(FILES, "read", fail)
    assert "could not be read" in (why_stopped(layout_in(tmp_path)) or "")


async def test_a_deletion_stops_before_its_next_intent(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    for number, name in enumerate("abc"):
        admin.add(name, ("t", 0, number))
    plan, _ = await backed_up(admin, layout)

    def press(call: str) -> None:
        if call == "delete":
            switch(tmp_path, b"incident 4711")

    admin.before = press
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert report.counts["deleted"] == 1, "the request that was under way"
    assert report.kept_reasons == {"stopped": 2}
    assert "incident 4711" in report.warnings[0]
    admin.before = lambda call: None
    report = (await delete_plan(admin, layout, plan, chunk_size=1)).report
    assert (report.counts["deleted"], report.kept_reasons) == (0, {"stopped": 2}), "as long as the file is there"
    (tmp_path / "prod" / "STOP").unlink()
    assert (await delete_plan(admin, layout, plan)).report.counts["deleted"] == 2


async def test_a_dry_run_needs_no_switch(tmp_path: Path) -> None:
    admin, layout = FakeAdmin(), layout_in(tmp_path)
    admin.add("a", ("t", 0, 1))
    plan, _ = await backed_up(admin, layout)
    switch(tmp_path)
    assert (await delete_plan(admin, layout, plan, dry_run=True)).report.counts["would_delete"] == 1
