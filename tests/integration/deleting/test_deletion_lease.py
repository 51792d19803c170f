"""A deletion on real brokers that loses its lease half way: the rest is kept, and every group is accounted for."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionRequest
from airflow_kafka_groups.change.lease import LeaseGuard, deletion_lease
from airflow_kafka_groups.exceptions import LeaseNotAcquiredError
from airflow_kafka_groups.hooks.connection import ConnectionSettings
from airflow_kafka_groups.kafka import AdminClient, ClusterClient, MaintenanceLease
from airflow_kafka_groups.kafka.admin.results import GroupResults
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
from airflow_kafka_groups.kafka.membership.session import CoordinatorLink
from airflow_kafka_groups.kafka.models import MemberToRemove
from airflow_kafka_groups.kafka.protocol.api_versions import LEAVE_GROUP
from airflow_kafka_groups.kafka.protocol.apis import membership
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.storage.layout import Layout, utc_now
from tests.integration.conftest import config_of, each_of
from tests.lab.cluster import KafkaCluster
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics, produce

LEASE = "deletion-lease.airflow-kafka-groups-lease"
GROUPS = [f"deletion-lease.{number:02d}" for number in range(9)]


kafka = each_of("kafka41", "kafka28")


async def remove_member(kafka: KafkaCluster, member_id: str) -> None:
    """Remove a member of the lease's group, as an administrator can."""
    async with ClusterClient(config_of(kafka)) as cluster:
        link = CoordinatorLink(cluster, LEASE)
        assert await link.find() is ErrorCode.none
        connection = await link.open()
        response = await link.send(
            connection,
            LEAVE_GROUP,
            lambda version: membership.build_leave(LEASE, [MemberToRemove(member_id)], version, "by hand"),
            20,
        )
        assert response.error is ErrorCode.none
        await link.aclose()


class LosingAdmin(MaintenanceClient):
    """Lose the lease right after the first chunk is deleted."""

    kafka: KafkaCluster
    lease: MaintenanceLease

    async def delete_consumer_groups(self, group_ids: Iterable[str], **options: Any) -> GroupResults[None]:
        term = self.lease.term
        results = await super().delete_consumer_groups(group_ids, **options)
        await remove_member(self.kafka, self.lease.member_id)
        while self.lease.held and self.lease.term == term:  # noqa: ASYNC110  # it hears of it by its next heartbeat
            await asyncio.sleep(0.05)
        return results


@pytest.mark.safety
async def test_the_rest_is_kept_when_the_lease_is_lost_between_two_chunks(kafka: KafkaCluster, tmp_path: Path) -> None:
    await asyncio.to_thread(create_topics, kafka.bootstrap, {"deletion-lease": 1})
    await asyncio.to_thread(produce, kafka.bootstrap, {("deletion-lease", 0): 10})
    await asyncio.to_thread(seed_groups, kafka.bootstrap, GROUPS, {("deletion-lease", 0): 5})
    config = config_of(kafka)
    # A loaded machine must not end the lease before the test does: with the least timeout, a second of delay would.
    async with asyncio.timeout(300), MaintenanceLease(config, group_id=LEASE, owner="one", session_timeout=30) as lease:
        with pytest.raises(LeaseNotAcquiredError, match="held by 'one'"):
            async with deletion_lease(config, group_id=LEASE, owner="two", wait_seconds=0):
                pass
        async with LosingAdmin(config, ConnectionSettings(conn_id="lab", properties={})) as losing:
            losing.kafka, losing.lease = kafka, lease
            request = DeletionRequest(
                request_id="a task",
                dry_run=False,
                lease=lambda: nullcontext(LeaseGuard(lease)),
                limits=DeletionLimits(chunk_size=3),
            )
            result = await delete_by_name(losing, Layout(tmp_path, "lab"), GROUPS, request, observe_seconds=0.5)
    report = result.report
    found = {item.group_id: f"{item.outcome.value}:{item.code}" for item in report.outcomes}
    assert list(found) == GROUPS
    # The lease may have been lost before the answer was back: then nobody knows, until a look afterwards confirms it.
    assert set(list(found.values())[:3]) <= {"deleted:safe", "deleted:confirmed", "unknown:outcome_unknown"}
    assert set(list(found.values())[3:]) == {"kept:lease_lost"}
    async with AdminClient(config) as admin:
        left = set((await admin.list_groups()).require_complete())
    assert left.isdisjoint(GROUPS[:3])
    assert left.issuperset(GROUPS[3:])
    assert report.lease is not None
    assert report.lease.lost is not None
    assert any(report.lease.lost in warning for warning in report.warnings)


SESSION_SECONDS = 6.0


class PausedClocks:
    """The clocks of a worker that its host pauses: none of them counts the pause."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paused = 0.0
        loop = asyncio.get_running_loop()
        of_loop, now = loop.time, clock._clock
        monkeypatch.setattr(loop, "time", lambda: of_loop() - self.paused)
        monkeypatch.setattr(clock, "_clock", lambda: now() - self.paused)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.paused += time.monotonic() - began


class PausedAdmin(MaintenanceClient):
    """A worker that is paused as a whole between the intent and the request, while the groups come back to life."""

    kafka: KafkaCluster
    clocks: PausedClocks

    async def delete_consumer_groups(self, group_ids: Iterable[str], **options: Any) -> GroupResults[None]:
        self.stand_still()
        return await super().delete_consumer_groups(group_ids, **options)

    def stand_still(self) -> None:
        with self.clocks.standing_still(), ThreadPoolExecutor(1) as others:  # the event loop, too: no heartbeat leaves
            revived = others.submit(seed_groups, self.kafka.bootstrap, PAUSED, {("deletion-paused", 0): 9})
            time.sleep(1.5 * SESSION_SECONDS)
            revived.result()


PAUSED = [f"deletion-paused.{number:02d}" for number in range(9)]


@pytest.mark.safety
@pytest.mark.promise(11)
async def test_a_worker_that_was_paused_with_all_its_clocks_deletes_nothing(
    kafka: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(create_topics, kafka.bootstrap, {"deletion-paused": 1})
    await asyncio.to_thread(produce, kafka.bootstrap, {("deletion-paused", 0): 10})
    await asyncio.to_thread(seed_groups, kafka.bootstrap, PAUSED, {("deletion-paused", 0): 5})
    config, clocks = config_of(kafka), PausedClocks(monkeypatch)
    async with (
        asyncio.timeout(300),
        MaintenanceLease(config, group_id=LEASE, owner="paused", session_timeout=SESSION_SECONDS) as lease,
        PausedAdmin(config, ConnectionSettings(conn_id="lab", properties={})) as paused,
    ):
        paused.kafka, paused.clocks = kafka, clocks
        request = DeletionRequest(
            request_id="a task",
            dry_run=False,
            lease=lambda: nullcontext(LeaseGuard(lease)),
            now=lambda: utc_now() - timedelta(seconds=clocks.paused),
        )
        report = (await delete_by_name(paused, Layout(tmp_path, "lab"), PAUSED, request, observe_seconds=0.5)).report
        assert {item.code for item in report.outcomes} == {"lease_lost"}
    async with AdminClient(config) as admin:
        left = await admin.list_consumer_group_offsets(PAUSED)
    assert {each and each.offset for result in left.values() for each in result.unwrap().values()} == {9}
