"""When a sensor defers, what it hands over, and how it ends."""

import time
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException, TaskDeferralTimeout, TaskDeferred

from airflow_kafka_groups.exceptions import (
    AuthenticationFailedError,
    ConfigurationError,
    KafkaGroupsError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.sensors.groups import GroupsEmptySensor, GroupsExistSensor, GroupsStalledSensor
from airflow_kafka_groups.sensors.offsets import ListGroupOffsetsSensor
from airflow_kafka_groups.triggers.clients import condition_from_json
from airflow_kafka_groups.triggers.conditions import EndReached, NoProgress
from airflow_kafka_groups.triggers.poll import ConditionTrigger
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup

T0 = TopicPartition("t", 0)


def sensor(**arguments: Any) -> GroupsExistSensor:
    return GroupsExistSensor(task_id="t", **{"group_ids": ["a"], "deferrable": True, "timeout": 600, **arguments})


def defer(one: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as deferred:
        one.execute({})
    return deferred.value


def event(status: str = "reached", version: int = 1) -> dict[str, Any]:
    return {"version": version, "status": status, "message": "1 of 1 ready"}


def test_what_is_reached_at_once_is_not_deferred(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup()
    assert sensor().execute({}) is None


def test_it_hands_over_everything_but_secrets(admin: FakeAdmin) -> None:
    deferred = defer(sensor(poke_interval=7, exponential_backoff=True, max_wait=timedelta(minutes=1)))
    assert isinstance(deferred.trigger, ConditionTrigger)
    _, arguments = deferred.trigger.serialize()
    assert 590 < arguments.pop("deadline") - time.time() <= 600
    assert arguments == {
        "kafka_groups_conn_id": "kafka_groups_default",
        "condition": {"kind": "GroupsExist", "group_ids": ["a"], "any_group": False},
        "poll_interval": 7,
        "backoff": True,
        "max_wait": 60.0,
        "silent_fail": False,
    }
    assert deferred.method_name == "execute_complete"
    assert deferred.timeout is not None
    assert deferred.timeout > timedelta(seconds=600), "the trigger keeps the time; this is for one that hangs"
    assert admin.closed == 1


def test_the_ends_of_the_beginning_travel_along(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup({T0: 5})
    one = ListGroupOffsetsSensor(task_id="t", group_ids=["a"], to_end=True, deferrable=True)
    handed_over = condition_from_json(defer(one).trigger.serialize()[1]["condition"])
    assert handed_over == EndReached(group_ids=("a",), targets={"a": {T0: 10}})


def test_reached_is_the_only_success() -> None:
    sensor().execute_complete({}, event())
    with pytest.raises(AirflowSensorTimeout, match="1 of 1 ready"):
        sensor().execute_complete({}, event("timeout"))
    with pytest.raises(KafkaGroupsError, match="1 of 1 ready"):
        sensor().execute_complete({}, event("failed"))


@pytest.mark.parametrize("unclear", [None, {}, "reached", event(version=2), event("done"), {"status": "reached"}])
def test_an_event_of_another_version_is_a_failure(unclear: Any) -> None:
    with pytest.raises(KafkaGroupsError, match="unknown event"):
        sensor().execute_complete({}, unclear)


@pytest.mark.parametrize(("soft_fail", "error"), [(False, AirflowSensorTimeout), (True, AirflowSkipException)])
def test_soft_fail_skips_when_out_of_time(soft_fail: bool, error: type[Exception]) -> None:
    one = sensor(soft_fail=soft_fail)
    with pytest.raises(error):
        one.resume_execution("execute_complete", {"event": event("timeout")}, {})
    with pytest.raises((error, TaskDeferralTimeout)):
        one.resume_execution("__fail__", {"error": "Trigger timeout"}, {})


def test_soft_fail_does_not_hide_a_failure() -> None:
    with pytest.raises(KafkaGroupsError):
        sensor(soft_fail=True).resume_execution("execute_complete", {"event": event("failed")}, {})


def test_a_wrong_password_fails_before_deferring(admin: FakeAdmin) -> None:
    admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    with pytest.raises(AuthenticationFailedError):
        sensor().execute({})


def test_the_default_is_airflows(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (True, False):
        monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", str(value))
        assert sensor(deferrable=None).deferrable is value
    with pytest.raises(ConfigurationError, match="deferrable"):
        sensor(deferrable="yes")


@pytest.mark.parametrize(
    ("kind", "arguments"), [(GroupsStalledSensor, {"seconds": 60}), (ListGroupOffsetsSensor, {"to_end": True})]
)
def test_what_remembers_is_not_rescheduled(kind: Any, arguments: Any) -> None:
    with pytest.raises(ConfigurationError, match="state between polls"):
        kind(task_id="t", group_ids=["a"], mode="reschedule", deferrable=False, **arguments)
    kind(task_id="t", group_ids=["a"], mode="reschedule", deferrable=True, **arguments)


def test_sensors_that_stay_in_the_worker(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    assert sensor(deferrable=False).poke({})
    assert GroupsEmptySensor(task_id="t", group_ids=["a"]).poke({})
    assert GroupsEmptySensor(task_id="t", group_ids=["a", "b"], require="any").poke({})
    assert not GroupsEmptySensor(task_id="t", group_ids=["a", "b"]).poke({})
    stalled = GroupsStalledSensor(task_id="t", group_ids=["a"], seconds="0.01")
    assert not stalled.poke({})
    time.sleep(0.02)
    assert stalled.poke({}), "the same object has watched twice"


@pytest.mark.parametrize(
    "arguments",
    [{"group_ids": ["a"], "to_end": True, "max_total_lag": 1}, {"targets": {"a": {"t": {0: 1}}}, "to_end": True}],
)
def test_to_end_goes_with_group_ids_alone(arguments: Any) -> None:
    with pytest.raises(ConfigurationError):
        ListGroupOffsetsSensor(task_id="t", **arguments)


@pytest.mark.parametrize("kind", [GroupsExistSensor, GroupsEmptySensor])
def test_require_is_all_or_any(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="require"):
        kind(task_id="t", group_ids=["a"], require="most")


@pytest.mark.parametrize("deferrable", [False, True])
def test_never_fail_skips_however_the_sensor_waits(admin: FakeAdmin, deferrable: bool) -> None:
    admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    with pytest.raises(AirflowSkipException):
        sensor(never_fail=True, deferrable=deferrable).execute({})
    with pytest.raises(AirflowSkipException, match="1 of 1 ready"):
        sensor(never_fail=True).execute_complete({}, event("failed"))


def test_silent_fail_defers_after_an_error_but_not_after_a_refused_password(admin: FakeAdmin) -> None:
    admin.fails_with = RemoteProtocolError("nonsense")
    assert defer(sensor(silent_fail=True)).trigger.serialize()[1]["silent_fail"] is True
    admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    with pytest.raises(AuthenticationFailedError):
        sensor(silent_fail=True).execute({})


@pytest.mark.parametrize("final", [True, False])
def test_a_failure_that_would_repeat_is_not_retried_either(final: bool) -> None:
    one = sensor()
    with pytest.raises(KafkaGroupsError, match="1 of 1 ready") as raised:
        one.execute_complete({}, event("failed") | {"final": final})
    if (policy := getattr(one, "retry_policy", None)) is not None:  # Airflow before 3.3 has none
        assert (policy.evaluate(raised.value, 1, 3).action.value == "fail") is final


def test_a_stall_is_not_claimed_for_a_time_in_which_polls_failed_that_airflow_ignores(admin: FakeAdmin) -> None:
    now = [100.0]
    admin.groups = {"a": FakeGroup({T0: 5})}
    one = GroupsStalledSensor(task_id="t", group_ids=["a"], seconds=60, silent_fail=True)
    one.__dict__["asked"] = NoProgress(group_ids=("a",), seconds=60, clock=lambda: now[0])
    assert not one.poke({})
    admin.fails_with = RemoteProtocolError("nonsense")
    with pytest.raises(RemoteProtocolError):  # Airflow's loop logs it, and polls on
        one.poke({})
    admin.fails_with = None
    now[0] += 60
    assert not one.poke({}), "what the group did since the first poll is not known"
    now[0] += 60
    assert one.poke({})
