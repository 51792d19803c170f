"""A reset by a distance, tried again: each group is moved once, however often the task runs."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import GroupsFailedError, JournalError, MaintenanceError, StorageError
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.operators.offset_changes import ResetGroupOffsetsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error, timeout
from tests.unit.operators import scene
from tests.unit.operators.scene import context

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
pytestmark = pytest.mark.safety


def shift(storage: Path, by: int = -2, run: Any = None, **arguments: Any) -> dict[str, Any]:
    scope = {"storage_path": str(storage), "cluster": scene.CLUSTER}
    operator = ResetGroupOffsetsOperator(task_id="t", **{**scope, "group_ids": ["a", "b"], "shift_by": by, **arguments})
    return operator.execute(run or context())


def positions(admin: FakeAdmin) -> list[dict[TopicPartition, int]]:
    return [admin.groups[group_id].positions for group_id in "ab"]


@pytest.fixture
def half_done(admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """A first try that moved a, and failed at b."""
    admin.groups = {"a": FakeGroup({T0: 8, T1: 7}), "b": FakeGroup({T0: 8})}
    done = admin.alter_consumer_group_offsets

    async def half(offsets: Any, **more: Any) -> Any:
        return await done({group_id: of for group_id, of in offsets.items() if group_id == "a"}, **more)

    with monkeypatch.context() as patch:
        patch.setattr(admin, "alter_consumer_group_offsets", half)
        with pytest.raises(GroupsFailedError, match="1 of 2 failed: 'b'"):
            shift(tmp_path)
    assert positions(admin) == [{T0: 6, T1: 5}, {T0: 8}]
    return admin


def test_a_retry_moves_what_the_first_try_did_not(half_done: FakeAdmin, tmp_path: Path) -> None:
    for expected in ({"unchanged": 1, "changed": 1}, {"unchanged": 2}, {"unchanged": 2}):
        counts = shift(tmp_path)["counts"]
        assert {name: count for name, count in counts.items() if count} == expected
        assert positions(half_done) == [{T0: 6, T1: 5}, {T0: 6}]


@pytest.mark.parametrize("written", [False, True], ids=["before its commits", "after its commits"])
def test_a_worker_killed_leaves_each_group_to_be_moved_once(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    done = admin.alter_consumer_group_offsets

    async def killed(offsets: Any, **more: Any) -> Any:
        if written:
            await done(offsets, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(admin, "alter_consumer_group_offsets", killed)
        with pytest.raises(KeyboardInterrupt):
            shift(tmp_path)
    counts = shift(tmp_path)["counts"]
    assert counts["unchanged" if written else "changed"] == 2
    assert positions(admin) == [{T0: 6}, {T0: 5}]


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_commit_that_shows_late_is_not_made_a_second_time(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_silent: bool
) -> None:
    """The broker had written it, lost its replicas, and said that it is no coordinator: the group was no kept one."""
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    done = admin.alter_consumer_group_offsets

    async def late(offsets: Any, **more: Any) -> Any:
        def show(call: str) -> None:
            if call == "describe":
                admin.groups["a"].offsets[T0] = OffsetAndMetadata(6)
                admin.offset_errors = {"a": timeout()} if is_silent else {}

        admin.before = show
        others = {group_id: of for group_id, of in offsets.items() if group_id != "a"}
        error = GroupResult("a", error=broker_error("COORDINATOR_NOT_AVAILABLE"))
        return GroupResults([error, *(await done(others, **more)).values()])

    with monkeypatch.context() as patch:
        patch.setattr(admin, "alter_consumer_group_offsets", late)
        with pytest.raises(GroupsFailedError, match="1 of 2 failed: 'a'") if is_silent else nullcontext():
            shift(tmp_path)
    admin.before, admin.offset_errors = lambda call: None, {}
    assert positions(admin) == [{T0: 6}, {T0: 5}]
    assert shift(tmp_path)["counts"]["unchanged"] == 2
    assert positions(admin) == [{T0: 6}, {T0: 5}]


def test_another_run_another_task_and_a_dry_run_move_anew(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 9}), "b": FakeGroup({T0: 9})}
    shift(tmp_path, -1, dry_run=True)
    for number, run in enumerate((context(), context("manual__2"), context("manual__3", 0)), 1):
        shift(tmp_path, -1, run)
        assert positions(admin) == [{T0: 9 - number}] * 2


def test_a_group_that_was_used_in_between_is_kept(half_done: FakeAdmin, tmp_path: Path) -> None:
    half_done.commit("a", *T1, 9)
    found = shift(tmp_path)
    assert found["counts"]["changed"] == found["counts"]["kept"] == 1
    assert "t[1] is at 9: it was used since an earlier try" in found["kept"]["a"]
    assert "meant to set it to 5" in found["kept"]["a"]
    assert positions(half_done) == [{T0: 6, T1: 9}, {T0: 6}]


def test_the_same_offset_with_other_metadata_is_use_too(half_done: FakeAdmin, tmp_path: Path) -> None:
    half_done.groups["a"].offsets[T0] = OffsetAndMetadata(6, "a checkpoint")
    assert list(shift(tmp_path)["kept"]) == ["a"]


def test_an_offset_that_is_gone_is_not_made_again(half_done: FakeAdmin, tmp_path: Path) -> None:
    del half_done.groups["a"].offsets[T1]
    why = shift(tmp_path)["kept"]["a"]
    assert "t[1] has no offset any more: it was deleted, or has expired, since an earlier try" in why, "it was not used"


def test_what_the_first_try_kept_or_skipped_is_moved_now(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup({T0: 8, T1: 8}), "b": FakeGroup({T0: 8})}
    admin.ends[T1] = broker_error("LEADER_NOT_AVAILABLE")
    admin.offset_errors["b"] = broker_error("COORDINATOR_LOAD_IN_PROGRESS")
    with pytest.raises(GroupsFailedError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        shift(tmp_path)
    assert positions(admin) == [{T0: 6, T1: 8}, {T0: 8}]
    admin.ends.clear()
    admin.offset_errors.clear()
    shift(tmp_path)
    assert positions(admin) == [{T0: 6, T1: 6}, {T0: 6}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "damaged"),
        ('{"format": 1, "task_run": "repair/manual__1/t/-1", "shift_by": -2}', "damaged"),
        (None, r"is missing: .*-before\.json\. .*start a new DAG run"),
    ],
    ids=["no JSON", "lacks fields", "pruned"],
)
def test_a_damaged_or_missing_record_moves_nothing(
    half_done: FakeAdmin, tmp_path: Path, content: str | None, said: str
) -> None:
    (record,) = (tmp_path / scene.CLUSTER / "changes").glob("*-before.json")
    record.unlink() if content is None else record.write_text(content)
    with pytest.raises(MaintenanceError, match=said):
        shift(tmp_path)
    assert positions(half_done) == [{T0: 6, T1: 5}, {T0: 8}]


def test_a_try_that_goes_on_while_the_next_one_begins_moves_nothing_twice(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker was taken for dead and was not: it records and commits while the second try connects."""
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    shift(tmp_path)
    logged = tmp_path / "_journal"
    later = logged.rename(tmp_path / "not yet")
    read = admin.list_consumer_group_offsets

    async def first_the_other_one(*groups: Any, **more: Any) -> Any:
        if later.exists():
            later.rename(logged)
        return await read(*groups, **more)

    monkeypatch.setattr(admin, "list_consumer_group_offsets", first_the_other_one)
    assert shift(tmp_path)["counts"]["unchanged"] == 2
    assert positions(admin) == [{T0: 6}, {T0: 5}]


