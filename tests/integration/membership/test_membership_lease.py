"""The lease on real brokers, and the faults it is made for: at most one holder, whatever happens.

``MEMBERSHIP_FAULT_SECONDS`` makes the fault run longer than CI's.
"""

import asyncio
import contextlib
import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka.admin
import pytest

from airflow_kafka_groups.change.lease import deletion_lease
from airflow_kafka_groups.exceptions import BrokerError, ConfigurationError, LeaseLostError, LeaseNotAcquiredError
from airflow_kafka_groups.kafka import ClientConfig, ClusterClient, MaintenanceLease
from airflow_kafka_groups.kafka.cluster import clock
from tests.integration.conftest import config_of, each_of
from tests.integration.membership.test_membership import MEMBERSHIP_CLUSTERS
from tests.lab.cluster import KafkaCluster
from tests.lab.machine.waiting import until_async
from tests.lab.workload.topics import quiet

FAULT_SECONDS = float(os.environ.get("MEMBERSHIP_FAULT_SECONDS", "15"))


kafka = each_of(*MEMBERSHIP_CLUSTERS, "kafka44")


async def test_a_member_that_dies_unannounced_is_replaced_within_the_session_timeout(client: ClusterClient) -> None:
    holder = MaintenanceLease(client, group_id="lease-crash", owner="first", session_timeout=6)
    await holder.acquire(0)
    second = MaintenanceLease(client, group_id="lease-crash", owner="second", session_timeout=6)
    with pytest.raises(LeaseNotAcquiredError, match="held by 'first'"):
        await second.acquire(0)
    assert holder.held, "that others wait does not cost the holder anything"
    session = holder._session
    assert session is not None
    began = time.monotonic()
    await session.aclose(leave=False)
    assert not holder.held
    await second.acquire(20)
    assert 2 < time.monotonic() - began < 6 + 3
    with pytest.raises(LeaseLostError):
        holder.check()
    second.check()
    await second.aclose()


async def test_a_holder_whose_event_loop_is_blocked_knows_before_the_broker_does(client: ClusterClient) -> None:
    async with MaintenanceLease(client, group_id="lease-stall", session_timeout=6) as lease:
        time.sleep(lease.valid_for + 0.2)  # noqa: ASYNC251  # that is the fault
        with pytest.raises(LeaseLostError):
            lease.check()
        await until_async(lambda: lease.held, 5)  # the coordinator still knew it: nobody else had it meanwhile
        assert lease.generation == 1


async def test_a_killed_coordinator_costs_a_moment_and_neither_lease_nor_generation() -> None:
    with KafkaCluster(version="4.1.0", brokers=3) as kafka:
        lease = MaintenanceLease(config_of(kafka), session_timeout=20)
        async with asyncio.timeout(90), lease:
            generation = lease.generation
            session = lease._session
            assert session is not None
            coordinator = session._link.coordinator
            assert coordinator is not None
            await asyncio.to_thread(kafka.kill, coordinator)
            await until_async(lambda: session._link.coordinator != coordinator, 60)
            await until_async(lambda: lease.held, 60)
            assert lease.generation == generation
            waiting = MaintenanceLease(config_of(kafka), owner="another", session_timeout=20)
            with pytest.raises(LeaseNotAcquiredError):
                await waiting.acquire(0)
            await waiting.aclose()
            lease.check()


