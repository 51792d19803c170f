"""Restore: who gets offsets back, what is skipped, and that newer offsets outlive it."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import load_plan
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator, RestoreGroupOffsetsOperator
from airflow_kafka_groups.storage.layout import Layout
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.made_once import made_once
from tests.unit.operators import scene

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def backed_up(admin: FakeAdmin, tmp_path: Path) -> str:
    """Return the id of a plan with a backup of a (t at 5 and 6) and b, as they were before they were deleted."""

    def make() -> str:
        snapshot_id = scene.take_snapshot(tmp_path)
        scene.judge(tmp_path, snapshot_id, ["a", "b"])
        planned = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1.0)
        assert scene.back_up(tmp_path, planned)["groups"] == 2
        return str(planned["plan_id"])

    admin.groups = {"a": FakeGroup({T0: 5, T1: 6}), "b": FakeGroup({U0: 3})}
    plan_id = made_once("to restore", tmp_path, make)
    admin.groups = {}
    admin.forget_calls()
    return plan_id


def restore(storage: Path, plan_id: str, **arguments: Any) -> dict[str, Any]:
    arguments = {"storage_path": str(storage), "cluster": scene.CLUSTER, "plan_id": plan_id, **arguments}
    found = RestoreGroupOffsetsOperator(task_id="t", **arguments).execute({})
    assert json.loads(json.dumps(found)) == found
    return found


def test_deleted_groups_are_restored(admin: FakeAdmin, tmp_path: Path, backed_up: str) -> None:
    assert restore(tmp_path, backed_up, dry_run=True)["counts"]["would_change"] == 2
    assert admin.groups == {}
    found = restore(tmp_path, backed_up)
    assert (found["counts"]["changed"], found["partitions"], found["skipped"]) == (2, 3, {})
    assert {name: group.positions for name, group in admin.groups.items()} == {"a": {T0: 5, T1: 6}, "b": {U0: 3}}
    assert restore(tmp_path, backed_up)["counts"]["unchanged"] == 2, "twice is once"


def create(storage: Path) -> None:
    """Create group a with the offsets that it had, without a backup."""
    offsets: dict[str, Any] = {"a": {"t": {0: 5}}}
    AlterGroupOffsetsOperator(
        task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, offsets=offsets, create=True
    ).execute({})


@pytest.mark.parametrize("by", ["a restore", "a change (alter)"])
def test_the_idle_time_of_a_group_that_was_restored_begins_anew(admin: FakeAdmin, tmp_path: Path, by: str) -> None:
    """The brokers forgot it, no snapshot shows that, and it looks as it did when it was judged."""
    admin.groups = {name: FakeGroup({T0: OffsetAndMetadata(5)}, protocol_type="") for name in ("a", "b")}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, ["a", "b"])
    planned = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1.0)
    scene.back_up(tmp_path, planned)
    del admin.groups["a"]
    if by == "a restore":
        restore(tmp_path, planned["plan_id"], group_ids=["a"])
    else:
        create(tmp_path)
    scene.apply(tmp_path, planned)
    assert sorted(admin.groups) == ["a"], "nobody restored b"

    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, ["a"])
    again = scene.plan(tmp_path, snapshot_id=snapshot_id, max_share=1.0)
    assert again["counts"]["planned"] == 0
    (kept,) = load_plan(Layout(tmp_path, scene.CLUSTER), again["plan_id"]).kept
    assert kept.reason.startswith(f"{by} of ")


def test_where_nobody_tells_ids_the_logs_alone_decide(admin: FakeAdmin, tmp_path: Path, backed_up: str) -> None:
    admin.ids = {}
    assert restore(tmp_path, backed_up, dry_run=True)["counts"]["would_change"] == 2
    path = tmp_path / scene.CLUSTER / "backups" / f"{backed_up}.json"
    manifest = json.loads(path.read_text())
    assert manifest["topic_ids"] == {"t": "id-of-t", "u": "id-of-u"}
    path.write_text(json.dumps({**manifest, "topic_ids": {}}))  # as of brokers before 2.8
    admin.ids = {"t": "another", "u": "another"}
    assert restore(tmp_path, backed_up)["counts"]["changed"] == 2
