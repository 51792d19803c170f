"""When a deletion waits, stops, and how fast it goes: quiet hours, a Variable, a killed task, limits by the second."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.timeout import timeout

from airflow_kafka_groups.change.deletion.request import DeletionLimits
from airflow_kafka_groups.exceptions import KafkaGroupsError, LeaseNotAcquiredError
from airflow_kafka_groups.hooks.airflow_lookups import STOP_VARIABLE
from airflow_kafka_groups.hooks.retries import is_final
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.unit.judge.policy.files import write_policy
from tests.unit.operators import scene
from tests.unit.operators.scene import Planned, Site

pytestmark = pytest.mark.safety


@pytest.fixture(autouse=True)
def _groups(admin: FakeAdmin) -> None:
    admin.groups = {name: FakeGroup() for name in ("a", "b")}


@pytest.mark.parametrize("value", ["true", "1", "yes", "incident 4711", "stop", "[]"])
def test_the_variable_stops_the_deletion(site: Site, backed_up: Planned, value: str) -> None:
    site.patch.setenv(f"AIRFLOW_VAR_{STOP_VARIABLE.upper()}", value)
    done = site.apply(backed_up)
    assert site.admin.deleted == []
    assert done["kept_reasons"] == {"stopped": 2}
    assert repr(STOP_VARIABLE) in done["kept"]["a"]


@pytest.mark.parametrize("value", ["false", "no", "OFF", "0", "", " False "])
def test_a_variable_that_says_no_does_not(site: Site, backed_up: Planned, value: str) -> None:
    site.patch.setenv(f"AIRFLOW_VAR_{STOP_VARIABLE.upper()}", value)
    assert site.apply(backed_up)["counts"]["deleted"] == 2


def test_a_killed_task_says_so() -> None:
    task = DeleteGroupsOperator(task_id="t", storage_path="/x", group_ids=["a"], stop_variable=None)
    assert task.why_stop() is None
    task.on_kill()
    assert task.why_stop() == "the task is being killed"


def test_the_pace_is_passed_on_and_0_is_no_limit(backed_up: Planned, site: Site) -> None:
    seen = list[DeletionLimits]()

    async def note(*given: Any, **_: Any) -> None:
        seen.append(given[-1].limits)
        raise LeaseNotAcquiredError("g", "somebody")

    site.patch.setattr("airflow_kafka_groups.change.deletion.run.delete_by_plan", note)
    with pytest.raises(AirflowSkipException):
        site.apply(backed_up, groups_per_second="25", bytes_per_second=0)
    assert seen == [DeletionLimits(groups_per_second=25.0)]


def test_a_task_whose_time_is_over_remembers_what_it_had_begun(site: Site, backed_up: Planned) -> None:
    """Its ``execution_timeout`` ends it while brokers are silent: nobody knows what they did, so it is not repeated."""
    site.admin.delete_hangs = True
    with pytest.raises(AirflowTaskTimeout), timeout(1.5):  # type: ignore[no-untyped-call]  # Airflow's own
        site.apply(backed_up)
    assert site.admin.closed == 1
    site.admin.delete_hangs = False
    assert site.apply(backed_up)["counts"]["deleted"] == 0
    assert site.admin.deleted == []


def test_a_task_that_is_killed_is_no_success(site: Site, backed_up: Planned) -> None:
    """Airflow hands on the SIGTERM by which Kubernetes evicts a pod, and believes what the task then returns."""
    plan: dict[str, Any] = {"plan_id": backed_up["plan_id"], "plan_digest": backed_up["digest"]}
    task = DeleteGroupsOperator(task_id="t", **site.stored, **plan)
    site.admin.before = lambda call: task.on_kill()
    with pytest.raises(KafkaGroupsError, match=r"the task was killed: 2 of 2 are left .*recorded in ") as caught:
        task.execute({})
    assert not is_final(caught.value), "another try deletes them"
    assert site.admin.deleted == []
    site.admin.before = lambda call: None
    assert site.apply(backed_up)["counts"]["deleted"] == 2


# A deletion in quiet hours waits without a worker.


POLICY = "version: 1\nrules: [{name: rest, action: delete, idle: 1d}]\n"


@pytest.fixture
def planned(site: Site) -> dict[str, Any]:
    plan = site.plan_of(["a"], ["b"], POLICY)
    site.back_up(plan)
    return plan


def deletion(folder: Path, planned: dict[str, Any], **arguments: Any) -> DeleteGroupsOperator:
    return DeleteGroupsOperator(**scene.of_plan(folder, planned, "d"), **arguments)


def be_quiet(folder: Path) -> datetime:
    """Let the policy have quiet hours from an hour ago; return their end, in two hours."""
    now = datetime.now(UTC)
    end = (now + timedelta(hours=2)).replace(second=0, microsecond=0)
    write_policy(folder, f"{POLICY}quiet_hours: '{now - timedelta(hours=1):%H:%M}-{end:%H:%M}'\n")
    return end


def test_it_waits_without_a_worker_and_checks_everything_again(site: Site, planned: Planned) -> None:
    end = be_quiet(site.storage)
    operator = deletion(site.storage, planned)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    assert deferred.value.trigger.moment == end
    assert deferred.value.method_name == "execute_after_quiet_time"
    with pytest.raises(TaskDeferred):
        operator.execute_after_quiet_time({})
    write_policy(site.storage, POLICY)
    assert operator.execute_after_quiet_time({})["counts"]["deleted"] == 1
    assert set(site.admin.groups) == {"b"}


def test_airflow_lets_it_go_on_where_operators_may_not_be_nested(site: Site, planned: Planned) -> None:
    site.patch.setattr(ExecutorSafeguard, "test_mode", False)
    operator = deletion(site.storage, planned, allow_nested_operators=False)
    assert operator.execute_after_quiet_time({})["counts"]["deleted"] == 1
    assert set(site.admin.groups) == {"b"}


def test_a_wait_is_never_so_short_that_airflow_loses_the_task(tmp_path: Path, planned: dict[str, Any]) -> None:
    operator = deletion(tmp_path, planned)
    for end in (datetime.now(UTC), datetime.now(UTC) + timedelta(hours=1)):
        with pytest.raises(TaskDeferred) as deferred:
            operator._defer_until(end, "quiet hours")
        moment = deferred.value.trigger.moment
        assert moment >= end
        assert (moment == end) is (end > datetime.now(UTC))
        assert moment > datetime.now(UTC) + timedelta(seconds=4)
