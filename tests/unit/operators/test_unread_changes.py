"""Changes of offsets of groups that cannot be read: nobody kept them, so the task tries again, and fails in the end."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import GroupsFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, timeout
from tests.unit.operators import scene

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
CHANGES: dict[Any, dict[str, Any]] = {
    RestoreGroupOffsetsOperator: {"overwrite": True},
    ResetGroupOffsetsOperator: {"group_ids": ["a", "b"], "to": "earliest"},
    AlterGroupOffsetsOperator: {"offsets": {group_id: {"t": {"0": 3}} for group_id in "ab"}},
}


@pytest.mark.parametrize("unread", ["describe_errors", "offset_errors"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_that_a_silent_broker_prevents_is_no_success(
    kind: Any, unread: str, admin: FakeAdmin, tmp_path: Path
) -> None:
    """A restore was a success, with a line in its log, for the groups of two brokers out of three."""
    admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 5})}
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER}
    backup = BackupGroupOffsetsOperator(task_id="b", group_ids=["a", "b"], **stored).execute({})
    for group_id in "ab":
        admin.commit(group_id, *T0, 7)
    arguments = {**CHANGES[kind], **({"plan_id": backup["plan_id"]} if kind is RestoreGroupOffsetsOperator else {})}
    getattr(admin, unread)["b"] = timeout()
    dry = kind(task_id="t", dry_run=True, **stored, **arguments).execute({})
    assert list(dry["kept"]) == ["b"], "a dry run says so"
    with pytest.raises(GroupsFailedError, match=r"1 of 2 failed: .b.: it(s offsets)? cannot be (read|described)"):
        kind(task_id="t", dry_run=False, **stored, **arguments).execute({})
    assert admin.groups["a"].positions != {T0: 7}, "the others are changed"


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_without_the_partitions_of_a_silent_leader_is_no_success(
    kind: Any, admin: FakeAdmin, tmp_path: Path
) -> None:
    """A consumer began at the end of a partition: its offset was left out of a restore that was a success."""
    both = {T0: 5, U0: 5}
    admin.groups = {"a": FakeGroup(both), "b": FakeGroup({U0: 5})}
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER}
    backup = BackupGroupOffsetsOperator(task_id="b", group_ids=["a", "b"], **stored).execute({})
    for where in both:
        admin.commit("a", *where, 7)
    admin.commit("b", *U0, 7)
    change: dict[str, Any] = {
        RestoreGroupOffsetsOperator: {**CHANGES[RestoreGroupOffsetsOperator], "plan_id": backup["plan_id"]},
        ResetGroupOffsetsOperator: CHANGES[ResetGroupOffsetsOperator],
        AlterGroupOffsetsOperator: {"offsets": {"a": {"t": {0: 3}, "u": {0: 3}}, "b": {"u": {0: 3}}}},
    }[kind]
    admin.ends[U0] = timeout()
    dry = kind(task_id="t", dry_run=True, **stored, **change).execute({})
    assert (list(dry["skipped"]), list(dry["kept"])) == (["a", "b"], ["b"]), "a dry run says so"
    assert "cannot be read" in dry["kept"]["b"]
    assert "deleted or recreated" not in dry["kept"]["b"]
    with pytest.raises(GroupsFailedError, match=r"2 of 2 failed: .*'a': u\[0\] was left out: the log .* 30 s"):
        kind(task_id="t", dry_run=False, **stored, **change).execute({})
    positions = admin.groups["a"].positions
    assert (positions[T0] != 7, positions[U0]) == (True, 7), "what could be read is changed"
    del admin.ends[U0]
    assert kind(task_id="t", dry_run=False, **stored, **change).execute({})["counts"]["changed"] == 2
    assert {admin.groups[name].positions[U0] for name in "ab"} == {positions[T0]}, "and the rest by the next try"


def test_a_group_that_was_deleted_meanwhile_is_no_success_and_restored_by_the_next_try(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    """It was kept as one that somebody uses: the task was a success, with the group gone."""
    admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 5})}
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER}
    backup = BackupGroupOffsetsOperator(task_id="b", group_ids=["a", "b"], **stored).execute({})

    def delete(call: str) -> None:
        if call == "describe":
            admin.groups.pop("b", None)

    admin.before = delete
    task = RestoreGroupOffsetsOperator(task_id="t", plan_id=backup["plan_id"], dry_run=False, **stored)
    with pytest.raises(GroupsFailedError, match=r"1 of 2 failed: 'b': offsets of it were deleted meanwhile: run it"):
        task.execute({})
    admin.before = lambda call: None
    assert task.execute({})["counts"]["changed"] == 1
    assert admin.groups["b"].positions == {T0: 5}
