"""A mapped task that is cleared with what it is mapped over: its groups may then be those of another one of its tasks.

``ChunkGroupsOperator`` cuts by coordinator: after a restart of brokers the same groups are in other chunks.
"""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import BrokerError, ConfigurationError, GroupsFailedError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offset_changes import AlterGroupOffsetsOperator, ResetGroupOffsetsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.scene import context

pytestmark = pytest.mark.safety


def delete(storage: Path, group_id: str, map_index: int) -> dict[str, Any]:
    return scene.delete(storage, context(map_index=map_index), group_ids=[group_id], fail_if_kept=False)


@pytest.mark.promise(5)
def test_what_another_of_its_tasks_deleted_is_not_deleted_again(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(), "b": FakeGroup()}
    for map_index, group_id in enumerate("ab"):
        assert delete(tmp_path, group_id, map_index)["counts"]["deleted"] == 1
    admin.groups = {"a": FakeGroup(), "b": FakeGroup()}  # it was a mistake, and somebody has restored them
    for map_index, group_id in enumerate("ba"):
        assert delete(tmp_path, group_id, map_index)["kept_reasons"] == {"deleted_before": 1}


def test_what_another_of_its_tasks_found_in_use_is_kept(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.groups = {"a": FakeGroup(members=1)}
    assert delete(tmp_path, "a", 0)["kept_reasons"] == {"has_members": 1}
    admin.groups = {"a": FakeGroup()}
    assert delete(tmp_path, "a", 1)["kept_reasons"] == {"alive_before": 1}


def shift(storage: Path, group_id: str, map_index: int, by: int = -2, topics: Any = None) -> dict[str, Any]:
    arguments = {"group_ids": [group_id], "shift_by": by, "topics": topics}
    return scene.run(ResetGroupOffsetsOperator, storage, context(map_index=map_index), **arguments)


def test_what_another_of_its_tasks_moved_by_a_distance_is_not_moved_again(admin: FakeAdmin, tmp_path: Path) -> None:
    at = TopicPartition("t", 0)
    admin.groups = {"a": FakeGroup({at: 8}), "b": FakeGroup({at: 7})}
    for groups in ("ab", "ba", "ab"):
        for map_index, group_id in enumerate(groups):
            shift(tmp_path, group_id, map_index)
        assert [admin.groups[group_id].positions for group_id in "ab"] == [{at: 6}, {at: 5}]


def test_a_task_can_be_mapped_over_distances(admin: FakeAdmin, tmp_path: Path) -> None:
    at = TopicPartition("t", 0)
    admin.groups = {"a": FakeGroup({at: 8}), "b": FakeGroup({at: 7})}
    for map_index, group_id in enumerate("ab"):
        shift(tmp_path, group_id, map_index, -1 - map_index)
    assert [admin.groups[group_id].positions for group_id in "ab"] == [{at: 7}, {at: 5}]


def test_a_task_can_be_mapped_over_the_topics_of_a_group(admin: FakeAdmin, tmp_path: Path) -> None:
    """What another of its tasks set of another topic says nothing of this one's: also if that was used since."""
    one, two = TopicPartition("t", 0), TopicPartition("u", 0)
    admin.groups = {"a": FakeGroup({one: 8, two: 7})}
    assert shift(tmp_path, "a", 0, topics=["t"])["counts"]["changed"] == 1
    assert admin.groups["a"].positions == {one: 6, two: 7}
    admin.groups = {"a": FakeGroup({one: 7, two: 7})}
    assert shift(tmp_path, "a", 1, topics=["u"])["counts"]["changed"] == 1
    assert admin.groups["a"].positions == {one: 7, two: 5}
    assert shift(tmp_path, "a", 1, topics=["t"])["counts"]["kept"] == 1


def delete_all(storage: Path, *, run_id: str = "manual__1") -> dict[str, Any]:
    return scene.delete(storage, context(run_id), group_ids=["a", "b"])


def test_a_deletion_by_name_goes_on_where_its_first_try_stopped(admin: FakeAdmin, tmp_path: Path) -> None:
    """What the first try has deleted does not exist: that was a mistake in the list, and the rest was never deleted."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "other": FakeGroup()}
    admin.delete_errors = {"b": BrokerError(30, "GROUP_AUTHORIZATION_FAILED", "refused", api="DeleteGroups")}
    with pytest.raises(GroupsFailedError, match="'b'"):
        delete_all(tmp_path)
    assert admin.deleted == ["a"]
    admin.delete_errors = {}
    with pytest.raises(ConfigurationError, match=r"group_ids.*'a'.*do not exist"):
        delete_all(tmp_path, run_id="manual__2")
    done = delete_all(tmp_path)
    assert (admin.deleted, done["counts"]["deleted"], done["counts"]["gone"]) == (["a", "b"], 1, 1)


@pytest.mark.parametrize("when", ["list", "backup"])
def test_a_group_that_its_first_try_saw_go_stops_no_later_try(admin: FakeAdmin, tmp_path: Path, when: str) -> None:
    """Another program deleted it, or its offsets expired: it was in the list rightly."""
    admin.groups = {"a": FakeGroup(), "b": FakeGroup(), "other": FakeGroup()}
    admin.delete_errors = {"b": BrokerError(30, "GROUP_AUTHORIZATION_FAILED", "refused", api="DeleteGroups")}

    def expire(call: str) -> None:
        looks = admin.call_names.count("describe")
        if call == "describe" and looks == (0 if when == "list" else 1):
            admin.groups.pop("a", None)

    admin.before = expire
    with pytest.raises(GroupsFailedError, match="'b'"):
        delete_all(tmp_path)
    admin.before, admin.delete_errors = lambda call: None, {}
    done = delete_all(tmp_path)
    assert (admin.deleted, done["counts"]["deleted"], done["counts"]["gone"]) == (["b"], 1, 1)


def test_a_task_can_be_mapped_over_the_partitions_of_a_group(admin: FakeAdmin, tmp_path: Path) -> None:
    """What another of its tasks set was used since: that says nothing of what this one sets."""

    def alter(map_index: int) -> dict[str, Any]:
        offsets = {"a": {"t": {map_index: 3}}}
        return scene.run(AlterGroupOffsetsOperator, tmp_path, context(map_index=map_index), offsets=offsets)

    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    admin.log = (0, 10)
    admin.groups = {"a": FakeGroup({one: 8, two: 7})}
    assert alter(0)["counts"]["changed"] == 1
    admin.commit("a", *one, 6)  # its consumers ran for a while, before the second one was tried again
    assert alter(1)["counts"]["changed"] == 1
    assert admin.groups["a"].positions == {one: 6, two: 3}
    assert list(alter(0)["kept"]) == ["a"]
    assert admin.groups["a"].positions == {one: 6, two: 3}
