"""Topics that a user may not describe: brokers leave them out of a group's offsets without a word; we notice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_kafka_groups.admin import AdminClient
from airflow_kafka_groups.cluster.config import ClientConfig
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.maintenance.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.maintenance.deletion.request import DeletionRequest
from airflow_kafka_groups.maintenance.snapshot.collect import take_snapshot
from airflow_kafka_groups.maintenance.snapshot.reader import SnapshotReader
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import TopicPartition
from tests.integration.conftest import config_of, connection_client
from tests.lab.acls import AUTHORIZER, allow
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import seed_groups
from tests.lab.topics import create_topics

pytestmark = pytest.mark.safety

USERS = {"half": "h-pass", "whole": "w-pass"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    with KafkaCluster(version="4.1.0", brokers=1, sasl_users=USERS, config=AUTHORIZER) as cluster:
        create_topics(cluster.bootstrap, {"open": 1, "secret": 1})
        seed_groups(cluster.bootstrap, ["g"], {("open", 0): 1, ("secret", 0): 2})
        for user, topics in {"half": "open", "whole": "*"}.items():
            allow(cluster, user, "GROUP", "*", "DESCRIBE", "DELETE")
            allow(cluster, user, "BROKER", "kafka-cluster", "DESCRIBE")
            allow(cluster, user, "TOPIC", topics, "DESCRIBE")
        yield cluster


def as_user(cluster: KafkaCluster, user: str) -> ClientConfig:
    return ClientConfig.from_librdkafka(
        {
            "bootstrap.servers": cluster.sasl_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": USERS[user],
        }
    )


async def test_what_is_hidden_is_noticed_and_nothing_is_deleted_by_half_a_picture(
    guarded: KafkaCluster, tmp_path: Path
) -> None:
    async with connection_client(as_user(guarded, "half")) as half:
        assert set(await half.list_consumer_group_offsets("g")) == {TopicPartition("open", 0)}, "and no error"
        summary = await take_snapshot(half, Layout(tmp_path, "half"))
        with pytest.raises(PlanError, match="Describe on all topics"):
            await delete_by_name(
                half,
                Layout(tmp_path, "half"),
                ["g"],
                DeletionRequest(request_id="a task", dry_run=False),
                observe_seconds=0.1,
            )
    async with AdminClient(as_user(guarded, "whole")) as whole:
        assert len(await whole.list_consumer_group_offsets("g")) == 2
        everything = await take_snapshot(whole, Layout(tmp_path, "whole"))
    assert not SnapshotReader(Layout(tmp_path, "half"), summary.snapshot_id).manifest.sees_all_topics
    assert SnapshotReader(Layout(tmp_path, "whole"), everything.snapshot_id).manifest.sees_all_topics
    async with AdminClient(config_of(guarded)) as admin:
        assert "g" in await admin.list_groups()
    topics = await asyncio.to_thread(_topics, guarded)
    assert not any("no-such-topic" in topic for topic in topics), "asking made none"


def _topics(cluster: KafkaCluster) -> list[str]:
    from confluent_kafka.admin import AdminClient as Confluent

    return list(Confluent({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=60).topics)