def test_what_the_first_try_moved_by_a_connection_of_another_name_is_not_moved_again(
    half_done: FakeAdmin, tmp_path: Path
) -> None:
    """The folder of a cluster is called like its connection by default: the log is that of the Kafka cluster."""
    assert shift(tmp_path, cluster="renamed")["counts"]["changed"] == 1
    assert positions(half_done) == [{T0: 6, T1: 5}, {T0: 6}]


@pytest.mark.parametrize("cluster_id", ["another", None])
def test_a_task_that_is_mapped_over_clusters_moves_the_groups_of_each(
    half_done: FakeAdmin, tmp_path: Path, cluster_id: str | None
) -> None:
    half_done.cluster = cluster_id
    with nullcontext() if cluster_id else pytest.raises(JournalError, match="reports no usable id"):
        assert shift(tmp_path, cluster="another")["counts"]["changed"] == 2
    assert positions(half_done) == ([{T0: 4, T1: 3}, {T0: 6}] if cluster_id else [{T0: 6, T1: 5}, {T0: 8}])


def test_nothing_is_moved_that_a_later_try_would_not_find(
    half_done: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StorageError("the storage is full")

    monkeypatch.setattr(ClusterLog, "create", full)
    with pytest.raises(StorageError, match="the storage is full"):
        shift(tmp_path)
    assert positions(half_done) == [{T0: 6, T1: 5}, {T0: 8}]
