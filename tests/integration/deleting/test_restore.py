"""Restores on real brokers: into a recreated topic, beside a deletion, and over a group of another kind."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.backup.file import load_backup
from airflow_kafka_groups.change.backup.make_backup import BackupRequest, back_up, back_up_plan
from airflow_kafka_groups.change.deletion.request import DeletionRequest
from airflow_kafka_groups.change.deletion.run import delete_by_plan
from airflow_kafka_groups.change.deletion.verify import verify_deleted
from airflow_kafka_groups.change.plan.make_plan import make_plan
from airflow_kafka_groups.change.restore.change_offsets import RecordedChanges
from airflow_kafka_groups.change.restore.commit_changes import apply_changes
from airflow_kafka_groups.change.restore.current_logs import unread_of
from airflow_kafka_groups.change.restore.from_backup import RestoreRequest
from airflow_kafka_groups.change.restore.reset import SetRequest
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka.admin.results import GroupResults
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from airflow_kafka_groups.ledger.deletion_plan import save_plan
from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome
from airflow_kafka_groups.observe.snapshot.collect import take_snapshot
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.fakes.verdicts import verdicts_of
from tests.integration.conftest import config_of, connection_client
from tests.lab.cluster import KafkaCluster
from tests.lab.tools import share_consumer
from tests.lab.workload.groups import commit_offsets
from tests.lab.workload.topics import create_topics, delete_topics, produce, topic_id_of
from tests.unit.change.scene import POLICY, judge, restored

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
        backup = await back_up(admin, layout, BackupRequest(group_ids=["restored"]))
        assert load_backup(layout, backup.plan_id).topic_ids == ids
        (await admin.delete_consumer_groups(["restored"])).raise_for_errors()
        (before,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        assert (set(before.after), before.skipped) == ({TopicPartition(TOPIC, 0), TopicPartition(KEPT, 0)}, {})
        await asyncio.to_thread(delete_topics, where, [TOPIC])
        await asyncio.to_thread(make, where, 10, [TOPIC])
        new_id = await asyncio.to_thread(topic_id_of, where, TOPIC)
        (after,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        # A restore of many groups takes minutes: this is one that began before.
        (done,) = await apply_changes(admin, [before], dry_run=False, may_be_absent=True)
        read = (await admin.list_consumer_group_offsets(["restored"]))["restored"].unwrap()
    reason = f"the topic was recreated: its id is {new_id} and was {ids[TOPIC]}"
    assert (set(after.after), after.skipped) == ({TopicPartition(KEPT, 0)}, {TopicPartition(TOPIC, 0): reason})
    assert (done.outcome, done.partitions) == (ChangeOutcome.CHANGED, 1)
    assert done.skipped == {f"{TOPIC}[0]": reason}
    assert {where.topic for where, value in read.items() if value is not None} == {KEPT}


@pytest.mark.safety
@pytest.mark.parametrize("partitions", [0, 1], ids=["deleted", "made anew with fewer partitions"])
async def test_a_partition_that_is_gone_is_left_out_and_not_one_that_nobody_could_read(
    kafka41: KafkaCluster, tmp_path: Path, partitions: int
) -> None:
    """A task fails for the latter, so that it is run again: this one would fail for ever."""
    where, topic, group_id = kafka41.bootstrap, f"restore-gone-{partitions}", f"restored-{partitions}"
    layout = Layout(tmp_path, "prod")
    await asyncio.to_thread(create_topics, where, {topic: 2})
    await asyncio.to_thread(commit_offsets, where, {group_id: {(topic, 1): 0}})
    async with connection_client(config_of(kafka41)) as admin:
        backup = await back_up(admin, layout, BackupRequest(group_ids=[group_id]))
        (await admin.delete_consumer_groups([group_id])).raise_for_errors()
        await asyncio.to_thread(delete_topics, where, [topic])
        if partitions:
            await asyncio.to_thread(create_topics, where, {topic: partitions})
        (change,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        (reset,) = await SetRequest(offsets={group_id: {TopicPartition(topic, 1): 0}}).propose(admin, layout)
    for found in (change, reset):
        assert list(found.skipped) == [TopicPartition(topic, 1)]
        assert unread_of([*found.skipped.values(), found.kept or ""]) is None
    assert "UNKNOWN_TOPIC_OR_PARTITION" in reset.skipped[TopicPartition(topic, 1)]


@pytest.mark.safety
async def test_groups_are_verified_and_restored_beside_an_id_that_fails_every_description(
    kafka44: KafkaCluster, tmp_path: Path
) -> None:
    """A broker's answer about a group that is gone has its id twice, the second time in a message of its own limit."""
    where, topic, long = kafka44.bootstrap, "restore-beside-a-long-id", "L" * 32_767
    groups = [f"beside-a-long-id-{number}" for number in range(20)]
    layout = Layout(tmp_path, "prod")
    await asyncio.to_thread(make, where, 3, [topic])
    await asyncio.to_thread(commit_offsets, where, {group: {(topic, 0): 2} for group in [*groups, long]})
    async with connection_client(config_of(kafka44)) as admin:
        backup = await back_up(admin, layout, BackupRequest(group_ids=[*groups, long]))
        (await admin.delete_consumer_groups([*groups, long])).raise_for_errors()
        described = await admin.describe_consumer_groups([*groups, long])
        verification = await verify_deleted(admin, [*groups, long])
        changes = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        done = await apply_changes(admin, changes, dry_run=False, may_be_absent=True)
        read = await admin.list_consumer_group_offsets(groups)
    assert list(described.failed) == [long]
    assert {group.state for group in described.succeeded.values()} == {GroupState.DEAD}
    assert (set(verification.gone), list(verification.unclear)) == (set(groups), [long])
    assert {one.group_id for one in done if one.outcome is ChangeOutcome.CHANGED} == set(groups)
    assert {len(read[group].unwrap()) for group in groups} == {1}


