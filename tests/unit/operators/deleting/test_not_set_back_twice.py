"""A change of offsets whose task is retried or cleared: what was used since an earlier try is not set back again."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import ListedOffset, TopicPartition
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.offset_changes import (
    AlterGroupOffsetsOperator,
    ResetGroupOffsetsOperator,
    RestoreGroupOffsetsOperator,
)
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.operators import scene
from tests.unit.operators.scene import context

T0 = TopicPartition("t", 0)
pytestmark = pytest.mark.safety


def run(kind: Any, storage: Path, run_id: str = "manual__1", **arguments: Any) -> dict[str, Any]:
    operator = kind(task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, **arguments)
    found = operator.execute(context(run_id))
    assert json.loads(json.dumps(found)) == found
    return dict(found)


def reset(storage: Path, run_id: str = "manual__1", **target: Any) -> dict[str, Any]:
    return run(ResetGroupOffsetsOperator, storage, run_id, group_ids=["a", "b"], **target)


def alter(storage: Path, run_id: str = "manual__1", **more: Any) -> dict[str, Any]:
    return run(AlterGroupOffsetsOperator, storage, run_id, offsets={"a": {"t": {0: 3}}, "b": {"t": {0: 3}}}, **more)


def positions(admin: FakeAdmin) -> list[int]:
    return [admin.groups[group_id].positions[T0] for group_id in "ab"]


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
    admin: FakeAdmin, tmp_path: Path, change: Any, set_to: int
) -> None:
    admin.by_time[T0] = ListedOffset(5)
    assert change(tmp_path, "manual__1")["counts"]["changed"] == 2
    assert positions(admin) == [set_to, set_to]
    admin.commit("a", *T0, 6)  # its consumers ran for a while
    found = change(tmp_path, "manual__1")
    assert positions(admin) == [6, set_to]
    assert list(found["kept"]) == ["a"]
    assert "is at 6: it was used since an earlier try" in found["kept"]["a"]
    assert "start a new DAG run" in found["kept"]["a"]
    assert change(tmp_path, "manual__2")["counts"]["kept"] == 0
    assert positions(admin) == [set_to, set_to], "whoever wants it starts another run"


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_restore_that_overwrites_sets_no_group_back_twice(admin: FakeAdmin, tmp_path: Path, overwrite: bool) -> None:
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER}
    backup = BackupGroupOffsetsOperator(task_id="backup", **stored).execute({})
    arguments = {"plan_id": backup["plan_id"], "overwrite": overwrite}
    del admin.groups["b"]
    admin.commit("a", *T0, 9)
    run(RestoreGroupOffsetsOperator, tmp_path, **arguments)
    assert positions(admin) == [8 if overwrite else 9, 8]
    admin.commit("a", *T0, 10)
    del admin.groups["b"]  # what is gone was not used
    found = run(RestoreGroupOffsetsOperator, tmp_path, **arguments)
    assert positions(admin) == [10, 8]
    assert list(found["kept"]) == ["a"]
    run(RestoreGroupOffsetsOperator, tmp_path, "manual__2", **arguments)
    assert positions(admin) == [8 if overwrite else 10, 8]


def test_a_retry_sets_the_end_of_the_log_as_the_first_try_found_it(admin: FakeAdmin, tmp_path: Path) -> None:
    """As the documentation says: records that came in between would be skipped, and nobody asked for that."""
    reset(tmp_path, to="latest")
    admin.log = (0, 15)
    assert reset(tmp_path, to="latest")["counts"]["unchanged"] == 2
    assert positions(admin) == [10, 10]


def test_what_the_first_try_kept_is_set_when_its_consumers_have_stopped(admin: FakeAdmin, tmp_path: Path) -> None:
    """It was never set back: that it moved since then is no reason to keep it."""
    admin.groups["a"] = FakeGroup({T0: 8}, members=1)
    assert list(reset(tmp_path, to="earliest")["kept"]) == ["a"]
    admin.groups["a"] = FakeGroup({T0: 9})
    counts = reset(tmp_path, to="earliest")["counts"]
    assert (counts["changed"], counts["unchanged"], counts["kept"]) == (1, 1, 0)
    assert positions(admin) == [0, 0]


@pytest.mark.parametrize("is_used", [False, True])
def test_another_target_counts_for_groups_that_were_not_used_since(
    admin: FakeAdmin, tmp_path: Path, is_used: bool
) -> None:
    """A template with the time of day renders to another one for each try."""
    reset(tmp_path, to="earliest")
    if is_used:
        admin.commit("a", *T0, 6)
    assert reset(tmp_path, to="latest")["counts"]["kept"] == is_used
    assert positions(admin) == [6 if is_used else 10, 10]
    assert reset(tmp_path, to="latest")["counts"]["kept"] == is_used
    assert positions(admin) == [6 if is_used else 10, 10]


@pytest.mark.parametrize(
    ("first", "then", "error"),
    [
        ({"shift_by": -2}, {"to": "earliest"}, r"began to move offsets by -2, see .*, and this one .* earliest\."),
        ({"to": "latest"}, {"shift_by": -2}, r"began to .* latest, see .*, and this one would move offsets by -2\."),
        ({"shift_by": -2}, {"shift_by": -3}, r"move offsets by -2, see .*-before\.json.* move offsets by -3"),
    ],
    ids=["away from a distance", "to a distance", "another distance"],
)
def test_a_distance_and_another_target_need_two_runs(
    admin: FakeAdmin, tmp_path: Path, first: Any, then: Any, error: str
) -> None:
    """The message said that offsets would be moved by None."""
    reset(tmp_path, **first)
    moved = positions(admin)
    with pytest.raises(MaintenanceError, match=error):
        reset(tmp_path, **then)
    assert positions(admin) == moved


@pytest.mark.parametrize("result", ["none", "damaged", '{"format": 1, "groups": [{}]}'])
def test_without_a_result_whatever_was_meant_counts(admin: FakeAdmin, tmp_path: Path, result: str) -> None:
    """A worker was killed: nobody knows which groups it had kept."""
    reset(tmp_path, to="earliest")
    (path,) = (tmp_path / scene.CLUSTER / "changes").glob("*-result.json")
    path.unlink() if result == "none" else path.write_text(result)
    admin.commit("a", *T0, 6)
    assert list(reset(tmp_path, to="earliest")["kept"]) == ["a"]
    assert positions(admin) == [6, 0]
