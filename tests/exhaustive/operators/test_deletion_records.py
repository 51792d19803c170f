"""The record of a deletion: there before the first group is touched, and heeded by every later run and plan."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import GroupsFailedError, JournalError, StorageError
from airflow_kafka_groups.ledger.deletion_plan import find_in_plan
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.records import records
from tests.unit.operators import scene
from tests.unit.operators.scene import apply, delete


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


@pytest.mark.safety
@pytest.mark.parametrize("by", ["plan", "name"])
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.promise(4)
def test_a_run_that_is_interrupted_leaves_what_it_was_about_to_delete(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, gone: bool
) -> None:
    """Whether the process dies before or after the brokers have deleted: it cannot be known, so it counts as done."""
    real = admin.delete_consumer_groups

    async def killed(group_ids: Any, **_: Any) -> Any:
        if gone:
            await real(group_ids)
        raise KeyboardInterrupt

    monkeypatch.setattr(admin, "delete_consumer_groups", killed)
    with pytest.raises(KeyboardInterrupt):
        apply(tmp_path, backed_up) if by == "plan" else delete(tmp_path, group_ids=["a", "b"])
    (record,) = records(tmp_path)
    assert {item["group_id"]: (item["outcome"], item["code"]) for item in record["outcomes"]} == {
        "a": ("unknown", "possibly_deleted"),
        "b": ("unknown", "possibly_deleted"),
    }
    assert "interrupted" in record["warnings"][0]


@pytest.mark.safety
@pytest.mark.promise(3)
def test_a_run_that_cannot_be_recorded_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise StorageError("no space left on device")

    monkeypatch.setattr(FILES, "create", full)
    with pytest.raises(StorageError, match="no space left"):
        apply(tmp_path, backed_up)
    assert admin.deleted == []


@pytest.mark.safety
@pytest.mark.parametrize("restored_as", ["", "consumer"])
@pytest.mark.promise(5)
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
    assert "only a new plan may judge it again" in done["kept"]["a"]
    assert done["kept_reasons"] == {"deleted_before": 1}


@pytest.mark.safety
@pytest.mark.promise(5)
def test_what_was_deleted_and_restored_is_watched_anew_before_another_plan_has_it(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    """Between two snapshots nobody sees that it was away: its history says that it never moved."""
    apply(tmp_path, backed_up)
    admin.groups["a"] = FakeGroup()
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "live"})
    again = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)
    assert [group["group_id"] for group in again["first_groups"]] == ["live"]
    kept = find_in_plan(Layout(tmp_path, scene.CLUSTER), again["plan_id"], "a")
    assert isinstance(kept, KeptGroup)
    assert kept.verdict == "doubt"
    assert "deleted it at" in kept.reason


def test_a_dry_run_before_does_not_keep_anything(admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path) -> None:
    apply(tmp_path, backed_up, dry_run=True)
    assert apply(tmp_path, backed_up)["counts"]["deleted"] == 2


def test_a_record_that_cannot_be_read_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    done = apply(tmp_path, backed_up, dry_run=True)
    Path(done["audit_path"]).write_text("{")
    with pytest.raises(JournalError, match="damaged"):
        apply(tmp_path, backed_up)
    assert admin.deleted == []


@pytest.mark.safety
@pytest.mark.promise(3)
def test_when_the_storage_fails_after_a_deletion_the_log_has_the_outcomes_and_the_journal_the_intent(
    admin: FakeAdmin,
    backed_up: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = admin.delete_consumer_groups

    def full(*_: Any, **__: Any) -> Any:
        raise StorageError("no space left on device")

    async def storage_fails(group_ids: Any, **_: Any) -> Any:
        monkeypatch.setattr(FILES, "create", full)
        return await real(group_ids)

    monkeypatch.setattr(admin, "delete_consumer_groups", storage_fails)
    with pytest.raises(StorageError, match="no space left"):
        apply(tmp_path, backed_up)
    said = capsys.readouterr().out
    assert "could not be written" in said
    assert '{"group_id": "b", "outcome": "deleted"' in said
    (record,) = records(tmp_path)
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "unknown", "b": "unknown"}


@pytest.mark.safety
@pytest.mark.promise(5)
def test_a_task_that_names_groups_deletes_none_twice_when_it_is_cleared(admin: FakeAdmin, tmp_path: Path) -> None:
    task = DeleteGroupsOperator(
        task_id="t", storage_path=str(tmp_path), cluster=scene.CLUSTER, group_ids=["a"], observe_seconds=0.01
    )
    context: Any = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1, try_number=1), "run_id": "r"}
    assert task.execute(context)["counts"]["deleted"] == 1
    admin.groups["a"] = FakeGroup()
    with pytest.raises(GroupsFailedError, match="'a'"):
        task.execute(context)
    assert "a" in admin.groups
    with pytest.raises(GroupsFailedError, match=r"deleted it at .*, less than 1d ago"):
        task.execute(context | {"run_id": "another"})
    task.ignore_signs_of_life = True
    assert task.execute(context | {"run_id": "another"})["counts"]["deleted"] == 1