MEANWHILE, GROUPS = "restored-meanwhile", ["restored-meanwhile.0", "restored-meanwhile.1"]


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
    await asyncio.to_thread(create_topics, where, {MEANWHILE: 1})
    await asyncio.to_thread(produce, where, {(MEANWHILE, 0): 10})
    await asyncio.to_thread(commit_offsets, where, {key: {(MEANWHILE, 0): 5} for key in GROUPS})
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
    assert {at: value.offset for at, value in read.items() if value is not None} == {TopicPartition(MEANWHILE, 0): 5}


SHARED, GROUP = "restore-share-topic", "restore-share"


@pytest.mark.safety
async def test_a_share_group_of_the_same_name_is_kept(kafka41: KafkaCluster, tmp_path: Path) -> None:
    where, layout = kafka41.bootstrap, Layout(tmp_path, "prod")
    await asyncio.to_thread(create_topics, where, {SHARED: 1})
    await asyncio.to_thread(produce, where, {(SHARED, 0): 5})
    await asyncio.to_thread(commit_offsets, where, {GROUP: {(SHARED, 0): 2}})
    async with connection_client(config_of(kafka41)) as admin, asyncio.timeout(120):
        backup = await back_up(admin, layout, BackupRequest(group_ids=[GROUP]))
        (await admin.delete_consumer_groups([GROUP])).raise_for_errors()
        (early,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        with share_consumer(kafka41, GROUP, SHARED):
            (used,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
            (in_use,) = await apply_changes(admin, [used], dry_run=False, may_be_absent=True)
        while (await admin.list_groups())[GROUP].state is not GroupState.EMPTY:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        (late,) = await RestoreRequest(plan_id=backup.plan_id).propose(admin, layout)
        done = [(await apply_changes(admin, [each], dry_run=False, may_be_absent=True))[0] for each in (early, late)]
        kind = (await admin.list_groups())[GROUP].type
    assert [each.outcome for each in (in_use, *done)] == [ChangeOutcome.KEPT] * 3, (in_use, done)
    assert kind is GroupType.SHARE
