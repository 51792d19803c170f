"""Share groups (KIP-932): where they start is read in the place of commits, and set by an API of its own."""

from functools import partial
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import BrokerError, PartitionOffsetsError, PartitionsFailedError
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.models import (
    ListConsumerGroupOffsetsSpec,
    OffsetAndMetadata,
    ShareGroupOffsets,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.api_versions import (
    ALTER_SHARE_OFFSETS,
    DESCRIBE_SHARE_OFFSETS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, FakeCluster
from tests.unit.kafka.admin.client.faults import client

pytestmark = pytest.mark.safety

NONE = ErrorCode.none
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
STARTS = {("t", 0): (7, NONE), ("t", 1): (-1, NONE), ("u", 0): (0, NONE)}


def empty(fake: FakeCluster, *group_ids: str) -> None:
    """Let OffsetFetch answer for some groups as for a share group: no offset and no error."""

    def answer(_: int, version: int, request: Any) -> Any:
        asked = {group.group_id for group in request.groups}
        if not asked <= set(group_ids):
            return None
        named = [(topic.name, number) for topic in request.groups[0].topics or () for number in topic.partition_indexes]
        return answers.offset_fetch(version, dict.fromkeys(asked, NONE), dict.fromkeys(named, (-1, NONE)))

    fake.control(OFFSET_FETCH, answer)


def starts(fake: FakeCluster, group_id: str, found: dict[tuple[str, int], tuple[int, ErrorCode]] = STARTS) -> None:
    def answer(_: int, version: int, request: Any) -> Any:
        codes = {group.group_id: NONE for group in request.groups}
        return answers.share_offsets(version, codes, {group_id: found})

    fake.control(DESCRIBE_SHARE_OFFSETS, answer)


async def read(admin: AdminClient, group_id: str) -> list[Any]:
    """Return what the two ways of reading have, which must be the same."""
    listed = (await admin.list_consumer_group_offsets([group_id]))[group_id]
    (streamed,) = [result async for result in admin.stream_consumer_group_offsets([group_id])]
    return [listed, streamed]


async def test_the_start_offsets_of_a_share_group_are_its_positions() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        empty(fake, "share", "none")
        starts(fake, "share")
        for result in await read(admin, "share"):
            found = result.unwrap()
            assert isinstance(found, ShareGroupOffsets)
            assert dict(found) == {T0: OffsetAndMetadata(7), U0: OffsetAndMetadata(0)}
        assert [len(result.unwrap()) for result in await read(admin, "none")] == [0, 0]
        spec = ListConsumerGroupOffsetsSpec((T1, U0))
        named = await admin.list_consumer_group_offsets({"share": spec})
        assert dict(named["share"].unwrap()) == {T1: None, U0: OffsetAndMetadata(0)}
        before = len(fake.requests(DESCRIBE_SHARE_OFFSETS))
        assert [list(result.unwrap()) for result in await read(admin, "classic")] == [[T0], [T0]]
        assert len(fake.requests(DESCRIBE_SHARE_OFFSETS)) == before, "a group with commits is none"


async def test_a_group_that_was_just_listed_as_another_type_is_not_asked_about() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        empty(fake, "a", "b")
        kinds = {"a": "classic", "b": "share"}
        for kind, asked in (("classic", 0), ("share", 2)):
            fake.control(LIST_GROUPS, partial(_listed, {name: kind for name in kinds}))
            await admin.list_groups()
            await read(admin, "a")
            assert len(fake.requests(DESCRIBE_SHARE_OFFSETS)) == asked


def _listed(kinds: dict[str, str], _: int, version: int, request: Any) -> Any:
    (kind,) = set(kinds.values())
    return answers.list_groups(version, NONE, tuple(kinds), kind=kind)


async def test_a_start_offset_that_cannot_be_read_is_no_absent_one() -> None:
    async with FakeCluster() as fake, client(fake) as admin:
        empty(fake, "share")
        starts(fake, "share", {("t", 0): (7, NONE), ("t", 1): (-1, ErrorCode.unknown_server_error)})
        for result in await read(admin, "share"):
            assert isinstance(result.error, PartitionOffsetsError)
            assert list(result.error.partition_errors) == [T1]
        refused = ErrorCode.group_authorization_failed
        fake.control(DESCRIBE_SHARE_OFFSETS, lambda _, v, request: answers.share_offsets(v, {"share": refused}))
        assert all(isinstance(result.error, BrokerError) for result in await read(admin, "share"))


async def test_a_broker_without_share_groups_has_none() -> None:
    without = {name: versions for name, versions in MODERN.items() if name != "DescribeShareGroupOffsets"}
    async with FakeCluster({1: without}) as fake, client(fake) as admin:
        empty(fake, "a")
        assert [len(result.unwrap()) for result in await read(admin, "a")] == [0, 0]
    off = ErrorCode.unsupported_version
    async with FakeCluster() as fake, client(fake) as admin:
        empty(fake, "a")
        fake.control(DESCRIBE_SHARE_OFFSETS, lambda _, v, request: answers.share_offsets(v, {"a": off}))
        assert [len(result.unwrap()) for result in await read(admin, "a")] == [0, 0]


@pytest.mark.parametrize(
    ("code", "answered", "failed"),
    [
        (NONE, {T0: NONE, T1: NONE}, None),
        (NONE, {T0: NONE, T1: ErrorCode.unknown_topic_or_partition}, [T1]),
        (NONE, {}, [T0, T1]),  # as Kafka 4.1 answers, which changes nothing
        (ErrorCode.non_empty_group, {}, "NON_EMPTY_GROUP"),
    ],
)
async def test_start_offsets_are_set_by_their_own_api(
    code: ErrorCode, answered: dict[tuple[str, int], ErrorCode], failed: Any
) -> None:
    sent: list[tuple[str, int, int]] = []
    async with FakeCluster() as fake, client(fake) as admin:

        def answer(_: int, version: int, request: Any) -> Any:
            sent.extend((t.topic_name, p.partition_index, p.start_offset) for t in request.topics for p in t.partitions)
            return answers.altered_share_offsets(code, answered)

        fake.control(ALTER_SHARE_OFFSETS, answer)
        wanted = {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(4)}
        results = await admin.alter_consumer_group_offsets({"share": wanted, "other": wanted}, share_groups=["share"])
        assert [request.keys for request in fake.requests(OFFSET_COMMIT)] == [("other",)]
    assert sent == [("t", 0, 3), ("t", 1, 4)]
    error = results["share"].error
    if failed is None:
        assert error is None
    elif isinstance(failed, str):
        assert isinstance(error, BrokerError)
        assert error.name == failed
    else:
        assert isinstance(error, PartitionsFailedError)
        assert list(error.partition_errors) == failed
