"""What a deletion asks before it deletes: only where a type of group is not meant to go."""

from __future__ import annotations

from airflow_kafka_groups.models import GroupType
from airflow_kafka_groups.protocol.apis import DELETE_GROUPS, LIST_GROUPS
from tests.fakes.cluster import FakeCluster
from tests.unit.admin.client.faults import client


async def test_every_broker_is_asked_for_groups_of_the_types_that_are_not_meant() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        assert (await admin.delete_consumer_groups(["g0"]))["g0"].ok
        assert sorted(sent.broker_id for sent in fake.requests(LIST_GROUPS)) == [1, 2]


async def test_where_all_types_are_meant_nobody_is_asked_and_no_group_is_refused() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        assert (await admin.delete_consumer_groups(["g0"], types=set(GroupType)))["g0"].ok
        assert fake.requests(LIST_GROUPS) == []
        assert [sent.keys for sent in fake.requests(DELETE_GROUPS)] == [("g0",)]


async def test_to_delete_nothing_is_to_ask_nothing() -> None:
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        assert dict(await admin.delete_consumer_groups([])) == {}
        assert (fake.requests(LIST_GROUPS), fake.requests(DELETE_GROUPS)) == ([], [])
