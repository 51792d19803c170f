"""The fake obeys what is known of brokers, and fails in the ways that tests ask for."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from airflow_kafka_groups.exceptions import IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from tests.fakes import admin_facts
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error, timeout


class FakeWorld:
    """The cluster of the facts, in memory."""

    def __init__(self) -> None:
        self.admin = FakeAdmin()
        for topic in (admin_facts.READ, admin_facts.OTHER):
            self.admin.ids[topic] = f"id-of-{topic}"
            for partition in range(2):
                self.admin.ends[TopicPartition(topic, partition)] = (0, admin_facts.RECORDS)

    def name(self, name: str) -> str:
        return f"facts-{name}"

    async def empty(self, name: str, offsets: Mapping[TopicPartition, int]) -> str:
        self.admin.groups[self.name(name)] = FakeGroup(offsets)
        return self.name(name)

    @asynccontextmanager
    async def live(self, name: str) -> AsyncIterator[str]:
        self.admin.groups[self.name(name)] = FakeGroup({}, members=1, subscribed=frozenset({admin_facts.READ}))
        yield self.name(name)
        self.admin.groups[self.name(name)].members = 0


@pytest.mark.parametrize("fact", admin_facts.FACTS, ids=lambda fact: fact.__name__)
async def test_the_fake_obeys(fact: admin_facts.Fact) -> None:
    await fact(FakeWorld())


async def test_it_leaves_share_groups_alone() -> None:
    world = FakeWorld()
    world.admin.groups["shared"] = FakeGroup({}, type=GroupType.SHARE, protocol_type="share")
    await admin_facts.share_groups_are_left_alone(world, "shared")
    assert list(world.admin.groups) == ["shared"]


@pytest.mark.parametrize("state", [state for state in GroupState if state not in (GroupState.EMPTY, GroupState.DEAD)])
async def test_a_state_that_only_groups_in_use_have_is_refused(state: GroupState) -> None:
    admin = FakeAdmin({"a": FakeGroup(state=state)}, log=(0, 10))
    assert admin_facts.names_of((await admin.delete_consumer_groups(["a"]))["a"].error) == {"NON_EMPTY_GROUP"}
    assert list(admin.groups) == ["a"]


async def test_where_a_broker_does_not_list_its_groups_the_client_deletes_none() -> None:
    admin = FakeAdmin({"a": FakeGroup()})
    admin.missing_brokers = {2: timeout()}
    assert isinstance((await admin.delete_consumer_groups(["a"]))["a"].error, IncompleteListingError)
    assert admin.deleted == []


async def test_what_is_injected_fails_in_the_calls_it_is_meant_for() -> None:
    admin = FakeAdmin({name: FakeGroup() for name in "abcd"})
    error = broker_error("GROUP_AUTHORIZATION_FAILED")
    assert error.code == 30
    admin.errors["a"] = admin.describe_errors["b"] = admin.offset_errors["c"] = admin.delete_errors["d"] = error
    failed: dict[str, Mapping[str, KafkaGroupsError]] = {
        "describe": (await admin.describe_consumer_groups(list("abcd"))).failed,
        "offsets": (await admin.list_consumer_group_offsets(list("abcd"))).failed,
        "delete": (await admin.delete_consumer_groups(list("abcd"))).failed,
    }
    assert {call: sorted(of_call) for call, of_call in failed.items()} == {
        "describe": ["a", "b"],
        "offsets": ["a", "c"],
        "delete": ["a", "d"],
    }
    assert (admin.deleted, sorted(admin.groups)) == (["b", "c"], ["a", "d"])
    assert admin.call_names == ["describe", "offsets", "delete"]
    admin.silent.add("a")
    assert "a" not in await admin.describe_consumer_groups(["a", "d"])
