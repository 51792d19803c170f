"""A deletion in quiet hours waits without a worker."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import TaskDeferred

from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from tests.fakes.admin import FakeAdmin
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene

pytestmark = pytest.mark.safety
POLICY = "version: 1\nrules: [{name: rest, action: delete, idle: 1d}]\n"


@pytest.fixture
def planned(admin: FakeAdmin, tmp_path: Path) -> dict[str, Any]:
    plan = scene.plan_of(admin, tmp_path, ["a"], ["b"], POLICY)
    scene.back_up(tmp_path, plan)
    return plan


def deletion(folder: Path, planned: dict[str, Any], **arguments: Any) -> DeleteGroupsOperator:
    return DeleteGroupsOperator(**scene.of_plan(folder, planned, "d"), **arguments)


def be_quiet(folder: Path) -> datetime:
    """Let the policy have quiet hours from an hour ago; return their end, in two hours."""
    now = datetime.now(UTC)
    end = (now + timedelta(hours=2)).replace(second=0, microsecond=0)
    write_policy(folder, f"{POLICY}quiet_hours: '{now - timedelta(hours=1):%H:%M}-{end:%H:%M}'\n")
    return end


def test_it_waits_without_a_worker_and_checks_everything_again(
    admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path
) -> None:
    end = be_quiet(tmp_path)
    operator = deletion(tmp_path, planned)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    assert deferred.value.trigger.moment == end
    assert deferred.value.method_name == "execute_after_quiet_time"
    with pytest.raises(TaskDeferred):
        operator.execute_after_quiet_time({})
    write_policy(tmp_path, POLICY)
    assert operator.execute_after_quiet_time({})["counts"]["deleted"] == 1
    assert set(admin.groups) == {"b"}


def test_airflow_lets_it_go_on_where_operators_may_not_be_nested(
    admin: FakeAdmin, planned: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExecutorSafeguard, "test_mode", False)
    operator = deletion(tmp_path, planned, allow_nested_operators=False)
    assert operator.execute_after_quiet_time({})["counts"]["deleted"] == 1
    assert set(admin.groups) == {"b"}


def test_a_wait_is_never_so_short_that_airflow_loses_the_task(tmp_path: Path, planned: dict[str, Any]) -> None:
    operator = deletion(tmp_path, planned)
    for end in (datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1)):
        with pytest.raises(TaskDeferred) as deferred:
            operator._defer_until(end, "quiet hours")
        moment = deferred.value.trigger.moment
        assert moment >= end
        assert (moment == end) is (end > datetime.now(UTC))
        assert moment > datetime.now(UTC) + timedelta(seconds=4)
