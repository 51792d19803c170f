"""A group that was deleted, and that somebody made again as a share group, gets no offsets of a consumer group."""

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import backup_named
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.kafka.models import GroupState, GroupType
from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome
from airflow_kafka_groups.storage.layout import Layout
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.tools import share_consumer
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, produce

TOPIC, GROUP = "restore-share-topic", "restore-share"


@pytest.mark.safety
async def test_a_share_group_of_the_same_name_is_kept(kafka41: KafkaCluster, tmp_path: Path) -> None:
    where, layout = kafka41.bootstrap, Layout(tmp_path, "prod")
    await asyncio.to_thread(create_topics, where, {TOPIC: 1})
    await asyncio.to_thread(produce, where, {(TOPIC, 0): 5})
    await asyncio.to_thread(commit_offsets, where, {GROUP: {(TOPIC, 0): 2}})
    async with connection_client(config_of(kafka41)) as admin, asyncio.timeout(120):
        backup = await backup_named(admin, layout, group_ids=[GROUP])
        (await admin.delete_consumer_groups([GROUP])).raise_for_errors()
        (early,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        with share_consumer(kafka41, GROUP, TOPIC):
            (used,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
            (in_use,) = await apply_changes(admin, [used], dry_run=False, may_be_absent=True)
        while (await admin.list_groups())[GROUP].state is not GroupState.EMPTY:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        (late,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        done = [(await apply_changes(admin, [each], dry_run=False, may_be_absent=True))[0] for each in (early, late)]
        kind = (await admin.list_groups())[GROUP].type
    assert [each.outcome for each in (in_use, *done)] == [ChangeOutcome.KEPT] * 3, (in_use, done)
    assert kind is GroupType.SHARE
