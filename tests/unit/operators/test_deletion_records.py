"""The record of a deletion: there before the first group is touched, and heeded by every later run and plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.scene import apply, audits, delete


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


def test_an_interrupted_run_records_what_it_had_done(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = admin.delete_consumer_groups

    async def killed(group_ids: Any, **_: Any) -> Any:
        await real(group_ids)
        raise KeyboardInterrupt

    monkeypatch.setattr(admin, "delete_consumer_groups", killed)
    with pytest.raises(KeyboardInterrupt):
        apply(tmp_path, backed_up)
    (record,) = audits(tmp_path)
    assert {item["outcome"] for item in record["outcomes"]} == {"unknown"}
    assert "interrupted" in record["warnings"][0]


@pytest.mark.safety
@pytest.mark.parametrize("by", ["plan", "name"])
def test_a_run_that_is_killed_outright_leaves_a_record_behind(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Nothing can be written after a SIGKILL: what is on storage while the first group is deleted is what is left."""
    real, left = admin.delete_consumer_groups, []

    async def watched(group_ids: Any, **kwargs: Any) -> Any:
        left.extend(audits(tmp_path))
        return await real(group_ids, **kwargs)

    monkeypatch.setattr(admin, "delete_consumer_groups", watched)
    done = apply(tmp_path, backed_up) if by == "plan" else delete(tmp_path, group_ids=["a", "b"])
    (begun,) = left
    assert {item["group_id"]: (item["outcome"], item["code"]) for item in begun["outcomes"]} == {
        "a": ("unknown", "begun"),
        "b": ("unknown", "begun"),
    }
    (record,) = audits(tmp_path)
    assert record["run_id"] == begun["run_id"]
    assert record["counts"]["deleted"] == done["counts"]["deleted"] == 2


@pytest.mark.safety
def test_a_run_that_cannot_be_recorded_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("airflow_kafka_groups.maintenance.deletion.audit.write_json", full)
    with pytest.raises(OSError, match="No space left"):
        apply(tmp_path, backed_up)
    assert admin.deleted == []


def test_a_second_run_of_the_same_plan_finds_the_groups_gone(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    apply(tmp_path, backed_up)
    assert apply(tmp_path, backed_up)["counts"]["gone"] == 2
    assert len(audits(tmp_path)) == 2


@pytest.mark.safety
@pytest.mark.parametrize("restored_as", ["", "consumer"])
def test_what_a_plan_has_deleted_it_does_not_delete_again(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, restored_as: str
) -> None:
    """Somebody needed the group and restored it, and the task is cleared: it looks just as it did when it was judged.

    A group that was restored stands without members until its consumer is back, with the very offsets of the plan.
    """
    apply(tmp_path, backed_up)
    admin.groups["a"] = FakeGroup(protocol_type=restored_as)
    done = apply(tmp_path, backed_up)
    assert (admin.deleted, list(admin.groups)) == (["a", "b"], ["live", "a"])
    assert (done["counts"]["kept"], done["counts"]["gone"]) == (1, 1)
    assert "is there again" in done["kept"]["a"]
    assert done["kept_reasons"] == {"deleted_before": 1}


@pytest.mark.safety
def test_what_was_deleted_and_restored_is_watched_anew_before_another_plan_has_it(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    """Between two snapshots nobody sees that it was away: its history says that it never moved."""
    apply(tmp_path, backed_up)
    admin.groups["a"] = FakeGroup()
    admin.groups["c"] = FakeGroup()
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "c"})
    again = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    assert [group["group_id"] for group in again["first_groups"]] == ["c"]
    kept = {group["group_id"]: group for group in json.loads(Path(again["plan_path"]).read_text())["kept"]}
    assert kept["a"]["verdict"] == "doubt"
    assert "was deleted" in kept["a"]["reason"]


def test_what_was_deleted_long_ago_is_a_group_like_any_other(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    (path,) = [Path(apply(tmp_path, backed_up)["audit_path"])]
    long_ago = "20250101T000000Z"
    record = {**json.loads(path.read_text()), "finished_at": "2025-01-01T00:00:00+00:00"}
    path.with_name(f"{path.name[:26]}{long_ago}-{path.name[-13:]}").write_text(json.dumps(record))
    path.unlink()
    admin.groups["a"] = FakeGroup()
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a"})
    assert scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)["counts"]["planned"] == 1


def test_a_dry_run_before_does_not_keep_anything(admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path) -> None:
    apply(tmp_path, backed_up, dry_run=True)
    assert apply(tmp_path, backed_up)["counts"]["deleted"] == 2


def test_a_record_that_cannot_be_read_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    done = apply(tmp_path, backed_up, dry_run=True)
    Path(done["audit_path"]).write_text("{")
    with pytest.raises(MaintenanceError, match="record"):
        apply(tmp_path, backed_up)
    assert admin.deleted == []


def test_when_the_record_cannot_be_written_the_log_has_it(
    admin: FakeAdmin,
    backed_up: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = admin.delete_consumer_groups

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device", "audit")

    async def storage_fails(group_ids: Any, **_: Any) -> Any:
        monkeypatch.setattr("airflow_kafka_groups.maintenance.deletion.audit.write_json", full)
        return await real(group_ids)

    monkeypatch.setattr(admin, "delete_consumer_groups", storage_fails)
    with pytest.raises(OSError, match="audit"):
        apply(tmp_path, backed_up)
    said = capsys.readouterr().out
    assert "could not be written" in said
    assert '{"group_id": "b", "outcome": "deleted"' in said
