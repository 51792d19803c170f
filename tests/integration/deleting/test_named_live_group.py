"""A live group without members, deleted by its name on real brokers beside two snapshots that show it moving."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.storage.layout import Layout
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

GROUP, WHERE = "named-live", TopicPartition("named-live", 0)

kafka = each_of("kafka44", "kafka28")


@pytest.mark.safety
@pytest.mark.promise(1)
async def test_it_is_kept_although_it_is_quiet_while_it_is_watched(kafka: KafkaCluster, tmp_path: Path) -> None:
    await asyncio.to_thread(create_topics, kafka.bootstrap, {WHERE.topic: 1})
    await asyncio.to_thread(produce, kafka.bootstrap, {WHERE: 10})
    settings = ConnectionSettings(conn_id="lab", properties={})
    async with MaintenanceClient(config_of(kafka), settings) as admin:
        for offset in (3, 5):
            await asyncio.to_thread(seed_groups, kafka.bootstrap, [GROUP], {WHERE: offset})
            await take_snapshot(admin, Layout(tmp_path, "other"))  # within a second: their ids are in any order
        request = DeletionRequest(request_id="a task", dry_run=False)
        result = await delete_by_name(admin, Layout(tmp_path, "lab"), [GROUP], request, observe_seconds=0.5)
        (outcome,) = result.report.outcomes
        assert (outcome.outcome.value, outcome.code) == ("kept", "alive_before")
        assert "had other committed offsets, or" in outcome.reason
        assert (await admin.list_consumer_group_offsets(GROUP))[WHERE] is not None
