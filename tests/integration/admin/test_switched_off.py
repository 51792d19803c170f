"""Groups of the consumer protocol after brokers were restarted without it: listed, with offsets, and not described."""

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.exceptions import UnsupportedVersionError
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.storage.layout import Layout
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics

pytestmark = pytest.mark.safety


@pytest.mark.timeout(180)
async def test_a_group_of_a_protocol_that_was_switched_off_is_kept_and_not_called_gone(tmp_path: Path) -> None:
    with KafkaCluster(version="4.1.0", brokers=1) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {"off": 1})
        with LiveConsumer(cluster.bootstrap, "modern", ["off"], protocol="consumer"):
            pass
        await asyncio.to_thread(commit_offsets, cluster.bootstrap, {"modern": {("off", 0): 0}})
        properties = cluster.folder / "broker-1" / "server.properties"
        properties.write_text(f"{properties.read_text()}\ngroup.coordinator.rebalance.protocols=classic\n")
        await asyncio.to_thread(cluster.restart, 1)
        async with connection_client(config_of(cluster)) as admin:
            listed = (await admin.list_groups())["modern"]
            described = await admin.describe_consumer_groups(["modern", "none"])
            request = DeletionRequest(request_id="a task", dry_run=False)
            result = await delete_by_name(
                admin, Layout(tmp_path, "off"), ["modern"], request, observe_seconds=0.1, allow_hidden_topics=True
            )
            assert len(await admin.list_consumer_group_offsets("modern")) == 1
    assert (listed.type, listed.state) == (GroupType.CONSUMER, GroupState.EMPTY)
    assert isinstance(described["modern"].error, UnsupportedVersionError)
    assert described["none"].unwrap().state is GroupState.DEAD
    assert [f"{item.outcome.value}:{item.code}" for item in result.report.outcomes] == ["kept:not_described"]
