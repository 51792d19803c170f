"""Topics that a user may not describe: brokers leave them out of a group's offsets without a word; we notice."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.config import ClientConfig
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.journal import read_history
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.verdicts import verdicts_of
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.security.acls import AUTHORIZER, allow
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.topics import create_topics, delete_topics
from tests.unit.change.scene import POLICY, judge

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


async def test_a_plan_of_a_user_who_sees_all_topics_is_not_carried_out_by_one_who_does_not(
    guarded: KafkaCluster, tmp_path: Path
) -> None:
    """A client without membership commits to a topic that the deletion's user may not see: nothing shows that."""
    await asyncio.to_thread(commit_offsets, guarded.bootstrap, {"later": {("open", 0): 1}})
    layout = Layout(tmp_path, "c")
    async with connection_client(as_user(guarded, "whole")) as whole:
        summary = await take_snapshot(whole, layout, include=["later"])
        reader = SnapshotReader(layout, summary.snapshot_id)
        plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, utc_now())
        save_plan(layout, plan)
        await back_up_plan(whole, layout, plan)
    await asyncio.to_thread(commit_offsets, guarded.bootstrap, {"later": {("secret", 0): 2}})
    async with connection_client(as_user(guarded, "half")) as half:
        assert set(await half.list_consumer_group_offsets("later")) == {TopicPartition("open", 0)}, "as in the plan"
        request = DeletionRequest(request_id="a task", dry_run=False)
        with pytest.raises(PlanError, match="Describe on all topics"):
            await delete_by_plan(half, layout, plan.plan_id, plan.digest, request)
    async with AdminClient(config_of(guarded)) as admin:
        assert len(await admin.list_consumer_group_offsets("later")) == 2


async def test_a_topic_that_is_deleted_or_hidden_in_mid_run_is_no_proof_of_life(
    guarded: KafkaCluster, tmp_path: Path
) -> None:
    """A right to all topics stays when one topic is denied, and a deleted topic takes its offsets along."""
    await asyncio.to_thread(create_topics, guarded.bootstrap, {"denied": 1, "doomed": 1})
    lost = {"denied": ("denied", 0), "dropped": ("doomed", 0), "used": ("doomed", 0)}
    rows = {f"unseen.{name}": {("open", 0): 1, at: 3} for name, at in lost.items()}
    await asyncio.to_thread(commit_offsets, guarded.bootstrap, rows)
    layout = Layout(tmp_path, "c")
    async with connection_client(as_user(guarded, "whole")) as whole:
        summary = await take_snapshot(whole, layout, include=["unseen.*"])
        reader = SnapshotReader(layout, summary.snapshot_id)
        plan = make_plan(verdicts_of(judge(reader)), reader, POLICY, utc_now())
        save_plan(layout, plan)
        await back_up_plan(whole, layout, plan)
        await asyncio.to_thread(partial(allow, permission="DENY"), guarded, "whole", "TOPIC", "denied", "DESCRIBE")
        await asyncio.to_thread(delete_topics, guarded.bootstrap, ["doomed"])
        await asyncio.to_thread(commit_offsets, guarded.bootstrap, {"unseen.used": {("open", 0): 2}})
        for _ in range(300):  # coordinators hear of it in their own time
            if len(await whole.list_consumer_group_offsets("unseen.dropped")) == 1:
                break
            await asyncio.sleep(0.1)
        assert await whole.sees_all_topics()
        request = DeletionRequest(request_id="a task", dry_run=False)
        result = await delete_by_plan(whole, layout, plan.plan_id, plan.digest, request)
        cluster_id = await whole.cluster_id()
    unseen = "its offsets in 1 topic(s) are no longer seen: "
    assert {item.group_id: (item.code, item.reason) for item in result.report.outcomes} == {
        "unseen.denied": ("offsets_unseen", f"{unseen}'denied': deleted, or hidden from this user"),
        "unseen.dropped": ("offsets_unseen", f"{unseen}'doomed': deleted, or hidden from this user"),
        "unseen.used": ("moved", "its committed offsets changed since it was judged: somebody uses it"),
    }
    assert read_history(layout, cluster_id).lives().keys() == {"unseen.used"}


def _topics(cluster: KafkaCluster) -> list[str]:
    from confluent_kafka.admin import AdminClient as Confluent

    return list(Confluent({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=60).topics)
