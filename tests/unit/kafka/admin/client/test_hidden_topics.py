"""Whether topics may be hidden is asked right before a deletion, also while brokers restart one after another."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConnectionFailedError
from airflow_kafka_groups.kafka.admin.client.operations import ABSENT_TOPIC
from airflow_kafka_groups.kafka.protocol.api_versions import METADATA
from tests.fakes.cluster import Cut, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import client


@pytest.mark.parametrize(("lost", "answered"), [(0, True), (1, True), (2, True), (9, False)])
async def test_a_lost_connection_is_no_reason_to_end_a_run(lost: int, answered: bool) -> None:
    left = [lost]

    def cut(broker_id: int, version: int, request: Any) -> Any:
        if not any(topic.name == ABSENT_TOPIC for topic in request.topics or ()) or not left[0]:
            return None
        left[0] -= 1
        return Cut

    async with FakeCluster() as fake, client(fake) as admin:
        fake.control(METADATA, cut)
        if answered:
            await admin.sees_all_topics()
        else:
            with pytest.raises(ConnectionFailedError):
                await admin.sees_all_topics()
    assert left[0] == (0 if answered else lost - 3)


async def test_a_broker_that_is_silent_is_no_reason_either() -> None:
    asked: list[int] = []

    def first_is_silent(broker_id: int, version: int, request: Any) -> Any:
        if not any(topic.name == ABSENT_TOPIC for topic in request.topics or ()):
            return None
        asked.append(broker_id)
        return Drop if broker_id == asked[0] else None

    async with FakeCluster() as fake, client(fake, request_timeout=0.1) as admin:
        fake.control(METADATA, first_is_silent)
        await admin.sees_all_topics()
    assert sorted(asked) == [1, 2], "the other broker is asked, and not the same one once more"
