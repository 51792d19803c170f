"""A reset by a distance that is tried again after its connection was renamed, or Airflow's database was restored."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.kafka.models import TopicPartition
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import CLUSTER_ID, FakeGroup
from tests.fakes.refusing_path import refuse_listing
from tests.unit.operators import scene
from tests.unit.operators.deleting.test_reset_again import positions, shift
from tests.unit.operators.scene import context

T0 = TopicPartition("t", 0)
pytestmark = pytest.mark.safety


@pytest.fixture
def moved(admin: FakeAdmin, tmp_path: Path) -> FakeAdmin:
    """Two groups that a first try moved by -2."""
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    assert shift(tmp_path)["counts"]["changed"] == 2
    return admin


def test_what_the_first_try_moved_is_not_moved_again(moved: FakeAdmin, tmp_path: Path) -> None:
    """The folder of a cluster is called like its connection by default."""
    assert shift(tmp_path, cluster="renamed")["counts"]["unchanged"] == 2
    assert positions(moved) == [{T0: 6}, {T0: 5}]
    (record,) = (tmp_path / scene.CLUSTER / "changes").glob("*-before.json")
    assert json.loads(record.read_text())["kafka_cluster_id"] == CLUSTER_ID


def test_a_run_that_is_triggered_anew_since_airflow_has_forgotten_it_moves_nothing_twice(
    moved: FakeAdmin, tmp_path: Path
) -> None:
    """Its database was restored from a copy of two days ago, and somebody triggers the run again by the same id."""
    anew = context()
    anew["dag_run"].run_after += timedelta(days=2)
    assert shift(tmp_path, run=anew)["counts"]["unchanged"] == 2
    assert positions(moved) == [{T0: 6}, {T0: 5}]


@pytest.mark.parametrize("cluster_id", ["another", None])
def test_a_task_that_is_mapped_over_clusters_moves_the_groups_of_each(
    moved: FakeAdmin, tmp_path: Path, cluster_id: str | None
) -> None:
    moved.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    moved.cluster = cluster_id
    assert shift(tmp_path, cluster="another")["counts"]["changed"] == 2
    assert positions(moved) == [{T0: 6}, {T0: 5}]


def test_who_may_see_one_folder_only_can_move_groups(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    admin.groups = {"a": FakeGroup({T0: 8}), "b": FakeGroup({T0: 7})}
    refuse_listing(monkeypatch, tmp_path)
    for outcome in ("changed", "unchanged"):
        assert shift(tmp_path)["counts"][outcome] == 2
    assert "another name are not known" in caplog.text


@pytest.mark.parametrize("what", ["its folder", "its changes"])
def test_the_first_try_is_found_beside_a_folder_that_this_user_may_not_see(
    moved: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """One such folder, and none was looked into: the groups were moved a second time."""
    changes = tmp_path / "a-team" / "changes"
    changes.mkdir(parents=True)
    refuse_listing(monkeypatch, changes if what == "its changes" else changes.parent)
    assert shift(tmp_path, cluster="renamed")["counts"]["unchanged"] == 2
    assert positions(moved) == [{T0: 6}, {T0: 5}]
    assert "a-team" in caplog.text
