"""A restore while the request that deletes its group is on its way to real brokers: the group is there in the end."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.delete_by_plan import delete_by_plan
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.change_offsets import RecordedChanges
from airflow_kafka_groups.hooks.connection.settings import ConnectionSettings
from airflow_kafka_groups.kafka.admin.results import GroupResults
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.verdicts import verdicts_of
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, produce
from tests.unit.change.scene import POLICY, judge, restored

TOPIC, GROUPS = "restored-meanwhile", ["restored-meanwhile.0", "restored-meanwhile.1"]


class SlowAdmin(MaintenanceClient):
    """Begin a restore when a request to delete is about to leave, and give it a second."""

    layout: Layout
    plan_id: str
    begun: asyncio.Task[RecordedChanges]

    async def delete_consumer_groups(self, group_ids: Iterable[str], **options: Any) -> GroupResults[None]:
        self.begun = asyncio.create_task(self._restore())
        await asyncio.wait([self.begun], timeout=1)
        return await super().delete_consumer_groups(group_ids, **options)

    async def _restore(self) -> RecordedChanges:
        return await restored(self, self.layout, self.plan_id, GROUPS[0])


@pytest.mark.safety
async def test_a_restore_waits_for_the_request_that_deletes_its_group(kafka41: KafkaCluster, tmp_path: Path) -> None:
    where, layout = kafka41.bootstrap, Layout(tmp_path, "prod")
    await asyncio.to_thread(create_topics, where, {TOPIC: 1})
    await asyncio.to_thread(produce, where, {(TOPIC, 0): 10})
    await asyncio.to_thread(commit_offsets, where, {key: {(TOPIC, 0): 5} for key in GROUPS})
    async with connection_client(config_of(kafka41)) as admin:
        reader = SnapshotReader(layout, (await take_snapshot(admin, layout, group_ids=GROUPS)).snapshot_id)
        plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, utc_now())
        save_plan(layout, plan)
        await back_up_plan(admin, layout, plan)
    async with SlowAdmin(config_of(kafka41), ConnectionSettings(conn_id="lab", properties={})) as slow:
        slow.layout, slow.plan_id = layout, plan.plan_id
        request = DeletionRequest(request_id="a task", dry_run=False)
        report = (await delete_by_plan(slow, layout, plan.plan_id, plan.digest, request)).report
        (result,) = (await slow.begun).results
        there = set(await slow.list_groups()) & set(GROUPS)
        read = (await slow.list_consumer_group_offsets(GROUPS[:1]))[GROUPS[0]].unwrap()
    assert report.counts["deleted"] == 2
    assert (result.outcome, there) == ("changed", {GROUPS[0]})
    assert {at: value.offset for at, value in read.items() if value is not None} == {TopicPartition(TOPIC, 0): 5}
