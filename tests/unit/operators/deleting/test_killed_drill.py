"""A drill that is killed: its scratch groups stay, and the next try of the task removes them."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator, RestoreDrillOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators.scene import context

T0 = TopicPartition("t", 0)
pytestmark = pytest.mark.safety


class Killed(BaseException):
    """The process ends here: whatever would be asked afterwards is not."""


def rehearse(storage: Path, plan_id: str, run_id: str = "weekly__1") -> dict[str, Any]:
    stored: dict[str, Any] = {"storage_path": str(storage), "cluster": "c"}
    return RestoreDrillOperator(task_id="drill", plan_id=plan_id, **stored).execute(context(run_id))


@pytest.fixture
def killed(admin: FakeAdmin, tmp_path: Path) -> str:
    """The id of a backup whose drill was killed when its scratch groups were there."""
    admin.groups = {"a": FakeGroup({T0: 5}), "b": FakeGroup({T0: 6})}
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": "c"}
    backup = str(BackupGroupOffsetsOperator(task_id="b", **stored).execute({})["plan_id"])
    admin.forget_calls()

    def kill(call: str) -> None:
        if "alter" in admin.call_names and call != "alter":
            raise Killed

    admin.before = kill
    with pytest.raises(Killed):
        rehearse(tmp_path, backup)
    admin.before = lambda call: None
    admin.forget_calls()
    assert len(admin.groups) == 4
    return backup


def test_a_retry_removes_what_its_killed_try_left_and_makes_the_drill(
    admin: FakeAdmin, tmp_path: Path, killed: str
) -> None:
    assert rehearse(tmp_path, killed)["restored"] == 2
    assert sorted(admin.groups) == ["a", "b"]


def test_what_the_killed_try_restored_is_removed_when_the_log_has_moved_on(
    admin: FakeAdmin, tmp_path: Path, killed: str
) -> None:
    """Somebody clears the task the next morning, and retention has removed the records meanwhile."""
    admin.ends = {T0: (6, 200)}
    assert rehearse(tmp_path, killed)["restored"] == 1
    assert sorted(admin.groups) == ["a", "b"]


def test_another_task_leaves_them_alone_and_makes_its_own_drill(admin: FakeAdmin, tmp_path: Path, killed: str) -> None:
    """It may be a drill that goes on."""
    before = set(admin.groups)
    assert rehearse(tmp_path, killed, "weekly__2")["restored"] == 2
    assert set(admin.groups) == before


def test_what_somebody_has_committed_to_one_of_them_since_is_not_deleted(
    admin: FakeAdmin, tmp_path: Path, killed: str
) -> None:
    taken = sorted(admin.groups.keys() - {"a", "b"})[0]
    admin.commit(taken, *T0, 9)
    with pytest.raises(MaintenanceError, match=r"scratch groups exist already.*Delete them if no other drill"):
        rehearse(tmp_path, killed)
    assert admin.groups[taken].positions == {T0: 9}
