"""What this user may do: yes, no, or not known, and never more than the brokers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from airflow_kafka_groups.kafka.admin.client.access import Access, GroupAccess, describe_access
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup, broker_error

Operations = frozenset[str] | None
ALL: Operations = frozenset({"read", "describe", "delete"})
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


class Cluster(FakeAdmin):
    """A cluster that says what may be done with topics and with itself."""

    def __init__(self, topics: Mapping[str, Operations], cluster: Operations = ALL) -> None:
        super().__init__({"a": FakeGroup({T0: 5, U0: 6})})
        self.topic_operations = dict(topics)
        self.cluster_operations = cluster
        self.operations = ALL

    async def authorized_operations(self, topics: Iterable[str]) -> MetadataAnswer:
        told = {topic: self.topic_operations[topic] for topic in topics if topic in self.topic_operations}
        return replace(
            await super().authorized_operations(()), cluster_operations=self.cluster_operations, topic_operations=told
        )


async def access_of(admin: FakeAdmin, *group_ids: str) -> Access:
    return await describe_access(admin, group_ids or ["a"], "lease")  # type: ignore[arg-type]  # the fake


@pytest.mark.parametrize(
    ("group", "topics", "delete", "restore"),
    [
        (ALL, {"t": ALL, "u": ALL}, True, True),
        (frozenset({"describe"}), {"t": ALL, "u": ALL}, False, False),
        (frozenset({"read"}), {"t": ALL, "u": ALL}, False, True),
        (ALL, {"t": ALL, "u": frozenset({"describe"})}, True, False),
        (ALL, {"t": ALL}, True, False),  # a topic that nobody says anything of may not be described
        (ALL, {"t": ALL, "u": None}, True, None),
        (None, {"t": ALL, "u": ALL}, None, None),
        (None, {"t": ALL, "u": frozenset()}, None, False),  # a clear no is a no
    ],
)
async def test_a_restore_needs_read_on_the_group_and_on_all_its_topics(
    group: Operations, topics: Mapping[str, Operations], delete: bool | None, restore: bool | None
) -> None:
    admin = Cluster(topics)
    admin.operations = group
    assert (await access_of(admin)).groups == {
        "a": GroupAccess(group_id="a", read=True, delete=delete, restore=restore)
    }


async def test_offsets_that_cannot_be_read_are_not_readable_and_not_restorable() -> None:
    admin = Cluster({"t": ALL, "u": ALL})
    admin.offset_errors["a"] = broker_error("TOPIC_AUTHORIZATION_FAILED")
    assert (await access_of(admin)).groups["a"] == GroupAccess(group_id="a", read=False, delete=True, restore=False)


async def test_groups_that_do_not_exist_or_cannot_be_described_are_left_out() -> None:
    admin = Cluster({"t": ALL, "u": ALL})
    admin.groups["secret"] = FakeGroup()
    admin.describe_errors["secret"] = broker_error("GROUP_AUTHORIZATION_FAILED")
    assert list((await access_of(admin, "a", "nobody", "secret")).groups) == ["a"]
    admin.calls.clear()
    assert (await access_of(admin, "nobody")).groups == {}
    assert admin.call_names == ["describe"], "there is nothing to read"


@pytest.mark.parametrize(
    ("cluster", "lists_all"),
    [(ALL, True), (frozenset({"describe"}), True), (frozenset({"alter"}), False), (None, None)],
)
async def test_a_listing_is_complete_for_who_may_describe_the_cluster(
    cluster: Operations, lists_all: bool | None
) -> None:
    assert (await access_of(Cluster({}, cluster))).lists_all is lists_all


@pytest.mark.parametrize(("operations", "lease"), [(ALL, True), (frozenset({"describe"}), False), (None, None)])
async def test_the_lease_needs_read_on_its_group(operations: Operations, lease: bool | None) -> None:
    admin = Cluster({})
    admin.operations = operations
    found = await access_of(admin)
    assert (found.lease, found.sees_all_topics) == (lease, True)
    admin.sees_topics = False
    assert not (await access_of(admin)).sees_all_topics