async def test_read_on_its_group_is_all_that_the_lease_needs() -> None:
    acl: Any = confluent_kafka.admin  # has no type information
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": True}
    with KafkaCluster(version="4.1.0", brokers=1, config=config) as kafka:
        allowed = {
            "may-read": acl.AclOperation.READ,
            "may-look": acl.AclOperation.DESCRIBE,
            "may-nothing": acl.AclOperation.ALTER_CONFIGS,
        }
        rules = [
            acl.AclBinding(
                acl.ResourceType.GROUP,
                group_id,
                acl.ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                operation,
                acl.AclPermissionType.ALLOW,
            )
            for group_id, operation in allowed.items()
        ]
        admin = acl.AdminClient(quiet(kafka.bootstrap))  # its futures fail once it is gone
        made = admin.create_acls(rules)
        await asyncio.to_thread(lambda: [future.result(20) for future in made.values()])
        async with MaintenanceLease(config_of(kafka), group_id="may-read") as lease:
            lease.check()
        with pytest.raises(BrokerError, match=r"GROUP_AUTHORIZATION_FAILED.*Read to join"):
            async with MaintenanceLease(config_of(kafka), group_id="may-look"):
                pass
        for group_id in ("may-look", "may-nothing"):  # the second is refused when its coordinator is looked for
            with pytest.raises(ConfigurationError, match=f"--operation Read --group {group_id}.*lease=False"):
                async with deletion_lease(config_of(kafka), group_id=group_id, owner="me", wait_seconds=0):
                    pass


@dataclass
class SharedLog:
    """The times during which each run believed that it held the lease; one clock for all."""

    spans: list[tuple[float, float, str]] = field(default_factory=list)

    def overlaps(self) -> list[tuple[tuple[float, float, str], tuple[float, float, str]]]:
        found, last = [], (0.0, 0.0, "")
        for span in sorted(self.spans):
            if span[0] < last[1] and span[2] != last[2]:
                found.append((last, span))
            last = max(last, span, key=lambda one: one[1])
        return found

    def watch(self, lease: MaintenanceLease, name: str, stop: threading.Event) -> None:
        """Look on from a thread of its own, which sees what a stalled event loop does not."""
        began: float | None = None
        last = 0.0
        while not stop.is_set() or began is not None:
            before = clock.now()
            if lease.held and not stop.is_set():
                began, last = clock.now() if began is None else began, before
            elif began is not None:
                self.spans.append((began, last, name))
                began = None
            time.sleep(0.003)


async def one_run(config: ClientConfig, name: str, log: SharedLog, end: float, chance: random.Random) -> None:
    """Take the lease again and again, and come to grief in one of four ways."""
    async with ClusterClient(config) as client:
        while clock.now() < end:
            lease = MaintenanceLease(client, group_id="lease-faults", owner=name, session_timeout=6)
            stop = threading.Event()
            watch = asyncio.create_task(asyncio.to_thread(log.watch, lease, name, stop))
            with contextlib.suppress(LeaseNotAcquiredError):
                await lease.acquire(chance.uniform(0, 8))
                await asyncio.sleep(chance.uniform(0.2, 2.5))
            await come_to_grief(lease, chance)
            await lease.aclose()
            stop.set()
            await watch


async def come_to_grief(lease: MaintenanceLease, chance: random.Random) -> None:
    session = lease._session
    assert session is not None
    match chance.choice(["leave", "crash", "cut", "stall", "long stall"]):
        case "crash":
            await session.aclose(leave=False)
        case "cut":  # its connection hangs up; the member goes on
            await session._link.aclose()
            await asyncio.sleep(chance.uniform(0.1, 1))
        case "stall":
            time.sleep(chance.uniform(0.2, 2.0))  # noqa: ASYNC251  # that is the fault
        case "long stall":  # the broker gives the lease to another meanwhile; then this one wakes up and goes on
            time.sleep(8.0)  # noqa: ASYNC251
            await asyncio.sleep(chance.uniform(0.1, 1))


@pytest.mark.safety
@pytest.mark.timeout(240 + FAULT_SECONDS)
async def test_at_most_one_holds_the_lease_whatever_happens(kafka: KafkaCluster) -> None:
    """Four runs, each in a thread with an event loop of its own, and one log of who believed to hold when."""
    log, end = SharedLog(), clock.now() + FAULT_SECONDS

    def run(name: str) -> None:
        asyncio.run(one_run(config_of(kafka), name, log, end, random.Random(name)))

    await asyncio.gather(*(asyncio.to_thread(run, name) for name in ("a", "b", "c", "d")))
    print(f"{len(log.spans)} spans, {sum(b - a for a, b, _ in log.spans):.1f} s held of {FAULT_SECONDS:g} s")
    assert len({name for _, _, name in log.spans}) > 1, "the lease has changed hands"
    assert log.overlaps() == []
