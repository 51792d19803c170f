"""A poll that cannot be made is not the end of waiting, unless no later one could be."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    AirflowUnavailableError,
    AuthenticationFailedError,
    DeadlineExceededError,
    NoBrokerAvailableError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.sensors.groups import DeleteGroupsSensor
from tests.fakes.admin import FakeAdmin

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def gone(group_ids: Any) -> bool:
    return DeleteGroupsSensor(task_id="t", group_ids=group_ids).poke({})


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
