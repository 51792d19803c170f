"""Ids are taken once each, in their order, however many they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.admin.client import arguments
from airflow_kafka_groups.admin.client.arguments import group_ids_of
from airflow_kafka_groups.exceptions import ConfigurationError, PartitionOffsetsError
from airflow_kafka_groups.models import ListConsumerGroupOffsetsSpec, TopicPartition
from airflow_kafka_groups.protocol.apis import OFFSET_FETCH
from tests.fakes.cluster import FakeCluster
from tests.unit.admin.client.faults import client


@given(st.lists(st.sampled_from("abcdefgh")), st.booleans())
def test_duplicates_are_removed_from_long_lists_as_from_short_ones(group_ids: list[str], long: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_MANY", 0 if long else 1_000)
        assert group_ids_of(group_ids) == list(dict.fromkeys(group_ids))


def test_a_long_list_is_not_the_callers_own() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_MANY", 0)
        given_ids = ["a", "b"]
        assert group_ids_of(given_ids) is not given_ids


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
