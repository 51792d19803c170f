"""A backup is not restored into a topic that was made anew, which only its id tells: on real brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_kafka_groups.maintenance.backup.file import load_backup
from airflow_kafka_groups.maintenance.backup.named import backup_named
from airflow_kafka_groups.maintenance.restore.apply import apply_changes
from airflow_kafka_groups.maintenance.restore.changes import ChangeOutcome
from airflow_kafka_groups.maintenance.restore.from_backup import propose_restore
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import TopicPartition
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, delete_topics, produce, topic_id_of

TOPIC, KEPT = "restore-made-anew", "restore-as-it-was"


def make(bootstrap: str, records: int, topics: list[str]) -> None:
    create_topics(bootstrap, dict.fromkeys(topics, 1))
    produce(bootstrap, {(topic, 0): records for topic in topics})


@pytest.mark.safety
async def test_a_topic_made_anew_with_a_longer_log_gets_no_old_offsets(kafka41: KafkaCluster, tmp_path: Path) -> None:
    where = kafka41.bootstrap
    layout = Layout(tmp_path, "prod")
    await asyncio.to_thread(make, where, 3, [TOPIC, KEPT])
    await asyncio.to_thread(commit_offsets, where, {"restored": {(TOPIC, 0): 2, (KEPT, 0): 2}})
    ids = {topic: await asyncio.to_thread(topic_id_of, where, topic) for topic in (TOPIC, KEPT)}
    async with connection_client(config_of(kafka41)) as admin:
        backup = await backup_named(admin, layout, group_ids=["restored"])
        assert load_backup(layout, backup.plan_id).topic_ids == ids
        (await admin.delete_consumer_groups(["restored"])).raise_for_errors()
        (before,) = await propose_restore(admin, layout, backup.plan_id)
        assert (set(before.after), before.skipped) == ({TopicPartition(TOPIC, 0), TopicPartition(KEPT, 0)}, {})
        await asyncio.to_thread(delete_topics, where, [TOPIC])
        await asyncio.to_thread(make, where, 10, [TOPIC])
        new_id = await asyncio.to_thread(topic_id_of, where, TOPIC)
        (after,) = await propose_restore(admin, layout, backup.plan_id)
        # A restore of many groups takes minutes: this is one that began before.
        (done,) = await apply_changes(admin, [before], dry_run=False, may_be_absent=True)
        read = (await admin.list_consumer_group_offsets(["restored"]))["restored"].unwrap()
    reason = f"the topic was recreated: its id is {new_id} and was {ids[TOPIC]}"
    assert (set(after.after), after.skipped) == ({TopicPartition(KEPT, 0)}, {TopicPartition(TOPIC, 0): reason})
    assert (done.outcome, done.partitions) == (ChangeOutcome.CHANGED, 1)
    assert done.skipped == {f"{TOPIC}[0]": reason}
    assert {where.topic for where, value in read.items() if value is not None} == {KEPT}
