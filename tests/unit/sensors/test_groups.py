"""Whether groups are gone and have a coordinator; doubt never says so, nor that waiting is over."""

from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    AirflowUnavailableError,
    AuthenticationFailedError,
    ConfigurationError,
    DeadlineExceededError,
    NoBrokerAvailableError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.models import GroupState, TopicPartition
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor, FindCoordinatorsSensor
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.operators.scene import apply

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def gone(group_ids: Any) -> bool:
    return DeleteGroupsSensor(task_id="t", group_ids=group_ids).poke({})


@pytest.mark.parametrize("state", [s for s in GroupState if s is not GroupState.DEAD])
def test_a_group_that_is_described_in_any_state_is_not_gone(admin: FakeAdmin, state: GroupState) -> None:
    admin.groups = {"a": FakeGroup(state=state)}
    assert not gone(["a"])


def test_a_group_is_gone_when_neither_listed_nor_alive(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gone(["a", "b"])
    admin.errors["b"] = broker_error("GROUP_ID_NOT_FOUND")
    assert gone(["a", "b"])
    admin.groups = {"a": FakeGroup(state=GroupState.DEAD)}
    assert not gone(["a", "b"]), "still listed"


def test_doubt_about_a_group_is_not_gone(admin: FakeAdmin) -> None:
    admin.errors["a"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    assert not gone(["a"])
    admin.errors = {}
    admin.missing_brokers = {2: RequestTimeoutError("no answer")}
    assert not gone(["a"])


def test_a_deletion_sensor_takes_names_or_an_audit_record_and_not_both() -> None:
    for arguments in ({}, {"group_ids": ["a"], "audit_path": "/x"}):
        with pytest.raises(ConfigurationError, match="exactly one"):
            DeleteGroupsSensor(task_id="t", **arguments)  # type: ignore[arg-type]  # that is the point


def test_the_record_of_another_cluster_s_deletion_proves_nothing_here(
    admin: FakeAdmin, backed_up: dict[str, Any], tmp_path: Path
) -> None:
    deleted = apply(tmp_path, backed_up)
    assert deleted["counts"]["deleted"] == 2
    sensor = DeleteGroupsSensor(task_id="t", audit_path=deleted["audit_path"])
    assert sensor.poke({})
    admin.cluster = "another-cluster"
    with pytest.raises(ConfigurationError, match="another-cluster"):
        sensor.poke({})


@pytest.mark.parametrize(
    "error",
    [
        NoBrokerAvailableError("b1:9092", "refused"),
        RequestTimeoutError("no answer"),
        DeadlineExceededError("out of time"),
        AirflowUnavailableError("the connection cannot be looked up"),
    ],
)
def test_a_cluster_that_cannot_be_asked_just_now_is_not_yet(admin: FakeAdmin, error: Any) -> None:
    admin.fails_with = error
    assert not gone(["a"])


def test_a_wrong_password_fails_the_task_at_once(admin: FakeAdmin) -> None:
    admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    with pytest.raises(AuthenticationFailedError):
        gone(["a"])


def find(group_ids: Any) -> bool:
    return FindCoordinatorsSensor(task_id="t", group_ids=group_ids).poke({})


def test_every_group_needs_a_coordinator(admin: FakeAdmin) -> None:
    assert find(["a", "b"])
    assert find('["a", "a"]')
    admin.errors["b"] = broker_error("COORDINATOR_NOT_AVAILABLE")
    assert not find(["a", "b"])
