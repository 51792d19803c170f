"""Whatever is in doubt is kept, the record is always written, and bad input deletes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    GroupsFailedError,
    OutcomeUnknownError,
    PlanError,
)
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.records import records
from tests.unit.operators.scene import apply, delete

CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b", "live")}


# By plan


def test_planned_groups_are_deleted_verified_and_recorded(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    done = apply(tmp_path, backed_up)
    assert sorted(admin.deleted) == ["a", "b"]
    assert done["counts"]["deleted"] == 2
    assert done["verification"] == {"gone": 2, "present": 0, "unclear": 0}
    (record,) = records(tmp_path)
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


def test_a_plan_that_is_not_the_approved_one_is_refused(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match="not the one that was asked for"):
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


def test_a_group_that_fails_is_recorded_and_fails_the_task(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    admin.delete_errors = {"a": OutcomeUnknownError("the answer was lost")}
    with pytest.raises(GroupsFailedError, match="'a'"):
        apply(tmp_path, backed_up)
    (record,) = records(tmp_path)
    assert {item["group_id"]: item["outcome"] for item in record["outcomes"]} == {"a": "failed", "b": "deleted"}


# By name


def test_named_groups_are_watched_backed_up_and_deleted(admin: FakeAdmin, tmp_path: Path) -> None:
    done = delete(tmp_path, group_ids='["a", "b"]')
    assert sorted(admin.deleted) == ["a", "b"]
    assert Path(done["backup"]).is_file()
    assert records(tmp_path)[0]["counts"]["deleted"] == 2


def test_a_named_group_that_is_kept_fails_the_task_unless_told_otherwise(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups["a"].members = 2
    with pytest.raises(GroupsFailedError, match="'a'"):
        delete(tmp_path, group_ids=["a"])
    assert list(delete(tmp_path, group_ids=["a"], fail_if_kept=False)["kept"]) == ["a"]
    assert admin.deleted == []


@pytest.mark.parametrize("group_id", ["connect-sink", "airflow-kafka-groups-lease"])
def test_a_platform_group_is_kept_even_when_named(admin: FakeAdmin, tmp_path: Path, group_id: str) -> None:
    admin.groups[group_id] = FakeGroup()
    with pytest.raises(GroupsFailedError, match="protected"):
        delete(tmp_path, group_ids=[group_id])
    assert admin.deleted == []


def test_an_unknown_group_fails_the_task_before_anything_is_deleted(admin: FakeAdmin, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"group_ids.*typo.*nothing was deleted"):
        delete(tmp_path, group_ids=["a", "typo"])
    assert admin.deleted == []
    assert delete(tmp_path, group_ids=["a", "typo"], ignore_missing=True)["counts"]["deleted"] == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"group_ids": ["a", "a"]}, "group_ids"),
        ({"group_ids": ["a", ""]}, "group_ids"),
        ({"group_ids": ["a"], "observe_seconds": 0}, "observe_seconds"),
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
    assert (admin.deleted, records(tmp_path)) == ([], [])


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
