"""Groups of every type, described: absent ones, those of a switched-off protocol, and what this user may do."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConnectionFailedError, UnsupportedVersionError
from airflow_kafka_groups.kafka.admin.client.access import Access, GroupAccess, describe_access
from airflow_kafka_groups.kafka.admin.client.listing import ABSENT_TOPIC
from airflow_kafka_groups.kafka.models import GroupState, GroupType, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import MetadataAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    DESCRIBE_SHARE_OFFSETS,
    LIST_GROUPS,
    METADATA,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    Api,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.admin import FakeAdmin
from tests.fakes.cluster import MODERN, Control, Cut, Drop, FakeCluster
from tests.fakes.groups import FakeGroup, broker_error
from tests.unit.kafka.admin.client.faults import client

NOT_FOUND = ErrorCode.group_id_not_found
MODERN_DESCRIBES = (CONSUMER_GROUP_DESCRIBE, SHARE_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE)


OFF = ErrorCode.unsupported_version


def say(fake: FakeCluster, message: str | None = None, consumer: ErrorCode = NOT_FOUND) -> None:
    """Let no API find a group, DescribeGroups say this about it, and ConsumerGroupDescribe answer with this code."""
    fake.control(
        DESCRIBE_GROUPS,
        lambda _, version, request: answers.describe_groups(
            version, dict.fromkeys(request.groups, NOT_FOUND), "Dead", message
        ),
    )
    for api in MODERN_DESCRIBES:
        fake.control(api, _refusing(api, consumer if api is CONSUMER_GROUP_DESCRIBE else NOT_FOUND))


async def test_a_group_that_the_broker_says_is_of_no_type_is_asked_for_once() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        say(fake, "Group {} not found.")
        described = (await admin.describe_consumer_groups(["gone"]))["gone"].unwrap()
        assert (described.state, described.type) == (GroupState.DEAD, GroupType.UNKNOWN)
        assert [len(fake.requests(api)) for api in MODERN_DESCRIBES] == [0, 0, 0]


@pytest.mark.safety
@pytest.mark.parametrize(
    "message", [None, "", "Group {} is not a classic group.", "Classic group {} not found.", "Group other not found."]
)
async def test_a_group_is_absent_only_when_the_apis_of_all_types_say_so(message: str | None) -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        say(fake, message)
        described = (await admin.describe_consumer_groups(["gone"]))["gone"].unwrap()
        assert (described.state, described.type) == (GroupState.DEAD, GroupType.UNKNOWN)
        assert [len(fake.requests(api)) for api in MODERN_DESCRIBES] == [1, 1, 1]
        fake.control(STREAMS_GROUP_DESCRIBE, _refusing(STREAMS_GROUP_DESCRIBE, ErrorCode.none))
        described = (await admin.describe_consumer_groups(["gone"]))["gone"].unwrap()
        assert (described.state, described.type) == (GroupState.STABLE, GroupType.STREAMS)


def _refusing(api: Api, code: ErrorCode) -> Control:
    def answer(broker_id: int, version: int, request: Any) -> Any:
        return answers.modern_group_describe(api, version, dict.fromkeys(request.group_ids, code))

    return answer


def switch_off(fake: FakeCluster, listed: tuple[str, ...]) -> None:
    """Let brokers answer as Kafka 4.1 does with ``group.coordinator.rebalance.protocols=classic``."""
    say(fake, consumer=OFF)
    fake.control(
        LIST_GROUPS, lambda _, version, request: answers.list_groups(version, ErrorCode.none, listed, kind="consumer")
    )


@pytest.mark.safety
@pytest.mark.parametrize(
    ("api", "newest", "restorable"),
    [
        (CONSUMER_GROUP_DESCRIBE, 1, False),  # said of the other types only
        (SHARE_GROUP_DESCRIBE, 1, True),
        (STREAMS_GROUP_DESCRIBE, 1, True),
        (SHARE_GROUP_DESCRIBE, 0, False),
        (STREAMS_GROUP_DESCRIBE, 0, False),
        (STREAMS_GROUP_DESCRIBE, None, False),
    ],
)
async def test_share_and_streams_groups_can_be_had_back_from_kafka_4_2_on(
    api: Api, newest: int | None, restorable: bool
) -> None:
    versions = {name: known for name, known in MODERN.items() if name != DESCRIBE_SHARE_OFFSETS.name}
    if newest is not None:
        versions[DESCRIBE_SHARE_OFFSETS.name] = (0, newest)
    async with FakeCluster({1: versions}) as fake, client(fake) as admin:
        switch_off(fake, ())
        for each in MODERN_DESCRIBES:
            fake.control(each, _refusing(each, ErrorCode.none if each is api else NOT_FOUND))
        described = (await admin.describe_consumer_groups(["g"]))["g"].unwrap()
        assert (described.state, described.restorable) == (GroupState.STABLE, restorable)


@pytest.mark.safety
async def test_a_group_of_a_protocol_that_was_switched_off_is_not_called_dead() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        switch_off(fake, ("there",))
        found = await admin.describe_consumer_groups(["there", "gone"])
        assert isinstance(found["there"].error, UnsupportedVersionError)
        assert "ConsumerGroupDescribe switched off" in str(found["there"].error)
        assert found["gone"].unwrap().state is GroupState.DEAD


async def test_where_every_group_is_described_nothing_is_listed() -> None:
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        assert (await admin.describe_consumer_groups(["g"]))["g"].unwrap().state is GroupState.EMPTY
        assert fake.requests(LIST_GROUPS) == []


@pytest.mark.safety
async def test_where_a_broker_does_not_list_its_groups_none_of_them_is_called_dead() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        switch_off(fake, ())
        fake.control(LIST_GROUPS, lambda _, version, __: answers.list_groups(version, ErrorCode.unknown_server_error))
        (found,) = (await admin.describe_consumer_groups(["there"])).values()
        assert "UNKNOWN_SERVER_ERROR" in str(found.error)


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
    return await describe_access(admin, group_ids or ["a"], "lease")  # the fake


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


@pytest.mark.parametrize(("lost", "answered"), [(0, True), (1, True), (2, True), (9, False)])
async def test_a_lost_connection_is_no_reason_to_end_a_run(lost: int, answered: bool) -> None:
    left = [lost]

    def cut(broker_id: int, version: int, request: Any) -> Any:
        if not any(topic.name == ABSENT_TOPIC for topic in request.topics or ()) or not left[0]:
            return None
        left[0] -= 1
        return Cut

    async with FakeCluster() as fake, client(fake) as admin:
        fake.control(METADATA, cut)
        if answered:
            await admin.sees_all_topics()
        else:
            with pytest.raises(ConnectionFailedError):
                await admin.sees_all_topics()
    assert left[0] == (0 if answered else lost - 3)


async def test_a_broker_that_is_silent_is_no_reason_either() -> None:
    asked: list[int] = []

    def first_is_silent(broker_id: int, version: int, request: Any) -> Any:
        if not any(topic.name == ABSENT_TOPIC for topic in request.topics or ()):
            return None
        asked.append(broker_id)
        return Drop if broker_id == asked[0] else None

    async with FakeCluster() as fake, client(fake, request_timeout=0.1) as admin:
        fake.control(METADATA, first_is_silent)
        await admin.sees_all_topics()
    assert sorted(asked) == [1, 2], "the other broker is asked, and not the same one once more"
