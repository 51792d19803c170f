"""The record of a deletion: there before the first group is touched, and heeded by every later run and plan."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from airflow_kafka_groups.exceptions import GroupsFailedError, JournalError, StorageError
from airflow_kafka_groups.ledger.deletion_plan import find_in_plan
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.storage.file_storage import FILES
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.records import records
from tests.unit.operators.scene import Planned, Site


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


@pytest.mark.safety
@pytest.mark.parametrize("by", ["plan", "name"])
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.promise(4)
def test_a_run_that_is_interrupted_leaves_what_it_was_about_to_delete(
    site: Site, backed_up: Planned, by: str, gone: bool
) -> None:
    """Whether the process dies before or after the brokers have deleted: it cannot be known, so it counts as done."""
    real = site.admin.delete_consumer_groups

    async def killed(group_ids: Any, **_: Any) -> Any:
        if gone:
            await real(group_ids)
        raise KeyboardInterrupt

    site.patch.setattr(site.admin, "delete_consumer_groups", killed)
    with pytest.raises(KeyboardInterrupt):
        site.apply(backed_up) if by == "plan" else site.delete(group_ids=["a", "b"])
    (record,) = records(site.storage)
    assert {item["group_id"]: (item["outcome"], item["code"]) for item in record["outcomes"]} == {
        "a": ("unknown", "possibly_deleted"),
        "b": ("unknown", "possibly_deleted"),
    }
    assert "interrupted" in record["warnings"][0]


@pytest.mark.safety
@pytest.mark.promise(3)
def test_a_run_that_cannot_be_recorded_deletes_nothing(site: Site, backed_up: Planned) -> None:
    site.patch.setattr(FILES, "create", Mock(side_effect=StorageError("no space left on device")))
    with pytest.raises(StorageError, match="no space left"):
        site.apply(backed_up)
    assert site.admin.deleted == []


@pytest.mark.safety
@pytest.mark.parametrize("restored_as", ["", "consumer"])
@pytest.mark.promise(5)
def test_what_a_plan_has_deleted_it_does_not_delete_again(site: Site, backed_up: Planned, restored_as: str) -> None:
    """Somebody needed the group and restored it, and the task is cleared: it looks just as it did when it was judged.

    A group that was restored stands without members until its consumer is back, with the very offsets of the plan.
    """
    site.apply(backed_up)
    site.admin.groups["a"] = FakeGroup(protocol_type=restored_as)
    done = site.apply(backed_up)
    assert (site.admin.deleted, list(site.admin.groups)) == (["a", "b"], ["live", "a"])
    assert (done["counts"]["kept"], done["counts"]["gone"]) == (1, 1)
    assert "only a new plan may judge it again" in done["kept"]["a"]
    assert done["kept_reasons"] == {"deleted_before": 1}


@pytest.mark.safety
@pytest.mark.promise(5)
def test_what_was_deleted_and_restored_is_watched_anew_before_another_plan_has_it(
    site: Site, backed_up: Planned
) -> None:
    """Between two snapshots nobody sees that it was away: its history says that it never moved."""
    site.apply(backed_up)
    site.admin.groups["a"] = FakeGroup()
    snapshot_id = site.take_snapshot()
    site.judge(snapshot_id, stale={"a", "live"})
    again = site.plan(snapshot_id=snapshot_id, max_share=1)
    assert [group["group_id"] for group in again["first_groups"]] == ["live"]
    kept = find_in_plan(site.layout, again["plan_id"], "a")
    assert isinstance(kept, KeptGroup)
    assert kept.verdict == "doubt"
    assert "deleted it at" in kept.reason


def test_a_dry_run_before_does_not_keep_anything(site: Site, backed_up: Planned) -> None:
    site.apply(backed_up, dry_run=True)
    assert site.apply(backed_up)["counts"]["deleted"] == 2


def test_a_record_that_cannot_be_read_deletes_nothing(site: Site, backed_up: Planned) -> None:
    done = site.apply(backed_up, dry_run=True)
    Path(done["audit_path"]).write_text("{")
    with pytest.raises(JournalError, match="damaged"):
        site.apply(backed_up)
    assert site.admin.deleted == []


@pytest.mark.safety
@pytest.mark.promise(3)
def test_when_the_storage_fails_after_a_deletion_the_log_has_the_outcomes_and_the_journal_the_intent(
    site: Site, backed_up: Planned, capsys: pytest.CaptureFixture[str]
) -> None:
    real = site.admin.delete_consumer_groups

    async def storage_fails(group_ids: Any, **_: Any) -> Any:
        site.patch.setattr(FILES, "create", Mock(side_effect=StorageError("no space left on device")))
        return await real(group_ids)

    site.patch.setattr(site.admin, "delete_consumer_groups", storage_fails)
    with pytest.raises(StorageError, match="no space left"):
        site.apply(backed_up)
    said = capsys.readouterr().out
    assert "could not be written" in said
    assert '{"group_id": "b", "outcome": "deleted"' in said
    (record,) = records(site.storage)
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "unknown", "b": "unknown"}


@pytest.mark.safety
@pytest.mark.promise(5)
def test_a_task_that_names_groups_deletes_none_twice_when_it_is_cleared(site: Site) -> None:
    task = DeleteGroupsOperator(task_id="t", **site.stored, group_ids=["a"], observe_seconds=0.01)
    context: Any = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1, try_number=1), "run_id": "r"}
    assert task.execute(context)["counts"]["deleted"] == 1
    site.admin.groups["a"] = FakeGroup()
    with pytest.raises(GroupsFailedError, match="'a'"):
        task.execute(context)
    assert "a" in site.admin.groups
    with pytest.raises(GroupsFailedError, match=r"deleted it at .*, less than 1d ago"):
        task.execute(context | {"run_id": "another"})
    task.ignore_signs_of_life = True
    assert task.execute(context | {"run_id": "another"})["counts"]["deleted"] == 1
