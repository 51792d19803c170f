"""A clean-up that begins on Kafka 3.9 and goes on while its brokers become 4.4, one after the other."""

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.verdicts import verdicts_of
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce
from tests.unit.change.scene import POLICY, judge, restored

TOPIC = "upgraded"
GROUPS = [f"upgraded.{number:02d}" for number in range(40)]
FETCH_WAIT_SECONDS = 1.0  # for which a follower may be asking when something is written
OFFSETS = {(TOPIC, partition): 5 + partition for partition in range(3)}


@pytest.mark.safety
@pytest.mark.timeout(400)
# Of an overloaded cluster, one broker may refuse a group for minutes whose coordinator it is by all others.
@pytest.mark.flaky(reruns=1, only_rerun=["DeadlineExceededError"])
async def test_what_a_plan_of_kafka_3_9_deletes_on_4_3_is_restored_there(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "prod")
    config = {"replica.fetch.wait.max.ms": int(FETCH_WAIT_SECONDS * 1000)}
    with KafkaCluster(version="3.9.2", config=config) as cluster:
        where = cluster.bootstrap
        await asyncio.to_thread(create_topics, where, {TOPIC: 3})
        await asyncio.to_thread(produce, where, dict.fromkeys(OFFSETS, 10))
        await asyncio.to_thread(seed_groups, where, GROUPS, OFFSETS)
        async with connection_client(config_of(cluster)) as admin:  # one client for all of it
            reader = SnapshotReader(layout, (await take_snapshot(admin, layout)).snapshot_id)
            plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, utc_now())
            save_plan(layout, plan)
            assert sorted(plan.group_ids) == GROUPS
            await back_up_plan(admin, layout, plan)
            await asyncio.to_thread(cluster.upgrade, 1, "4.4.0")
            report = (await delete_by_plan(admin, layout, plan.plan_id, plan.digest, _task("first"))).report
            assert report.counts["deleted"] == len(GROUPS), report
            # Kafka 3.9 waits for no replica before it confirms a deletion: see test_lost_deletion.py.
            await asyncio.sleep(1.5 * FETCH_WAIT_SECONDS)
            await asyncio.to_thread(cluster.upgrade, 2, "4.4.0")
            done = await restored(admin, layout, plan.plan_id)
            assert done.counts["changed"] == len(GROUPS), done.results
            await asyncio.to_thread(cluster.upgrade, 3, "4.4.0")
            again = (await delete_by_plan(admin, layout, plan.plan_id, plan.digest, _task("second"))).report
            assert (again.counts["kept"], again.kept_reasons) == (len(GROUPS), {"deleted_before": len(GROUPS)})
            # A coordinator that has just taken over shows only what lies below its high watermark, for a moment and
            # without an error (docs/safety.md). A stable read waits for it, as each read does that deletes something.
            read = await admin.list_consumer_group_offsets(GROUPS, require_stable=True)
            versions = (await admin.describe_cluster()).api_versions
    for result in read.values():
        found = {(at.topic, at.partition): value.offset for at, value in result.unwrap().items() if value is not None}
        assert found == OFFSETS
    assert len(set(map(str, versions.values()))) == 1, "one broker is of the old version still"


def _task(name: str) -> DeletionRequest:
    return DeletionRequest(request_id=name, dry_run=False)
