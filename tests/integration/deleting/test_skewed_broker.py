"""A broker whose clock is a week behind that of the machine that takes snapshots: a new commit looks old."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from airflow_kafka_groups.judge.evidence import Evidence
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.observe.snapshot.broker_clocks import read_marks
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import newest_manifest
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

WHERE = TopicPartition("skewed", 0)

kafka = each_of("kafka44")


@pytest.mark.safety
@pytest.mark.parametrize("behind", [timedelta(), timedelta(days=7)], ids=["healthy", "a week"])
async def test_a_log_of_commits_by_such_a_clock_is_no_evidence(
    kafka: KafkaCluster, tmp_path: Path, behind: timedelta
) -> None:
    topic = TopicPartition(f"{WHERE.topic}-{behind.days}", 0)
    await asyncio.to_thread(create_topics, kafka.bootstrap, {topic.topic: 1})
    await asyncio.to_thread(produce, kafka.bootstrap, {topic: 10})
    layout = Layout(tmp_path, "lab")
    async with AdminClient(config_of(kafka)) as admin:
        for offset in (3, 5):
            await asyncio.to_thread(seed_groups, kafka.bootstrap, [topic.topic], {topic: offset})
            await asyncio.sleep(1.1)
            await take_snapshot(admin, layout, now=lambda: utc_now() + behind, clocks=partial(read_marks, admin))
    manifest = newest_manifest(layout)
    assert manifest is not None
    assert manifest.clocks is not None
    assert manifest.clocks.compared >= 1
    gap = Evidence(commits_until=manifest.observed_at).gap(manifest, 86_400)
    assert (gap != "") is (behind > timedelta())
    assert abs(manifest.clocks.off_seconds - behind.total_seconds()) < 60
