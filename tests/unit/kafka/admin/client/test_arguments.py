"""Arguments are checked before anything is asked: ids are taken once each, in order, and large calls cut otherwise."""

from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ConfigurationError, PartitionOffsetsError
from airflow_kafka_groups.kafka import ClientConfig
from airflow_kafka_groups.kafka.admin.client.arguments import group_ids_of
from airflow_kafka_groups.kafka.admin.client.calls import Calls
from airflow_kafka_groups.kafka.models import (
    ListConsumerGroupOffsetsSpec,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_FETCH
from tests.fakes.cluster import FakeCluster
from tests.unit.kafka.admin.client.faults import client


async def test_partitions_from_an_iterator_are_asked_for_however_often_a_group_is() -> None:
    """The coordinator moves, so that the group is asked for twice; the second request named no partition."""
    wanted = [TopicPartition("t", 0), TopicPartition("t", 1)]
    spec = ListConsumerGroupOffsetsSpec(partition for partition in wanted)  # type: ignore[arg-type]  # the mistake
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        fake.moved = {"g0": 3 - fake.coordinator("g0")}
        (error,) = (await admin.list_consumer_group_offsets({"g0": spec})).failed.values()
    assert len(fake.requests(OFFSET_FETCH)) == 2
    assert isinstance(error, PartitionOffsetsError)
    assert set(error.partition_errors) == {TopicPartition("t", 1)}, "the brokers know of t[0] only"


@pytest.mark.parametrize("partitions", [[("t", -1)], [("t", "0")], "t", [("t", 2**31)], ["ab"]])
async def test_a_partition_that_is_none_is_named_before_anything_is_asked(partitions: object) -> None:
    spec = ListConsumerGroupOffsetsSpec(partitions)  # type: ignore[arg-type]  # the mistake
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        with pytest.raises(ConfigurationError, match="partition"):
            await admin.list_consumer_group_offsets({"g0": spec})
    assert fake.requests(OFFSET_FETCH) == []


HALF = "\ud800"
"""Half of a pair: what files have that are not UTF-8, read with ``surrogateescape``."""
WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    "call",
    [
        ("describe_consumer_groups", (["g", HALF],), "group_ids .*UTF-8"),
        ("delete_consumer_groups", (["g", HALF],), "group_ids .*UTF-8"),
        ("list_consumer_group_offsets", (["g", HALF],), "groups .*UTF-8"),
        ("find_coordinators", (["g", HALF],), "keys .*UTF-8"),
        ("describe_consumer_groups", (None,), "group_ids: give a list"),
        ("delete_consumer_group_offsets", ("g", [(HALF, 0)]), "partition .*UTF-8"),
        ("delete_consumer_group_offsets", ("g", [("t" * 40_000, 0)]), "partition .*32767"),
        ("alter_consumer_group_offsets", ({HALF: {WHERE: OffsetAndMetadata(1)}},), "offsets .*UTF-8"),
        *[
            ("alter_consumer_group_offsets", ({"g": {WHERE: value}},), rf"offsets\['g'\]\[t\[0\]\]{named}")
            for value, named in (
                (OffsetAndMetadata("5"), " .*an offset is"),  # type: ignore[arg-type]  # the mistake, as below
                (OffsetAndMetadata(5.0), " .*an offset is"),  # type: ignore[arg-type]
                (OffsetAndMetadata(5, None), r"\.metadata: give a string"),  # type: ignore[arg-type]
                (OffsetAndMetadata(5, HALF), r"\.metadata .*UTF-8"),
                (OffsetAndMetadata(5, "m" * 40_000), r"\.metadata .*32767"),
                (OffsetAndMetadata(5, "", 2**31), r"\.leader_epoch .*an epoch is"),
                (OffsetAndMetadata(5, "", -5), r"\.leader_epoch .*an epoch is"),
            )
        ],
        ("list_consumer_group_lag", ("orders",), "groups .*give a list"),
        ("authorized_operations", ("orders",), "topics .*give a list"),
        ("find_coordinators", (["g"],), {"key_type": 7}, "key_type .*use one of 0, 1, 2"),
        ("list_groups", (), {"states": "Empty"}, "states .*give a list"),
        ("list_groups", (), {"states": ["empty"]}, "states .*use one of Unknown, Empty"),
        ("list_groups", (), {"types": None}, "types: give a list"),
        ("list_groups", (), {"group_id_pattern": 5}, "group_id_pattern .*regular expression"),
        ("delete_consumer_groups", (["g"],), {"types": "classic"}, "types .*give a list"),
        ("delete_consumer_groups", (["g"],), {"types": ["Classic"]}, "types .*use one of unknown, classic"),
        ("delete_consumer_groups", (["g"],), {"offsets": {"g": {WHERE: 1}}}, "offsets: give the GroupOffsets"),
        ("list_offsets", ({WHERE: OffsetSpec.for_timestamp(1.5e12)},), "specs.*milliseconds"),  # type: ignore[arg-type]
        ("list_offsets", ({WHERE: OffsetSpec.for_timestamp(2**63)},), "specs.*milliseconds"),
        ("list_offsets", ({(HALF, 0): OffsetSpec.latest()},), "partition .*UTF-8"),
    ],
)
async def test_what_no_request_can_carry_is_named_before_anything_is_asked(call: tuple[Any, ...]) -> None:
    name, arguments, *keywords, named = call
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        sent = len(fake.sent)
        with pytest.raises(ConfigurationError, match=named):
            await getattr(admin, name)(*arguments, **dict(*keywords))
        assert len(fake.sent) == sent


def test_duplicates_are_removed_and_ids_with_other_letters_are_taken_as_they_are() -> None:
    assert group_ids_of(["b", "a", "b"]) == ["b", "a"]
    assert group_ids_of(["ü" * 16_383, "\U0001f600", "a\0b", "x" * 32_767]) == [
        "ü" * 16_383,
        "\U0001f600",
        "a\0b",
        "x" * 32_767,
    ]


async def test_large_calls_take_larger_requests_unless_told_otherwise() -> None:
    calls = Calls(ClientConfig.from_librdkafka({"bootstrap.servers": "b1"}))
    assert [calls.batch_size(groups) for groups in (1, 19_999, 20_000)] == [220, 220, 400]
    told = Calls(ClientConfig.from_librdkafka({"bootstrap.servers": "b1"}, batch_size=50))
    assert told.batch_size(20_000) == 50
