"""The tasks that measure lag and export metrics, and their gauges."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, ConnectionFailedError, SnapshotError, StorageError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.journal import RunJournal
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from airflow_kafka_groups.operators.report import ExportGroupMetricsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.openmetrics import read_openmetrics
from tests.unit.operators import scene
from tests.unit.operators.scene import Site


def test_a_named_group_without_a_commit_has_no_lag_of_zero(admin: FakeAdmin) -> None:
    admin.groups = {"orders": FakeGroup({TopicPartition("t", 0): 10}), "new": FakeGroup({})}
    admin.errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    found = ListGroupLagOperator(task_id="t", group_ids=["orders", "ordres", "secret", "new"]).execute({})
    assert set(found["unknown_groups"]) == {"ordres", "secret", "new"}
    assert "does not exist" in found["unknown_groups"]["ordres"]
    assert "no committed offset" in found["unknown_groups"]["new"]
    assert (found["groups"], found["unknown"], found["total_lag"]) == (4, 3, 0)


def test_of_all_groups_those_without_a_commit_are_not_reported(admin: FakeAdmin) -> None:
    admin.groups = {"orders": FakeGroup({TopicPartition("t", 0): 8}), "new": FakeGroup({})}
    found = ListGroupLagOperator(task_id="t").execute({})
    assert (found["lagging_groups"], found["unknown"]) == ({"orders": 2}, 0)


@pytest.mark.parametrize("sees_all", [True, False])
def test_topics_that_are_hidden_from_the_user_are_said_to_be_missing(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], sees_all: bool
) -> None:
    """Their offsets are in no answer, so a group that reads nothing else has a lag of 0: an alert would never come."""
    admin.groups = {"orders": FakeGroup({})}
    admin.sees_topics = sees_all
    ListGroupLagOperator(task_id="t").execute({})
    assert ("Allow Describe on all topics" in capsys.readouterr().out) is not sees_all


def test_a_lag_that_was_measured_is_not_lost_where_the_last_question_is_not_answered(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.admin.groups = {"orders": FakeGroup({TopicPartition("t", 0): 8})}
    site.patch.setattr(
        site.admin, "sees_all_topics", AsyncMock(side_effect=ConnectionFailedError("b1:9092", "refused"))
    )
    assert ListGroupLagOperator(task_id="t").execute({})["lagging_groups"] == {"orders": 2}
    assert "is not known: b1:9092" in capsys.readouterr().out


def test_records_that_retention_removed_are_no_lag_and_are_counted_apart(admin: FakeAdmin) -> None:
    """They were lag in the task and ``lost`` in the shell: a dead group grew worse for ever."""
    admin.groups = {"dead": FakeGroup({TopicPartition("t", 0): 2})}
    admin.log = (10, 10)
    found = ListGroupLagOperator(task_id="t").execute({})
    assert (found["total_lag"], found["total_lost"], found["lagging_groups"]) == (0, 8, {})


@pytest.fixture
def judged(site: Site) -> str:
    """Return a judged snapshot of two groups and a family of two."""
    return site.judged_once(["a"], ["b", "etl-1", "etl-2"])


def export(storage: Path, **arguments: Any) -> dict[str, Any]:
    return scene.run(ExportGroupMetricsOperator, storage, **arguments)


def test_a_file_is_written_for_the_scraper(judged: str, tmp_path: Path) -> None:
    scene.take_snapshot(tmp_path)  # not judged yet
    path = tmp_path / "textfile" / "groups.prom"
    found = export(tmp_path, openmetrics_path=str(path), exclude=["b"])
    assert found == {"snapshot_id": judged, "groups": 1, "families": 1, "omitted": 0, "openmetrics_path": str(path)}
    read = {family.name: family.samples for family in read_openmetrics(path.read_text())}
    (lag,) = read["kafka_groups_lag_records"]
    assert (dict(lag.labels), lag.value) == ({"cluster": scene.CLUSTER, "group": "a"}, 5)
    assert read["kafka_groups_family_groups"][0].value == 2
    assert read["kafka_groups_since_movement_seconds"][0].value == scene.DAYS * 86_400


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        *(({"openmetrics_path": "/m.prom", "max_groups": most}, "max_groups") for most in (0, 10_001, "many")),
        ({"openmetrics_path": "groups.prom"}, "openmetrics_path"),  # it depends on the worker
    ],
)
def test_a_limit_without_a_limit_and_a_path_that_is_not_absolute_are_refused(
    tmp_path: Path, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigurationError, match=field):
        export(tmp_path, **wrong)


def test_a_snapshot_without_verdicts_fails_and_leaves_the_old_file(judged: str, tmp_path: Path) -> None:
    path = tmp_path / "groups.prom"
    path.write_text("old")
    with pytest.raises(SnapshotError, match="is not judged"):
        export(tmp_path, snapshot_id=scene.take_snapshot(tmp_path), openmetrics_path=str(path))
    assert path.read_text() == "old"


# Gauges: a server keeps what was sent last, so what is over has to be sent, and what is not known must not.


T0 = TopicPartition("t", 0)


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The values that a statsd server shows: the last of each gauge."""
    from airflow.providers.common.compat.sdk import Stats

    shown: dict[str, Any] = {}
    monkeypatch.setattr(Stats, "gauge", lambda stat, value, **_: shown.__setitem__(stat, value))
    return shown


