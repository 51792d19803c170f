"""The operator that exports metrics of groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, SnapshotError
from airflow_kafka_groups.operators.report import ExportGroupMetricsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.openmetrics import read_openmetrics
from tests.unit.operators import scene


@pytest.fixture
def judged(admin: FakeAdmin, tmp_path: Path) -> str:
    """Return a judged snapshot of two groups and a family of two."""
    admin.groups = {name: FakeGroup() for name in ("a", "b", "etl-1", "etl-2")}
    snapshot_id = scene.take_snapshot(tmp_path)
    scene.judge(tmp_path, snapshot_id, stale={"a"})
    return snapshot_id


def export(storage: Path, **arguments: Any) -> dict[str, Any]:
    return ExportGroupMetricsOperator(
        task_id="t", storage_path=str(storage), cluster=scene.CLUSTER, **arguments
    ).execute({})


def test_a_file_is_written_for_the_scraper(judged: str, tmp_path: Path) -> None:
    scene.take_snapshot(tmp_path)  # not judged yet
    path = tmp_path / "textfile" / "groups.prom"
    found = export(tmp_path, openmetrics_path=str(path), exclude=["b"])
    assert found == {
        "snapshot_id": judged,
        "groups": 1,
        "families": 1,
        "omitted": 0,
        "openmetrics_path": str(path),
    }
    read = {family.name: family.samples for family in read_openmetrics(path.read_text())}
    (lag,) = read["kafka_groups_lag_records"]
    assert (dict(lag.labels), lag.value) == ({"cluster": scene.CLUSTER, "group": "a"}, 5)
    assert read["kafka_groups_family_groups"][0].value == 2
    assert read["kafka_groups_since_movement_seconds"][0].value == scene.DAYS * 86_400


def test_something_has_to_be_exported(judged: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="openmetrics_path"):
        export(tmp_path)
    with pytest.raises(ConfigurationError, match="openmetrics_path"):
        export(tmp_path, openmetrics_path="groups.prom")


@pytest.mark.parametrize("most", [0, 10_001, "many"])
def test_the_limit_has_a_limit(tmp_path: Path, most: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_groups"):
        export(tmp_path, max_groups=most, airflow_metrics=True)


def test_a_snapshot_without_verdicts_fails_and_leaves_the_old_file(judged: str, tmp_path: Path) -> None:
    path = tmp_path / "groups.prom"
    path.write_text("old")
    with pytest.raises(SnapshotError, match="is not judged"):
        export(tmp_path, snapshot_id=scene.take_snapshot(tmp_path), openmetrics_path=str(path))
    assert path.read_text() == "old"
