"""No public method of the client changes a group that its policy refuses: every method there is, tried over sockets."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.admin.client.calls import ChangePolicy
from airflow_kafka_groups.kafka.admin.lag import LogBounds
from airflow_kafka_groups.kafka.models import (
    GroupOffsets,
    ListedOffset,
    MemberToRemove,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from tests.fakes.apis import ALL_APIS
from tests.fakes.cluster import FakeCluster

T0 = TopicPartition("t", 0)
WIDE = [TopicPartition("w" * 200, number) for number in range(3_000)]
BIG = GroupOffsets.from_mapping("a", dict.fromkeys(WIDE, OffsetAndMetadata(1)))
NO = KafkaGroupsError("the policy says no")

READING = {
    "ApiVersions",
    "Fetch",
    "DescribeGroups",
    "FindCoordinator",
    "ListGroups",
    "ListOffsets",
    "Metadata",
    "OffsetFetch",
}
"""The APIs that change nothing. Any other one that a refused call sends is an unguarded change."""


async def _stream(admin: AdminClient) -> list[Any]:
    return [result async for result in admin.stream_consumer_group_offsets(["a"])]


async def _end_readable(admin: AdminClient) -> None:
    bounds = LogBounds({T0: ListedOffset(0)}, {T0: ListedOffset(9)})
    await admin.end_readable(bounds, [GroupOffsets.from_mapping("a", {T0: OffsetAndMetadata(1)})])


CHANGING: dict[str, Callable[[AdminClient], Awaitable[Any]]] = {
    "alter_consumer_group_offsets": lambda admin: admin.alter_consumer_group_offsets({"a": {T0: OffsetAndMetadata(1)}}),
    "delete_consumer_group_offsets": lambda admin: admin.delete_consumer_group_offsets("a", [T0]),
    "delete_consumer_groups": lambda admin: admin.delete_consumer_groups(["a"], offsets={"a": BIG}),
    "remove_members_from_consumer_group": lambda admin: admin.remove_members_from_consumer_group(
        "a", [MemberToRemove("m")]
    ),
}
METHODS: dict[str, Callable[[AdminClient], Awaitable[Any]]] = {
    **CHANGING,
    "authorized_operations": lambda admin: admin.authorized_operations(["t"]),
    "brokers": lambda admin: admin.brokers(),
    "cluster_id": lambda admin: admin.cluster_id(),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "describe_consumer_groups": lambda admin: admin.describe_consumer_groups(["a"]),
    "end_readable": _end_readable,
    "find_coordinators": lambda admin: admin.find_coordinators(["a"]),
    "group_operations": lambda admin: admin.group_operations("a"),
    "list_consumer_group_lag": lambda admin: admin.list_consumer_group_lag(["a"]),
    "list_consumer_group_offsets": lambda admin: admin.list_consumer_group_offsets(["a"]),
    "list_consumer_groups": lambda admin: admin.list_consumer_groups(),
    "list_groups": lambda admin: admin.list_groups(),
    "list_offsets": lambda admin: admin.list_offsets({T0: OffsetSpec.latest()}),
    "sees_all_topics": lambda admin: admin.sees_all_topics(),
    "stream_consumer_group_offsets": _stream,
}


class RefuseAll:
    def refusals(self, group_ids: Iterable[str]) -> dict[str, KafkaGroupsError]:
        return dict.fromkeys(group_ids, NO)


class RefuseToSay:
    def refusals(self, group_ids: Iterable[str]) -> dict[str, KafkaGroupsError]:
        raise NO


async def sent_by(name: str, policy: ChangePolicy | None) -> tuple[Any, list[str]]:
    """Call one method; return its result or error, and the names of the APIs that reached a broker."""
    async with FakeCluster(groups={"a"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=5.0)
        async with AdminClient(config, policy=policy) as admin:
            fake.sent.clear()
            try:
                result = await METHODS[name](admin)
            except KafkaGroupsError as error:
                result = error
        return result, [sent.api for sent in fake.sent]


def test_every_public_method_is_tried() -> None:
    assert {name for name in dir(AdminClient) if not name.startswith("_")} == set(METHODS)
    assert {api.name for api in ALL_APIS} > READING


@pytest.mark.safety
@pytest.mark.parametrize("policy", [RefuseAll(), RefuseToSay()], ids=["refuses", "raises"])
@pytest.mark.parametrize("name", METHODS)
async def test_no_method_changes_a_group_that_the_policy_refuses(name: str, policy: ChangePolicy) -> None:
    result, apis = await sent_by(name, policy)
    assert set(apis) <= READING
    if name in CHANGING:
        assert result is NO or result["a"].error is NO


@pytest.mark.parametrize("name", CHANGING)
async def test_without_a_policy_the_changing_methods_do_change(name: str) -> None:
    _, apis = await sent_by(name, None)
    assert not set(apis) <= READING


@pytest.mark.safety
@pytest.mark.parametrize("name", CHANGING)
async def test_where_nothing_may_be_changed_nothing_is_even_asked(name: str) -> None:
    assert await sent_by(name, RefuseToSay()) == (NO, [])


async def test_only_the_refused_groups_fail() -> None:
    class RefuseOne:
        def refusals(self, group_ids: Iterable[str]) -> dict[str, KafkaGroupsError]:
            return {group_id: NO for group_id in group_ids if group_id == "b"}

    async with FakeCluster(groups={"a", "b", "c"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap})
        async with AdminClient(config, policy=RefuseOne()) as admin:
            results = await admin.delete_consumer_groups(["c", "b", "a"])
        assert list(results) == ["c", "b", "a"]
        assert results.failed == {"b": NO}
        assert fake.groups == {"b"}


@pytest.mark.safety
async def test_slices_cannot_empty_another_group_than_the_one_that_is_deleted() -> None:
    """Offsets of a refused group, passed under the name of an allowed one, are not deleted."""

    class RefuseA:
        def refusals(self, group_ids: Iterable[str]) -> dict[str, KafkaGroupsError]:
            return {group_id: NO for group_id in group_ids if group_id == "a"}

    async with FakeCluster(groups={"a", "b"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap})
        async with AdminClient(config, policy=RefuseA()) as admin:
            results = await admin.delete_consumer_groups(["b"], offsets={"b": BIG})
        assert list(results) == ["b"]
        changed = [sent for sent in fake.sent if sent.api not in READING]
        assert changed
        assert {sent.keys for sent in changed} == {("b",)}
