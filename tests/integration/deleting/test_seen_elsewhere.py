"""A member that only another connection's snapshot shows, half an hour older than the judged one, on real brokers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_groups.change.backup.make_backup import back_up_plan
from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import DeletionResult, delete_by_plan
from airflow_kafka_groups.change.plan.make_plan import make_plan, plan_snapshot
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.verdicts import load_verdicts
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.spark.plain_jobs import run_plain_job
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.integration.conftest import config_of, connection_client, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

TOPIC, SEEN, IDLE = "seen-elsewhere", "seen-elsewhere", "idle-elsewhere"
DAY = timedelta(days=1)

kafka = each_of("kafka44", "kafka28")


def fates(result: DeletionResult) -> dict[str, tuple[str, str]]:
    return {each.group_id: (each.outcome.value, each.code) for each in result.report.outcomes}


@pytest.mark.safety
@pytest.mark.promise(1)
async def test_its_group_is_kept_by_a_plan_by_a_deletion_and_by_name(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Its own connection saw it Empty and unmoved three days ago, and now. The other group is as idle, and goes."""
    where, own, other = kafka.bootstrap, Layout(tmp_path, "lab"), Layout(tmp_path, "other")
    await asyncio.to_thread(create_topics, where, {TOPIC: 1})
    await asyncio.to_thread(produce, where, {(TOPIC, 0): 10})
    await asyncio.to_thread(commit_offsets, where, {name: {(TOPIC, 0): 5} for name in (SEEN, IDLE)})

    async with connection_client(config_of(kafka)) as admin:

        async def look(layout: Layout, ago: timedelta) -> str:
            names = ["*elsewhere"]
            return (await take_snapshot(admin, layout, include=names, now=lambda: utc_now() - ago)).snapshot_id

        def member() -> LiveConsumer:
            return LiveConsumer(where, SEEN, [TOPIC], commit_every=None)

        with member():  # so that it is of the same kind from the beginning on
            pass
        await look(own, 3 * DAY)
        with member():
            await look(other, timedelta(minutes=30))
        judged = await look(own, timedelta())
        job = ["judge_staleness", "--base", str(tmp_path), "--cluster", "lab", "--min-idle", "2d", "--max-gap", "9d"]
        await asyncio.to_thread(run_plain_job, job, tmp_path)
        verdicts, reader = load_verdicts(own, judged), SnapshotReader(own, judged)
        assert dict(zip(verdicts.group_ids, verdicts.table["verdict"].to_pylist(), strict=True)) == {
            SEEN: "stale",
            IDLE: "stale",
        }, "by what its own connection saw"

        policy = PlanPolicy(min_idle_seconds=DAY.total_seconds(), max_share=1.0)
        request = DeletionRequest(request_id="a task", dry_run=False)
        asked, _ = plan_snapshot(own, policy, SiteFloors(), snapshot_id=judged, lease_group_id="lease")
        assert asked.group_ids == [IDLE], "a plan asks the ledger"

        plan = make_plan(verdicts, reader, policy, utc_now())  # as of one that did not ask
        assert set(plan.group_ids) == {SEEN, IDLE}
        save_plan(own, plan)
        await back_up_plan(admin, own, plan)
        by_plan = await delete_by_plan(admin, own, plan.plan_id, plan.digest, request)
        by_name = await delete_by_name(admin, own, [SEEN], request, observe_seconds=0.5)
        assert fates(by_plan) == {SEEN: ("kept", "alive_before"), IDLE: ("deleted", "safe")}
        assert fates(by_name) == {SEEN: ("kept", "alive_before")}
        for result in (by_plan, by_name):
            (why,) = (each.reason for each in result.report.outcomes if each.group_id == SEEN)
            assert "had a member" in why
            assert "'other'" in why
        assert set(await admin.list_groups()) & {SEEN, IDLE} == {SEEN}
