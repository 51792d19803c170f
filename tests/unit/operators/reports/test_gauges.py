"""Gauges: a server keeps what was sent last, so what is over has to be sent, and what is not known must not."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import StorageError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.journal.journal import RunJournal
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator, ListGroupOffsetsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.operators import scene

T0 = TopicPartition("t", 0)


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The values that a statsd server shows: the last of each gauge."""
    from airflow.providers.common.compat.sdk import Stats

    shown: dict[str, Any] = {}
    monkeypatch.setattr(Stats, "gauge", lambda stat, value, **_: shown.__setitem__(stat, value))
    return shown


def test_a_state_without_groups_is_a_gauge_of_0(admin: FakeAdmin, tmp_path: Path, gauges: dict[str, Any]) -> None:
    admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup()}
    scene.take_snapshot(tmp_path)
    assert gauges["kafka_groups.prod.groups.Empty"] == 1
    del admin.groups["b"]
    scene.take_snapshot(tmp_path)
    assert gauges["kafka_groups.prod.groups.all"] == 1
    assert gauges["kafka_groups.prod.groups.Stable"] == 1
    assert gauges["kafka_groups.prod.groups.Empty"] == 0, "a statsd server keeps a gauge that is not sent"


def test_a_snapshot_of_named_groups_is_not_the_cluster(
    admin: FakeAdmin, tmp_path: Path, gauges: dict[str, Any]
) -> None:
    """``offsets_to_spark`` takes one of its group: the cluster seemed to have lost all others until the next hour."""
    admin.groups = {"a": FakeGroup(members=1), "b": FakeGroup()}
    scene.take_snapshot(tmp_path)
    before = dict(gauges)
    assert before["kafka_groups.prod.groups.all"] == before["kafka_groups.prod.snapshot.groups"] == 2
    ListGroupOffsetsOperator(task_id="t", storage_path=str(tmp_path), cluster="prod", group_ids=["b"]).execute({})
    assert gauges == before


def test_lag_that_nobody_knows_is_not_0(admin: FakeAdmin, gauges: dict[str, Any]) -> None:
    admin.groups = {"a": FakeGroup({T0: 2})}
    ListGroupLagOperator(task_id="t").execute({})
    assert gauges["kafka_groups.kafka_groups_default.lag.max"] == 8
    admin.offset_errors["a"] = broker_error("COORDINATOR_NOT_AVAILABLE")
    gauges.clear()
    ListGroupLagOperator(task_id="t", group_ids=["a"]).execute({})
    assert gauges.get("kafka_groups.kafka_groups_default.lag.max") != 0, gauges


def test_what_was_deleted_is_counted_where_its_last_record_cannot_be_written(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.common.compat.sdk import Stats

    counted: dict[str, int] = {}
    monkeypatch.setattr(Stats, "incr", lambda stat, count, **_: counted.__setitem__(stat, count))
    planned = scene.planned_once(admin, tmp_path, ["a", "b"], ["live"], backed_up=True)

    def full(*_: Any) -> Any:
        raise StorageError("ended.json could not be written: No space left on device")

    monkeypatch.setattr(RunJournal, "end", full)
    with pytest.raises(StorageError, match="No space left"):
        scene.apply(tmp_path, planned, dry_run=True)
    assert not counted
    with pytest.raises(StorageError, match="No space left"):
        scene.apply(tmp_path, planned)
    assert sorted(admin.deleted) == ["a", "b"]
    assert counted == {"kafka_groups.prod.deletion.deleted": 2}
