"""Whether groups have a coordinator."""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.sensors.groups import FindCoordinatorsSensor
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import broker_error

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def find(group_ids: Any) -> bool:
    return FindCoordinatorsSensor(task_id="t", group_ids=group_ids).poke({})


def test_every_group_needs_a_coordinator(admin: FakeAdmin) -> None:
    assert find(["a", "b"])
    assert find('["a", "a"]')
    admin.errors["b"] = broker_error("COORDINATOR_NOT_AVAILABLE")
    assert not find(["a", "b"])
