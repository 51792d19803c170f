"""A connection that leads to another cluster by now: what was seen on the one before says nothing of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.triggers.clients import condition_from_json, condition_to_json, shared_client
from airflow_kafka_groups.triggers.conditions import EndReached, NoProgress
from airflow_kafka_groups.triggers.events import GroupsEventTrigger
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup

T0 = TopicPartition("t", 0)


async def reached(condition: Any, admin: FakeAdmin) -> bool:
    return bool((await condition.check(admin)).reached)


async def test_the_ends_of_another_cluster_s_logs_are_not_the_ones_to_reach(admin: FakeAdmin) -> None:
    admin.groups = {"a": FakeGroup({T0: 5})}
    in_worker = EndReached(group_ids=("a",))
    assert not await reached(in_worker, admin)
    assert in_worker.targets == {"a": {T0: 10}}
    handed_over: Any = condition_from_json(json.loads(json.dumps(condition_to_json(in_worker))))
    admin.cluster = None  # the brokers do not know it yet: nothing says that it is another one
    assert not await reached(handed_over, admin)
    assert handed_over.targets == {"a": {T0: 10}}
    admin.cluster, admin.log = "another-cluster", (0, 1000)
    admin.groups = {"a": FakeGroup({T0: 50})}
    assert not await reached(handed_over, admin), "950 records are unread there"
    assert handed_over.targets == {"a": {T0: 1000}}
    admin.commit("a", *T0, 1000)
    assert await reached(handed_over, admin)


async def test_a_stall_on_another_cluster_is_none_here(admin: FakeAdmin) -> None:
    now = [100.0]
    admin.groups = {"a": FakeGroup({T0: 5})}
    condition = NoProgress(group_ids=("a",), seconds=60, clock=lambda: now[0])
    assert not await reached(condition, admin)
    admin.cluster = "another-cluster"  # it mirrors the other one, offsets and all
    now[0] += 60
    assert not await reached(condition, admin)
    now[0] += 60
    assert await reached(condition, admin)


@pytest.mark.parametrize("event", ["empty", "growing"])
async def test_the_groups_of_another_cluster_have_not_become_so(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, event: Any
) -> None:
    """The alias of a standby cluster: all its groups were reported, as if they had changed or appeared."""
    arguments = {"max_growth_per_day": 5} if event == "growing" else {}

    def failover() -> None:
        admin.cluster = "standby"
        admin.groups = {f"job-{number:04}": FakeGroup() for number in range(50)}

    def appear() -> None:
        admin.groups |= {f"run-{number:04}": FakeGroup() for number in range(10)}

    script: list[Callable[[], object]] = [failover, lambda: setattr(admin, "cluster", None), appear, lambda: None]

    async def happen(_seconds: float) -> None:
        script.pop(0)()

    monkeypatch.setattr("airflow_kafka_groups.triggers.events.asyncio.sleep", happen)
    admin.groups = {"a": FakeGroup()}
    stream = GroupsEventTrigger(event=event, **arguments).run()  # type: ignore[arg-type]  # as the event needs them
    found = (await anext(stream)).payload
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert {group_id.partition("-")[0] for group_id in found["groups"]} == {"run"}
    assert len(script) == 1


async def test_groups_are_not_stale_for_a_time_in_which_the_connection_was_wrong(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked then, as while a cluster is away."""
    now = [100.0]
    trigger = GroupsEventTrigger(event="stale", seconds=60)
    watch = replace(trigger._watch(), clock=lambda: now[0])
    admin.groups = {"a": FakeGroup({T0: 5})}
    async with shared_client("kafka_groups_default") as shared:
        assert (await trigger._poll(shared, watch)) is not None

        async def refuse() -> Any:
            raise ConfigurationError("port", "x", "must be a number")

        with monkeypatch.context() as patched:
            patched.setattr(shared, "get", refuse)
            assert await trigger._poll(shared, watch) is None
        now[0] += 60
        found = await trigger._poll(shared, watch)
    assert found is not None
    assert not found.matching