def test_a_state_without_groups_is_a_gauge_of_0(site: Site, gauges: dict[str, Any]) -> None:
    site.admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup()}
    site.take_snapshot()
    assert gauges["kafka_groups.prod.groups.Empty"] == 1
    del site.admin.groups["b"]
    site.take_snapshot()
    assert gauges["kafka_groups.prod.groups.all"] == 1
    assert gauges["kafka_groups.prod.groups.Stable"] == 1
    assert gauges["kafka_groups.prod.groups.Empty"] == 0, "a statsd server keeps a gauge that is not sent"


def test_a_snapshot_of_named_groups_is_not_the_cluster(site: Site, gauges: dict[str, Any]) -> None:
    """``offsets_to_spark`` takes one of its group: the cluster seemed to have lost all others until the next hour."""
    site.admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup()}
    site.take_snapshot()
    before = dict(gauges)
    assert before["kafka_groups.prod.groups.all"] == before["kafka_groups.prod.snapshot.groups"] == 2
    site.run(ListGroupOffsetsOperator, group_ids=["b"])
    assert gauges == before


def test_lag_that_nobody_knows_is_not_0(admin: FakeAdmin, gauges: dict[str, Any]) -> None:
    admin.groups = {"a": FakeGroup({T0: 2})}
    ListGroupLagOperator(task_id="t").execute({})
    assert gauges["kafka_groups.kafka_groups_default.lag.max"] == 8
    admin.offset_errors["a"] = broker_error("COORDINATOR_NOT_AVAILABLE")
    gauges.clear()
    ListGroupLagOperator(task_id="t", group_ids=["a"]).execute({})
    assert gauges.get("kafka_groups.kafka_groups_default.lag.max") != 0, gauges


def test_what_was_deleted_is_counted_where_its_last_record_cannot_be_written(site: Site) -> None:
    from airflow.providers.common.compat.sdk import Stats

    counted: dict[str, int] = {}
    site.patch.setattr(Stats, "incr", lambda stat, count, **_: counted.__setitem__(stat, count))
    planned = site.planned_once(["a", "b"], ["live"], backed_up=True)
    site.patch.setattr(
        RunJournal, "end", Mock(side_effect=StorageError("the entry could not be written: No space left on device"))
    )
    with pytest.raises(StorageError, match="No space left"):
        site.apply(planned, dry_run=True)
    assert not counted
    with pytest.raises(StorageError, match="No space left"):
        site.apply(planned)
    assert sorted(site.admin.deleted) == ["a", "b"]
    assert counted == {"kafka_groups.prod.deletion.deleted": 2}
