"""The report tab of a run over as many clusters as Airflow maps a task over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from airflow.models import import_all_models
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils import session as sessions
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session, configure_mappers

from airflow_kafka_groups.hooks.links import REPORT_XCOM
from airflow_kafka_groups.plugins.report_files import cluster_of, named_reports, newest_by_cluster

CLUSTERS = 1_024
TASKS = ("plan", "approve", "report")
FLEET = "/data/_fleet/reports/20260101T000000Z-00000000.html"


def path_of(cluster: int) -> str:
    return f"/data/c{cluster:04}/reports/20260101T000000Z-{cluster:08x}.html"


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each cluster's tasks name its report: a cluster is through before the next one begins."""
    import_all_models()  # type: ignore[no-untyped-call]  # Airflow's own
    configure_mappers()  # otherwise done within the package, for whose own warnings tests fail
    engine = create_engine("sqlite://")
    TaskInstance.metadata.create_all(engine, [TaskInstance.__table__, XComModel.__table__])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    named = [(f"clean_up.{task}", index, path_of(index)) for index in range(CLUSTERS) for task in TASKS]
    rows = [
        {
            "dag_run_id": 1,
            "dag_id": "cleanup_fleet",
            "run_id": "r",
            "key": REPORT_XCOM,
            "task_id": task_id,
            "map_index": map_index,
            "value": value,
            "timestamp": start + timedelta(seconds=number),
        }
        for number, (task_id, map_index, value) in enumerate([*named, ("fleet", -1, FLEET)])
    ]
    with engine.begin() as connection:
        connection.execute(insert(XComModel), rows)

    @contextmanager
    def session() -> Iterator[Session]:
        with Session(engine) as opened:
            yield opened

    monkeypatch.setattr(sessions, "create_session", session)


def test_every_cluster_s_report_is_found(database: None) -> None:
    found = named_reports("cleanup_fleet", "r")
    assert {report.path for report in found} == {FLEET, *map(path_of, range(CLUSTERS))}
    assert {report.task_id for report in found} == {"clean_up.report", "fleet"}
    assert named_reports("cleanup_fleet", "another") == []


def test_every_cluster_has_its_trend(database: None) -> None:
    assert [cluster_of(report) for report in newest_by_cluster("cleanup_fleet")] == [
        f"c{index:04}" for index in range(CLUSTERS)
    ]
