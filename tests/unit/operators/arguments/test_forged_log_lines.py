"""A group's name writes no line of its own into a task's log: who reads it takes each line for the task's word."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.groups import DescribeGroupsOperator, FindCoordinatorsOperator
from airflow_kafka_groups.operators.offsets import ListGroupLagOperator
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from airflow_kafka_groups.triggers.conditions import PollResult
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.operators import scene

NAME = "a\nForged: nothing was deleted\x1b[2J" + "x" * 1_000
SHOWN = r"a\nForged: nothing was deleted\x1b[2J"

pytestmark = pytest.mark.safety


def check_log(capsys: pytest.CaptureFixture[str], *lines: str) -> None:
    log = capsys.readouterr().out
    for line in lines:
        assert f"{line}{SHOWN}" in log
    assert "\nForged" not in log
    assert "\x1b[2J" not in log
    assert "x" * 300 not in log


def test_in_the_log_of_a_clean_up(admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    scene.judge(tmp_path, scene.take_snapshot(tmp_path), stale=[NAME])
    plan = scene.plan(tmp_path, max_share=1.0)
    scene.back_up(tmp_path, plan)
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER, "plan_id": plan["plan_id"]}
    DeleteGroupsOperator(task_id="d", plan_digest=plan["digest"], **stored).execute({})
    check_log(capsys, "To delete: ", "deleted: ")


def test_in_the_log_of_a_look(admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    admin.groups = {NAME: FakeGroup(), "b": FakeGroup()}
    ListGroupLagOperator(task_id="l", group_ids=[NAME], max_lag=0).execute({})
    admin.errors[NAME] = broker_error("GROUP_AUTHORIZATION_FAILED")
    DescribeGroupsOperator(task_id="t", group_ids=[NAME, "b"]).execute({})
    FindCoordinatorsOperator(task_id="c", group_ids=[NAME, "b"]).execute({})
    stored: dict[str, Any] = {"storage_path": str(tmp_path), "cluster": scene.CLUSTER}
    BackupGroupOffsetsOperator(task_id="b", group_ids=[NAME, "b"], **stored).execute({})
    check_log(capsys, "Lag of ", "Not described: ", "No coordinator: ", "Not backed up: ")


def test_in_the_log_of_a_sensor(admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its groups may be those that a deletion recorded, and its triggers pass the line on in an event."""
    admin.groups = {NAME: FakeGroup()}
    sensor = DeleteGroupsSensor(task_id="s", group_ids=[NAME])
    assert not sensor.poke({})
    check_log(capsys, "waiting for ")
    result = str(PollResult(reached=False, waiting={NAME: NAME}, total=1))
    assert result.count(SHOWN) == 2
    assert result.isprintable()
    assert len(result) < 900
