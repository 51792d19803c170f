"""How a member finds its coordinator, and follows it."""

from __future__ import annotations

import asyncio

from airflow_kafka_groups.kafka.membership import ClusterClient
from airflow_kafka_groups.kafka.membership.coordinator import CoordinatorLink
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.cluster import Drop
from tests.unit.kafka.membership.group import ScriptedGroup


async def test_a_coordinator_that_hangs_is_the_last_one_to_be_asked_for_its_successor(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    """Its answer would be waited for longer than a lease stays confirmed."""
    for _ in range(8):  # brokers are asked in random order
        link = CoordinatorLink(cluster, "g")
        group.cluster.control(FIND_COORDINATOR, lambda *_: None)
        assert await link.find() is ErrorCode.none
        assert link.coordinator is not None
        hanging = link.coordinator.broker_id
        group.cluster.control(FIND_COORDINATOR, lambda broker_id, *_, at=hanging: Drop if broker_id == at else None)
        group.cluster.moved["g"] = 3 - hanging
        async with asyncio.timeout(5):
            assert await link.find() is ErrorCode.none
        assert link.coordinator.broker_id == 3 - hanging
