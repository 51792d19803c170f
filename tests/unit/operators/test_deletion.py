"""Whatever is in doubt is kept, the record is always written, and bad input deletes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BackupError,
    ConfigurationError,
    GroupsFailedError,
    IncompleteListingError,
    MaintenanceError,
    OutcomeUnknownError,
    PlanError,
    RequestTimeoutError,
)
from airflow_kafka_groups.models import GroupState, TopicPartition
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.sensors.deletion import DeleteGroupsSensor
from tests.unit.operators import scene
from tests.unit.operators.fake_admin import FakeAdmin, FakeGroup

CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a", "b"})
    return scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1)


@pytest.fixture
def backed_up(planned: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    scene.back_up(tmp_path, planned)
    return planned


def delete(storage: Path, **arguments: Any) -> dict[str, Any]:
    if "group_ids" in arguments:
        arguments.setdefault("observe_seconds", 0.01)
    return DeleteGroupsOperator(task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, **arguments).execute({})


def apply(storage: Path, planned: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return delete(storage, plan_id=planned["plan_id"], plan_digest=planned["digest"], **arguments)


def audits(storage: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((storage / scene.CLUSTER).glob("audit/*.json"))]


# By plan


def test_planned_groups_are_deleted_verified_and_recorded(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    done = apply(tmp_path, backed_up)
    assert sorted(admin.deleted) == ["a", "b"]
    assert done["counts"]["deleted"] == 2
    assert done["verification"] == {"gone": 2, "present": 0, "unclear": 0}
    (record,) = audits(tmp_path)
    assert Path(done["audit_path"]).is_file()
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "deleted", "b": "deleted"}
    assert json.loads(json.dumps(done)) == done
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({})


@pytest.mark.parametrize("dry_run", [True, "True", "true"])
def test_a_dry_run_deletes_nothing_and_says_what_it_would(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, dry_run: Any
) -> None:
    done = apply(tmp_path, backed_up, dry_run=dry_run)
    assert admin.deleted == []
    assert done["counts"]["would_delete"] == 2
    assert DeleteGroupsSensor(task_id="s", audit_path=done["audit_path"]).poke({}), "nothing to wait for"


@pytest.mark.parametrize("dry_run", ["", "no", "None", 1, None])
def test_a_dry_run_switch_that_is_unclear_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, dry_run: Any
) -> None:
    with pytest.raises(ConfigurationError, match="dry_run"):
        apply(tmp_path, backed_up, dry_run=dry_run)
    assert admin.deleted == []


@pytest.mark.parametrize("life", ["members", "state", "moved"])
def test_a_group_that_came_back_to_life_is_kept(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, life: str
) -> None:
    group = admin.groups["a"]
    if life == "members":
        group.members = 1
    elif life == "state":
        group.state = GroupState.STABLE
    else:
        group.offsets[TopicPartition("t", 0)] += 1
    done = apply(tmp_path, backed_up)
    assert admin.deleted == ["b"]
    assert list(done["kept"]) == ["a"]
    with pytest.raises(GroupsFailedError, match="'a'"):
        apply(tmp_path, backed_up, fail_if_kept=True)


def test_without_a_backup_nothing_is_deleted(admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BackupError):
        apply(tmp_path, planned)
    assert admin.deleted == []
    assert apply(tmp_path, planned, dry_run=True)["counts"]["would_delete"] == 2


def test_a_plan_of_another_cluster_is_refused(admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path) -> None:
    admin.id = "another-cluster"
    with pytest.raises(PlanError, match="another-cluster"):
        apply(tmp_path, backed_up)
    assert (admin.deleted, audits(tmp_path)) == ([], [])


def test_a_plan_that_was_changed_is_refused(admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path) -> None:
    path = Path(backed_up["plan_path"])
    path.write_text(path.read_text().replace('"a"', '"live"'))
    with pytest.raises(PlanError, match="changed"):
        apply(tmp_path, backed_up)
    assert admin.deleted == []


def test_a_plan_that_is_not_the_approved_one_is_refused(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match="approved"):
        apply(tmp_path, {**backed_up, "digest": "0" * 64})
    assert admin.deleted == []


def test_a_read_only_connection_refuses_all_but_a_dry_run(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTION, '{"conn_type": "kafka_groups", "host": "b1", "extra": {"read_only": true}}')
    with pytest.raises(ConfigurationError, match="read-only"):
        apply(tmp_path, backed_up)
    with pytest.raises(ConfigurationError, match="read-only"):
        delete(tmp_path, group_ids=["a"])
    assert admin.deleted == []
    assert apply(tmp_path, backed_up, dry_run=True)["counts"]["would_delete"] == 2


def test_a_plan_that_names_a_group_protected_since_is_refused(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONNECTION, '{"conn_type": "kafka_groups", "host": "b", "extra": {"protected_groups": ["a"]}}')
    with pytest.raises(PlanError, match="protects"):
        apply(tmp_path, backed_up)
    assert admin.deleted == []


def test_a_listing_that_misses_a_broker_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    with pytest.raises(IncompleteListingError):
        apply(tmp_path, backed_up)
    with pytest.raises(IncompleteListingError):
        delete(tmp_path, group_ids=["a"])
    assert admin.deleted == []


def test_an_empty_plan_is_applied_without_a_word(admin: FakeAdmin, tmp_path: Path) -> None:
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale=())
    planned = scene.plan(tmp_path, snapshot_id=snapshot_id)
    assert scene.back_up(tmp_path, planned)["groups"] == 0
    assert sum(apply(tmp_path, planned)["counts"].values()) == 0


def test_a_group_that_fails_is_recorded_and_fails_the_task(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    admin.lost_answers = {"a": OutcomeUnknownError("the answer was lost")}
    with pytest.raises(GroupsFailedError, match="'a'"):
        apply(tmp_path, backed_up)
    (record,) = audits(tmp_path)
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "failed", "b": "deleted"}


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

    monkeypatch.setattr("airflow_kafka_groups.maintenance.audit.write_json", full)
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
        monkeypatch.setattr("airflow_kafka_groups.maintenance.audit.write_json", full)
        return await real(group_ids)

    monkeypatch.setattr(admin, "delete_consumer_groups", storage_fails)
    with pytest.raises(OSError, match="audit"):
        apply(tmp_path, backed_up)
    said = capsys.readouterr().out
    assert "could not be written" in said
    assert '{"group_id": "b", "outcome": "deleted"' in said


# By name


def test_named_groups_are_watched_backed_up_and_deleted(admin: FakeAdmin, tmp_path: Path) -> None:
    done = delete(tmp_path, group_ids='["a", "b"]')
    assert sorted(admin.deleted) == ["a", "b"]
    assert Path(done["backup"]).is_file()
    assert audits(tmp_path)[0]["counts"]["deleted"] == 2


def test_a_named_group_that_is_kept_fails_the_task_unless_told_otherwise(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups["a"].members = 2
    with pytest.raises(GroupsFailedError, match="'a'"):
        delete(tmp_path, group_ids=["a"])
    assert list(delete(tmp_path, group_ids=["a"], fail_if_kept=False)["kept"]) == ["a"]
    assert admin.deleted == []


def test_a_platform_group_is_kept_even_when_named(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups["connect-sink"] = FakeGroup()
    with pytest.raises(GroupsFailedError, match="protected"):
        delete(tmp_path, group_ids=["connect-sink"])
    assert admin.deleted == []


def test_an_unknown_group_fails_the_task_before_anything_is_deleted(admin: FakeAdmin, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"group_ids.*typo.*nothing was deleted"):
        delete(tmp_path, group_ids=["a", "typo"])
    assert admin.deleted == []
    assert delete(tmp_path, group_ids=["a", "typo"], ignore_missing=True)["counts"]["deleted"] == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"group_ids": []}, "group_ids"),
        ({"group_ids": ["a", "a"]}, "group_ids"),
        ({"group_ids": ["a", 1]}, "group_ids"),
        ({"group_ids": ["a", ""]}, "group_ids"),
        ({"group_ids": "a"}, "group_ids"),
        ({"group_ids": "['a']"}, "group_ids"),
        ({"group_ids": ["a"], "observe_seconds": "soon"}, "observe_seconds"),
        ({"group_ids": ["a"], "observe_seconds": 0}, "observe_seconds"),
        ({"group_ids": ["a"], "kafka_groups_conn_id": "nowhere"}, "nowhere"),
        ({"plan_id": "", "plan_digest": "0" * 64}, "plan_id"),
        ({"plan_id": "x", "plan_digest": "y"}, "plan_digest"),
        ({"plan_id": "../../x", "plan_digest": "0" * 64}, "plan_id"),
    ],
)
def test_bad_input_is_a_clear_error_and_deletes_nothing(
    admin: FakeAdmin, tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigurationError, match=field):
        delete(tmp_path, **arguments)
    assert (admin.deleted, audits(tmp_path)) == ([], [])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"group_ids": ["a"], "plan_id": "x", "plan_digest": "y"},
        {"plan_id": "x"},
        {"group_ids": [], "plan_digest": "y"},
    ],
)
def test_arguments_that_exclude_each_other_are_refused_when_the_dag_is_parsed(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        DeleteGroupsOperator(task_id="t", storage_path="/x", **arguments)
