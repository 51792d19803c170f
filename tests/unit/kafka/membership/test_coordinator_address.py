"""A member's own connection leads to the coordinator of its cluster, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_groups.change import lease as lease_module
from airflow_kafka_groups.exceptions import DeadlineExceededError
from airflow_kafka_groups.kafka.membership import ClusterClient, MaintenanceLease
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, METADATA
from tests.fakes import answers
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.membership.group import ScriptedGroup, until


def naming(cluster: FakeCluster, ports: dict[int, int]) -> Callable[..., Any]:
    """Make FindCoordinator name the right broker at another address."""
    return lambda _, version, __: answers.find_coordinators(version, {"g": cluster.coordinator("g")}, ports)


def lease_of(group: ScriptedGroup) -> MaintenanceLease:
    return MaintenanceLease(group.config, group_id="g", owner="me", session_timeout=6.0)


async def test_no_lease_is_taken_of_another_cluster_that_has_the_coordinator_s_address(group: ScriptedGroup) -> None:
    """Its address was given away: whoever holds the lease of that cluster may delete at the same time on this one."""
    here = group.cluster
    async with FakeCluster(cluster_id="other") as there:
        elsewhere = ScriptedGroup(there)
        ports = {**here._ports, here.coordinator("g"): there._ports[there.coordinator("g")]}
        here.control(METADATA, lambda _, version, __: here.metadata(version, ports=ports))
        here.control(FIND_COORDINATOR, naming(here, ports))
        lease = lease_of(group)
        taking = asyncio.create_task(lease.acquire(0))
        await until(lambda: bool(elsewhere.joined_as) or len(there.requests(METADATA)) > 2)
        held = lease.held
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await lease.aclose()
        assert not held
        assert not elsewhere.joined_as, "it is another cluster's group of the same name"


async def test_a_lease_that_is_held_is_not_confirmed_by_another_cluster(group: ScriptedGroup) -> None:
    here = group.cluster
    async with FakeCluster(cluster_id="other") as there, lease_of(group) as lease:
        elsewhere = ScriptedGroup(there)
        assert lease.held
        ports = dict.fromkeys(here._ports, there._ports[there.coordinator("g")])
        here.control(METADATA, lambda _, version, __: here.metadata(version, ports=ports))
        here.control(FIND_COORDINATOR, naming(here, ports))
        group.hold_beats = asyncio.Event()
        session = lease._session
        assert session is not None
        await session._link.aclose()  # the connection is lost
        await until(lambda: bool(elsewhere.beaten) or bool(there.requests(METADATA)))
        assert not there.requests(HEARTBEAT)
        assert not there.requests(JOIN_GROUP)


async def test_it_is_reached_where_a_proxy_rewrites_addresses_in_metadata_only(group: ScriptedGroup) -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    group.cluster.control(FIND_COORDINATOR, naming(group.cluster, dict.fromkeys(group.cluster._ports, port)))
    async with asyncio.timeout(5), lease_of(group) as lease:
        assert lease.held


async def test_behind_such_a_proxy_metadata_is_not_read_for_each_of_many_members(group: ScriptedGroup) -> None:
    """A keep-alive joins tens of thousands of groups, one after the other."""
    ports = {broker: port + 1 for broker, port in group.cluster._ports.items()}
    group.cluster.control(FIND_COORDINATOR, naming(group.cluster, ports))
    async with ClusterClient(group.config) as cluster:
        for _ in range(20):
            async with MaintenanceLease(cluster, group_id="g", session_timeout=6.0) as lease:
                assert lease.held
    assert len(group.cluster.requests(METADATA)) < 20 + 10, "each connection is checked, and that is all"


async def test_why_a_lease_could_not_be_asked_for_is_in_the_error(
    group: ScriptedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = group.cluster
    monkeypatch.setattr(lease_module, "JOIN_SECONDS", 0.3)
    async with FakeCluster(cluster_id="other") as there:
        ports = {**here._ports, here.coordinator("g"): there._ports[there.coordinator("g")]}
        here.control(METADATA, lambda _, version, __: here.metadata(version, ports=ports))
        here.control(FIND_COORDINATOR, naming(here, ports))
        with pytest.raises(DeadlineExceededError, match=r"nothing was deleted.*cluster fake leads to cluster other"):
            async with lease_module.deletion_lease(group.config, group_id="g", owner="me", wait_seconds=0):
                raise AssertionError("entered")
