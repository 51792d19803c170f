"""A deletion of offsets whose task is retried or cleared: what was committed since an earlier try is not deleted."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import GroupsFailedError, MaintenanceError, OutcomeUnknownError, StorageError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.offset_changes import DeleteGroupOffsetsOperator
from airflow_kafka_groups.storage.json_files import write_listing
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.operators import scene
from tests.unit.operators.scene import context

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
pytestmark = pytest.mark.safety


def forget(storage: Path, run_id: str = "manual__1", **arguments: Any) -> dict[str, Any]:
    scope = {"storage_path": str(storage), "cluster": scene.CLUSTER, "group_ids": ["a", "b"], "topics": ["t"]}
    return DeleteGroupOffsetsOperator(task_id="t", **{**scope, **arguments}).execute(context(run_id))


@pytest.fixture
def half_done(admin: FakeAdmin, tmp_path: Path) -> FakeAdmin:
    """A first try that deleted the offsets of a, and kept those of b, of which a member reads the topic."""
    admin.groups = {"a": FakeGroup({T0: 5, U0: 1}), "b": FakeGroup({T0: 5, U0: 1}, members=1)}
    with pytest.raises(GroupsFailedError, match=r"^1 of 2 failed: 'b': a member reads t"):
        forget(tmp_path)
    assert [group.positions for group in admin.groups.values()] == [{U0: 1}, {T0: 5, U0: 1}]
    admin.groups["b"] = FakeGroup({T0: 6, U0: 2})  # its consumers are stopped, after they read on
    return admin


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_group_has_committed_since_it_was_forgotten_stays(
    half_done: FakeAdmin, tmp_path: Path, dry_run: bool
) -> None:
    half_done.commit("a", *T0, 7)  # its application reads the topic again, and is down at the moment
    with pytest.raises(GroupsFailedError, match=r"^1 of 2 failed: 'a': t\[0\] is at 7: it was used.*to delete it"):
        forget(tmp_path, dry_run=dry_run)
    left = {T0: 6, U0: 2} if dry_run else {U0: 2}
    assert [group.positions for group in half_done.groups.values()] == [{T0: 7, U0: 1}, left]
    assert forget(tmp_path, "manual__2")["partitions"] == len(left), "whoever wants it starts another run"


def test_a_retry_forgets_what_the_first_try_had_kept(half_done: FakeAdmin, tmp_path: Path) -> None:
    assert forget(tmp_path)["counts"]["changed"] == 1
    assert [group.positions for group in half_done.groups.values()] == [{U0: 1}, {U0: 2}]
    assert forget(tmp_path)["counts"]["unchanged"] == 2


@pytest.mark.parametrize("error", [StorageError("503 Slow Down"), MaintenanceError("differs from what was written")])
def test_a_result_that_cannot_be_recorded_hides_no_failure(
    half_done: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The offsets are gone by then: which groups failed must be known."""
    half_done.commit("a", *T0, 5)  # as it was found
    half_done.forget_errors["b"] = broker_error("GROUP_SUBSCRIBED_TO_TOPIC")

    def write(folder: Any, name: str, *data: Any) -> Any:
        if "result" in name:
            raise error
        return write_listing(folder, name, *data)

    monkeypatch.setattr("airflow_kafka_groups.change.restore.change_offsets.write_listing", write)
    with pytest.raises(OutcomeUnknownError, match=r"changed 1, failed 1; first 'b': .*GROUP_SUBSCRIBED_TO_TOPIC"):
        forget(tmp_path)
    assert half_done.groups["a"].positions == {U0: 1}


def test_other_topics_of_the_task_are_no_matter(half_done: FakeAdmin, tmp_path: Path) -> None:
    half_done.commit("a", *T0, 7)
    assert forget(tmp_path, topics=["u"])["counts"]["changed"] == 2
