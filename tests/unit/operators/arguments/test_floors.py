"""No argument of an operator, and so no run's configuration, undercuts the site's floors."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from airflow_kafka_groups.operators.notices import NotifyOwnersOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    CopyGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    KeepOffsetsAliveOperator,
    MigrateGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from airflow_kafka_groups.operators.spark import CommitGroupBacklogOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene

pytestmark = pytest.mark.safety

DAY = 86_400
ROWS = (("before", 5), ("to_commit", 9))
BACKLOG = "20260131T235959Z-0a1b2c3d"


def configure(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__KAFKA_GROUPS__{name.upper()}", str(value))


def connect(monkeypatch: pytest.MonkeyPatch, **floors: Any) -> None:
    connection = {"conn_type": "kafka_groups", "host": "b1:9092", "extra": {"floors": floors}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", json.dumps(connection))


def ask(storage: Path, planned: dict[str, Any], **arguments: Any) -> str | None:
    """Return why somebody has to be asked."""
    task = ApproveCleanupOperator(**scene.of_plan(storage, planned, "approve"), **arguments)
    _, plan, terms = task._plan_to_approve()
    return terms.why(len(plan.groups))


def test_a_plan_with_a_weaker_policy_is_made_within_them_and_says_so(
    admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned["counts"]["planned"] == 2
    configure(monkeypatch, min_idle_seconds=(scene.DAYS + 1) * DAY)
    connect(monkeypatch, max_groups=1)
    again = scene.plan(tmp_path, snapshot_id=planned["snapshot_id"], min_idle_seconds=1, max_groups=500, max_share=1)
    assert again["counts"]["planned"] == 0
    policy = json.loads(Path(again["plan_path"]).read_text())["policy"]
    assert (policy["min_idle_seconds"], policy["max_groups"]) == ((scene.DAYS + 1) * DAY, 1)
    assert [name in " ".join(again["warnings"]) for name in ("min_idle_seconds", "max_groups")] == [True, True]


def test_a_plan_that_was_made_before_they_were_raised_is_not_carried_out(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, min_idle_seconds=(scene.DAYS + 1) * DAY)
    with pytest.raises(PlanError, match="undercuts what the site demands"):
        scene.apply(tmp_path, backed_up)
    assert admin.deleted == []


@pytest.mark.parametrize("where", ["configuration", "connection"])
@pytest.mark.promise(9)
def test_the_question_cannot_be_switched_off(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    assert ask(tmp_path, backed_up, approval_rule="never") is None
    (configure if where == "configuration" else connect)(monkeypatch, approve_above=1)
    assert ask(tmp_path, backed_up, approval_rule="never") is not None
    with pytest.raises(PlanError, match="nobody was asked"):
        scene.apply(tmp_path, backed_up, approval_rule="never")
    assert admin.deleted == []


def test_groups_are_not_deleted_by_name_instead(
    admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, min_idle_seconds=DAY)
    with pytest.raises(PlanError, match="named_deletions"):
        scene.delete(tmp_path, group_ids=["a"])
    assert admin.deleted == []


@pytest.mark.promise(9)
def test_another_storage_with_another_journal_and_other_approvals_is_refused(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, storage_path="/srv/groups")
    with pytest.raises(ConfigurationError, match="/srv/groups"):
        scene.plan(tmp_path, snapshot_id=backed_up["snapshot_id"])
    with pytest.raises(ConfigurationError, match="/srv/groups"):
        ask(tmp_path, backed_up)
    with pytest.raises(ConfigurationError, match="/srv/groups"):
        scene.apply(tmp_path, backed_up)
    assert admin.deleted == []


def test_a_misspelled_floor_deletes_nothing(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, dry_runs_only=True)
    with pytest.raises(ConfigurationError, match="dry_runs_only"):
        scene.apply(tmp_path, backed_up)
    assert admin.deleted == []


def test_a_plan_says_that_floors_without_a_storage_are_weak(
    admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_GROUPS_DEFAULTS", raising=False)
    configure(monkeypatch, approve_above=5)
    assert "Set the floor storage_path" in " ".join(
        scene.plan(tmp_path, snapshot_id=planned["snapshot_id"])["warnings"]
    )


def test_another_storage_does_not_evade_a_floor(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_GROUPS_DEFAULTS", json.dumps({"storage_path": "/the/sites/own"}))
    configure(monkeypatch, max_groups=500)
    with pytest.raises(ConfigurationError, match="/the/sites/own"):
        scene.apply(tmp_path, backed_up)
    assert admin.deleted == []


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (RestoreGroupOffsetsOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "overwrite": True}),
        (ResetGroupOffsetsOperator, {"group_ids": ["a"], "to": "earliest"}),
        (AlterGroupOffsetsOperator, {"offsets": {"a": {"t": {"0": 1}}}}),
        (CopyGroupOffsetsOperator, {"groups": {"a": "b"}}),
        (MigrateGroupOffsetsOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "plan_digest": "0" * 64}),
        (BackupGroupOffsetsOperator, {"group_ids": ["a"]}),
        (BackupGroupOffsetsOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "plan_digest": "0" * 64}),
        (KeepOffsetsAliveOperator, {"group_ids": ["a"]}),
        (DeleteGroupOffsetsOperator, {"group_ids": ["a"], "topics": ["t"]}),
        (RestoreDrillOperator, {"plan_id": "20261122T081500Z-1a2b3c4d"}),
        (NotifyOwnersOperator, {"plan_id": "20261122T081500Z-1a2b3c4d", "plan_digest": "0" * 64, "notifiers": ()}),
    ],
)
@pytest.mark.parametrize("where", ["configuration", "connection"])
def test_another_storage_is_refused_by_every_task_that_changes_something(
    admin: FakeAdmin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operator: Any,
    arguments: dict[str, Any],
    where: str,
) -> None:
    """Who may trigger a run may write to a storage of theirs: a forged backup in it would be restored."""
    admin.groups = {"a": FakeGroup()}
    (configure if where == "configuration" else connect)(monkeypatch, storage_path="/the/site's")
    task = operator(task_id="t", storage_path=str(tmp_path), cluster=scene.CLUSTER, **arguments)
    with pytest.raises(ConfigurationError, match=r"storage_path .*the site keeps plans, backups"):
        task.execute({})
    assert list(tmp_path.iterdir()) == []
    assert admin.calls == []


@pytest.mark.parametrize("where", ["elsewhere", "site/../elsewhere", "site-2"])
def test_a_job_s_result_from_another_storage_is_not_committed(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its path comes from an XCom, which users can write: where they can write files, too, any offsets are in it."""
    at = TopicPartition("t", 0)
    admin.groups = {"a": FakeGroup({at: 5})}
    site = tmp_path / "site"
    configure(monkeypatch, storage_path=site)
    for folder in {where, "site"}:
        (tmp_path / folder.rpartition("/")[2]).mkdir(exist_ok=True)

    def commit(path: str) -> dict[str, Any]:
        forged = {
            "job": "process_group_backlog",
            "format": 1,
            "backlog_id": BACKLOG,
            "group_id": "a",
            "committed": 0,
            "processed": [],
        }
        forged |= {"outcome": "processed", "kafka_cluster_id": admin.cluster}
        row = {"topic": "t", "partition": 0, "leader_epoch": 3, "metadata": ""}
        rows = {name: [{**row, "offset": offset}] for name, offset in ROWS}
        Path(path).write_text(json.dumps({**forged, **rows, "ends": [{"topic": "t", "partition": 0, "offset": 9}]}))
        scope: dict[str, Any] = {"task_id": "t", "storage_path": str(site), "cluster": scene.CLUSTER}
        return CommitGroupBacklogOperator(**scope, backlog_id=BACKLOG, result_path=path).execute({})

    with pytest.raises(ConfigurationError, match=r"result_path.*in the site's storage"):
        commit(f"{tmp_path}/{where}/result.json")
    assert admin.groups["a"].positions == {at: 5}
    assert commit(f"{site}/result.json")["counts"]["changed"] == 1
