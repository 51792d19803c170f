"""A change of offsets whose task is retried or cleared: each group is changed once, and nothing that was used since."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    GroupsFailedError,
    JournalError,
    MaintenanceError,
    OutcomeUnknownError,
    StorageError,
)
from airflow_kafka_groups.kafka.admin.results import GroupResult, GroupResults
from airflow_kafka_groups.kafka.models import ListedOffset, OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.observe.cluster_log import ClusterLog
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    DeleteGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from airflow_kafka_groups.storage.json_files import write_listing
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.operators import scene
from tests.unit.operators.scene import Site, context

pytestmark = pytest.mark.safety

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def shift(storage: Path, by: int = -2, given: Any = None, **arguments: Any) -> dict[str, Any]:
    arguments = {"group_ids": ["a", "b"], "shift_by": by, **arguments}
    return scene.run(ResetGroupOffsetsOperator, storage, given or context(), **arguments)


def positions(admin: FakeAdmin) -> list[dict[TopicPartition, int]]:
    return [admin.groups[group_id].positions for group_id in "ab"]


@pytest.fixture
def half_done(site: Site) -> FakeAdmin:
    """A first try that moved a, and failed at b."""
    site.admin.groups = {"a": FakeGroup({T0: 8, T1: 7}), "b": FakeGroup({T0: 8})}
    done = site.admin.alter_consumer_group_offsets

    async def half(offsets: Any, **more: Any) -> Any:
        return await done({group_id: of for group_id, of in offsets.items() if group_id == "a"}, **more)

    with site.patch.context() as patch:
        patch.setattr(site.admin, "alter_consumer_group_offsets", half)
        with pytest.raises(GroupsFailedError, match="1 of 2 failed: 'b'"):
            shift(site.storage)
    assert positions(site.admin) == [{T0: 6, T1: 5}, {T0: 8}]
    return site.admin


def test_a_retry_moves_what_the_first_try_did_not(half_done: FakeAdmin, tmp_path: Path) -> None:
    for expected in ({"unchanged": 1, "changed": 1}, {"unchanged": 2}, {"unchanged": 2}):
        counts = shift(tmp_path)["counts"]
        assert {name: count for name, count in counts.items() if count} == expected
        assert positions(half_done) == [{T0: 6, T1: 5}, {T0: 6}]


@pytest.mark.parametrize("written", [False, True], ids=["before its commits", "after its commits"])
def test_a_worker_killed_leaves_each_group_to_be_moved_once(site: Site, written: bool) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    done = site.admin.alter_consumer_group_offsets

    async def killed(offsets: Any, **more: Any) -> Any:
        if written:
            await done(offsets, **more)
        raise KeyboardInterrupt

    with site.patch.context() as patch:
        patch.setattr(site.admin, "alter_consumer_group_offsets", killed)
        with pytest.raises(KeyboardInterrupt):
            shift(site.storage)
    counts = shift(site.storage)["counts"]
    assert counts["unchanged" if written else "changed"] == 2
    assert positions(site.admin) == [{T0: 6}, {T0: 5}]


def test_a_commit_that_shows_late_is_not_made_a_second_time(site: Site) -> None:
    """The broker had written it, lost its replicas, and said that it is no coordinator."""
    site.admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    done = site.admin.alter_consumer_group_offsets

    async def late(offsets: Any, **more: Any) -> Any:
        others = {group_id: of for group_id, of in offsets.items() if group_id != "a"}
        error = GroupResult("a", error=broker_error("COORDINATOR_NOT_AVAILABLE"))
        return GroupResults([error, *(await done(others, **more)).values()])

    with site.patch.context() as patch:
        patch.setattr(site.admin, "alter_consumer_group_offsets", late)
        with pytest.raises(GroupsFailedError, match="1 of 2 failed: 'a'"):
            shift(site.storage)
    site.admin.groups["a"].offsets[T0] = OffsetAndMetadata(6)
    assert shift(site.storage)["counts"]["unchanged"] == 2
    assert positions(site.admin) == [{T0: 6}, {T0: 5}]


def test_another_run_another_task_and_a_dry_run_move_anew(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 9}), "b": FakeGroup({T0: 9})}
    shift(site.storage, -1, dry_run=True)
    for number, run in enumerate((context(), context("manual__2"), context("manual__3", 0)), 1):
        shift(site.storage, -1, run)
        assert positions(site.admin) == [{T0: 9 - number}] * 2


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
    assert shift(tmp_path)["kept"] == {}
    assert positions(half_done) == [{T0: 6}, {T0: 6}]


def test_what_the_first_try_kept_or_skipped_is_moved_now(site: Site) -> None:
    site.admin.groups = {"a": FakeGroup({T0: 8, T1: 8}), "b": FakeGroup({T0: 8})}
    site.admin.ends[T1] = broker_error("LEADER_NOT_AVAILABLE")
    site.admin.offset_errors["b"] = broker_error("COORDINATOR_LOAD_IN_PROGRESS")
    with pytest.raises(GroupsFailedError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        shift(site.storage)
    assert positions(site.admin) == [{T0: 6, T1: 8}, {T0: 8}]
    site.admin.ends.clear()
    site.admin.offset_errors.clear()
    shift(site.storage)
    assert positions(site.admin) == [{T0: 6, T1: 6}, {T0: 6}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "damaged"),
        ('{"format": 1, "task_run": "repair/manual__1/t/-1", "shift_by": -2}', "damaged"),
        (None, r"is missing: .*-before\.json"),
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


def test_a_try_that_goes_on_while_the_next_one_begins_moves_nothing_twice(site: Site) -> None:
    """A worker was taken for dead and was not: it records and commits while the second try connects."""
    site.admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    shift(site.storage)
    logged = site.storage / "_journal"
    later = logged.rename(site.storage / "not yet")
    read = site.admin.list_consumer_group_offsets

    async def first_the_other_one(*groups: Any, **more: Any) -> Any:
        if later.exists():
            later.rename(logged)
        return await read(*groups, **more)

    site.patch.setattr(site.admin, "list_consumer_group_offsets", first_the_other_one)
    assert shift(site.storage)["counts"]["unchanged"] == 2
    assert positions(site.admin) == [{T0: 6}, {T0: 5}]


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


def test_nothing_is_moved_that_a_later_try_would_not_find(half_done: FakeAdmin, site: Site) -> None:
    def full(*_: Any) -> None:
        raise StorageError("the storage is full")

    site.patch.setattr(ClusterLog, "create", full)
    with pytest.raises(StorageError, match="the storage is full"):
        shift(site.storage)
    assert positions(half_done) == [{T0: 6, T1: 5}, {T0: 8}]


# A change of offsets whose task is retried or cleared: what was used since an earlier try is not set back again.


def reset(storage: Path, run_id: str = "manual__1", **target: Any) -> dict[str, Any]:
    return scene.run(ResetGroupOffsetsOperator, storage, context(run_id), group_ids=["a", "b"], **target)


def alter(storage: Path, run_id: str = "manual__1", **more: Any) -> dict[str, Any]:
    offsets = {group_id: {"t": {0: 3}} for group_id in "ab"}
    return scene.run(AlterGroupOffsetsOperator, storage, context(run_id), offsets=offsets, **more)


def at_of(admin: FakeAdmin) -> list[int]:
    return [of_group[T0] for of_group in positions(admin)]


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.log = (0, 10)
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 8})}


@pytest.mark.parametrize(
    ("change", "set_to"),
    [
        (lambda storage, run_id: reset(storage, run_id, to="earliest"), 0),
        (lambda storage, run_id: reset(storage, run_id, to="latest"), 10),
        (lambda storage, run_id: reset(storage, run_id, timestamp=1_767_225_600_000), 5),
        (alter, 3),
        (lambda storage, run_id: alter(storage, run_id, create=True), 3),
    ],
    ids=["earliest", "latest", "timestamp", "alter", "alter or create"],
)
def test_a_group_that_was_used_since_the_first_try_is_not_set_back_a_second_time(
    site: Site, change: Any, set_to: int
) -> None:
    site.admin.by_time[T0] = ListedOffset(5)
    assert change(site.storage, "manual__1")["counts"]["changed"] == 2
    assert at_of(site.admin) == [set_to, set_to]
    site.admin.commit("a", *T0, 6)  # its consumers ran for a while
    found = change(site.storage, "manual__1")
    assert at_of(site.admin) == [6, set_to]
    assert list(found["kept"]) == ["a"]
    assert "is at 6: it was used since an earlier try" in found["kept"]["a"]
    assert "start a new DAG run" in found["kept"]["a"]
    assert change(site.storage, "manual__2")["counts"]["kept"] == 0
    assert at_of(site.admin) == [set_to, set_to], "whoever wants it starts another run"


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_restore_that_overwrites_sets_no_group_back_twice(site: Site, overwrite: bool) -> None:
    backup = site.run(BackupGroupOffsetsOperator)
    arguments = {"plan_id": backup["plan_id"], "overwrite": overwrite}
    del site.admin.groups["b"]
    site.admin.commit("a", *T0, 9)
    site.run(RestoreGroupOffsetsOperator, context(), **arguments)
    assert at_of(site.admin) == [8 if overwrite else 9, 8]
    site.admin.commit("a", *T0, 10)
    del site.admin.groups["b"]  # what is gone was not used
    found = site.run(RestoreGroupOffsetsOperator, context(), **arguments)
    assert at_of(site.admin) == [10, 8]
    assert list(found["kept"]) == ["a"]
    site.run(RestoreGroupOffsetsOperator, context("manual__2"), **arguments)
    assert at_of(site.admin) == [8 if overwrite else 10, 8]


def test_a_retry_sets_the_end_of_the_log_as_the_first_try_found_it(site: Site) -> None:
    """As the documentation says: records that came in between would be skipped, and nobody asked for that."""
    reset(site.storage, to="latest")
    site.admin.log = (0, 15)
    assert reset(site.storage, to="latest")["counts"]["unchanged"] == 2
    assert at_of(site.admin) == [10, 10]


def test_what_the_first_try_kept_is_set_when_its_consumers_have_stopped(site: Site) -> None:
    """It was never set back: that it moved since then is no reason to keep it."""
    site.admin.groups["a"] = FakeGroup({T0: 8}, members=1)
    assert list(reset(site.storage, to="earliest")["kept"]) == ["a"]
    site.admin.groups["a"] = FakeGroup({T0: 9})
    counts = reset(site.storage, to="earliest")["counts"]
    assert (counts["changed"], counts["unchanged"], counts["kept"]) == (1, 1, 0)
    assert at_of(site.admin) == [0, 0]


@pytest.mark.parametrize("is_used", [False, True])
def test_another_target_counts_for_groups_that_were_not_used_since(site: Site, is_used: bool) -> None:
    """A template with the time of day renders to another one for each try."""
    reset(site.storage, to="earliest")
    if is_used:
        site.admin.commit("a", *T0, 6)
    assert reset(site.storage, to="latest")["counts"]["kept"] == is_used
    assert at_of(site.admin) == [6 if is_used else 10, 10]
    assert reset(site.storage, to="latest")["counts"]["kept"] == is_used
    assert at_of(site.admin) == [6 if is_used else 10, 10]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"shift_by": -2}, {"to": "earliest"}),
        ({"to": "latest"}, {"shift_by": -2}),
        ({"shift_by": -2}, {"shift_by": -3}),
    ],
    ids=["away from a distance", "to a distance", "another distance"],
)
def test_a_distance_and_another_target_need_two_runs(site: Site, first: Any, then: Any) -> None:
    reset(site.storage, **first)
    moved = at_of(site.admin)
    with pytest.raises(MaintenanceError, match=r"asked for another distance or target, see .*start a new DAG run"):
        reset(site.storage, **then)
    assert at_of(site.admin) == moved


@pytest.mark.parametrize("result", ["none", "damaged", '{"format": 1, "groups": [{}]}'])
def test_without_a_result_whatever_was_meant_counts(site: Site, result: str) -> None:
    """A worker was killed: nobody knows which groups it had kept."""
    reset(site.storage, to="earliest")
    (path,) = (site.folder / "changes").glob("*-result.json")
    path.unlink() if result == "none" else path.write_text(result)
    site.admin.commit("a", *T0, 6)
    assert list(reset(site.storage, to="earliest")["kept"]) == ["a"]
    assert at_of(site.admin) == [6, 0]


# A deletion of offsets whose task is retried or cleared: what was committed since an earlier try is not deleted.


U0 = TopicPartition("u", 0)


def forget(storage: Path, run_id: str = "manual__1", **arguments: Any) -> dict[str, Any]:
    arguments = {"group_ids": ["a", "b"], "topics": ["t"], **arguments}
    return scene.run(DeleteGroupOffsetsOperator, storage, context(run_id), **arguments)


@pytest.fixture
def half_forgotten(site: Site) -> FakeAdmin:
    """A first try that deleted the offsets of a, and kept those of b, of which a member reads the topic."""
    site.admin.groups = {"a": FakeGroup({T0: 5, U0: 1}), "b": FakeGroup({T0: 5, U0: 1}, members=1)}
    with pytest.raises(GroupsFailedError, match=r"^1 of 2 failed: 'b': a member reads t"):
        forget(site.storage)
    assert [group.positions for group in site.admin.groups.values()] == [{U0: 1}, {T0: 5, U0: 1}]
    site.admin.groups["b"] = FakeGroup({T0: 6, U0: 2})  # its consumers are stopped, after they read on
    return site.admin


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_group_has_committed_since_it_was_forgotten_stays(
    half_forgotten: FakeAdmin, tmp_path: Path, dry_run: bool
) -> None:
    half_forgotten.commit("a", *T0, 7)  # its application reads the topic again, and is down at the moment
    with pytest.raises(GroupsFailedError, match=r"^1 of 2 failed: 'a': t\[0\] is at 7: it was used.*to delete it"):
        forget(tmp_path, dry_run=dry_run)
    left = {T0: 6, U0: 2} if dry_run else {U0: 2}
    assert [group.positions for group in half_forgotten.groups.values()] == [{T0: 7, U0: 1}, left]
    assert forget(tmp_path, "manual__2")["partitions"] == len(left), "whoever wants it starts another run"


def test_a_retry_forgets_what_the_first_try_had_kept(half_forgotten: FakeAdmin, tmp_path: Path) -> None:
    assert forget(tmp_path)["counts"]["changed"] == 1
    assert [group.positions for group in half_forgotten.groups.values()] == [{U0: 1}, {U0: 2}]
    assert forget(tmp_path)["counts"]["unchanged"] == 2


@pytest.mark.parametrize("error", [StorageError("503 Slow Down"), MaintenanceError("differs from what was written")])
def test_a_result_that_cannot_be_recorded_hides_no_failure(
    half_forgotten: FakeAdmin, site: Site, error: Exception
) -> None:
    """The offsets are gone by then: which groups failed must be known."""
    half_forgotten.commit("a", *T0, 5)  # as it was found
    half_forgotten.forget_errors["b"] = broker_error("GROUP_SUBSCRIBED_TO_TOPIC")

    def write(folder: Any, name: str, *data: Any) -> Any:
        if "result" in name:
            raise error
        return write_listing(folder, name, *data)

    site.patch.setattr("airflow_kafka_groups.change.restore.change_offsets.write_listing", write)
    with pytest.raises(OutcomeUnknownError, match=r"changed 1, failed 1; first 'b': .*GROUP_SUBSCRIBED_TO_TOPIC"):
        forget(site.storage)
    assert half_forgotten.groups["a"].positions == {U0: 1}


def test_other_topics_of_the_task_are_no_matter(half_forgotten: FakeAdmin, tmp_path: Path) -> None:
    half_forgotten.commit("a", *T0, 7)
    assert forget(tmp_path, topics=["u"])["counts"]["changed"] == 2
