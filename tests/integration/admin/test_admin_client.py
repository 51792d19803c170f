"""The AdminClient on real brokers: the same calls give the same answers from 2.8 to 4.4."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConfigurationError,
    GroupsFailedError,
    NoBrokerAvailableError,
)
from airflow_kafka_groups.kafka import AdminClient, ClientConfig, ListConsumerGroupOffsetsSpec
from airflow_kafka_groups.kafka.models import (
    CoordinatorType,
    GroupState,
    GroupType,
    ListedOffset,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.api_versions import FIND_COORDINATOR, OFFSET_FETCH
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import OFFSETS_PARTITIONS
from tests.lab.tools import consumer_groups, share_consumer
from tests.lab.workload.groups import commit_offsets, coordinator_partition
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, produce

TOPIC = "core-topic"
GROUPS = [f"core-{i:03d}" for i in range(120)] + ["core-ünïcode-✓-𝄞", "core with spaces"]
OFFSETS = {(TOPIC, 0): 5, (TOPIC, 2): 7}
_seeded: set[str] = set()


@pytest.fixture
def kafka(any_kafka: KafkaCluster) -> KafkaCluster:
    """Return a cluster with a topic and groups that have committed and left."""
    if any_kafka.bootstrap not in _seeded:
        create_topics(any_kafka.bootstrap, {TOPIC: 3})
        produce(any_kafka.bootstrap, {(TOPIC, 0): 10, (TOPIC, 2): 7})
        commit_offsets(any_kafka.bootstrap, dict.fromkeys(GROUPS, OFFSETS))
        _seeded.add(any_kafka.bootstrap)
    return any_kafka


@contextlib.asynccontextmanager
async def client(cluster: KafkaCluster, **overrides: Any) -> AsyncIterator[AdminClient]:
    async with AdminClient(config_of(cluster, **overrides)) as admin:
        yield admin


async def test_find_coordinators_answers_for_every_key_and_agrees_with_the_hash(kafka: KafkaCluster) -> None:
    async with client(kafka) as admin:
        results = await admin.find_coordinators(GROUPS)
        results.raise_for_errors()
        assert list(results) == GROUPS
        numbers = {coordinator_partition(group, OFFSETS_PARTITIONS) for group in GROUPS}
        partitions = {TopicPartition("__consumer_offsets", number) for number in numbers}
        ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
        assert all(isinstance(end, ListedOffset) and end.offset > 0 for end in ends.values()), "where the hash says"


async def test_find_coordinators_of_transactional_ids(kafka: KafkaCluster) -> None:
    async with client(kafka) as admin:
        results = await admin.find_coordinators(["tx-1", "tx-2"], key_type=CoordinatorType.TRANSACTION)
        results.raise_for_errors()


@pytest.mark.parametrize("route_by_hash", [True, False])
@pytest.mark.parametrize("batch_size", [7, 500])
async def test_offsets_are_the_same_whatever_the_route_and_the_batch(
    kafka: KafkaCluster, route_by_hash: bool, batch_size: int
) -> None:
    async with client(kafka, route_by_hash=route_by_hash, batch_size=batch_size) as admin:
        results = await admin.list_consumer_group_offsets(GROUPS)
    results.raise_for_errors()
    assert list(results) == GROUPS
    for group_id, offsets in results.succeeded.items():
        found = {(topic, part): value.offset for (topic, part), value in offsets.items() if value}
        assert found == OFFSETS, group_id


async def test_old_brokers_are_asked_one_by_one_and_new_ones_in_batches(kafka: KafkaCluster) -> None:
    async with client(kafka) as admin:
        description = await admin.describe_cluster()
    batching = {
        (versions.supports(FIND_COORDINATOR, 4), versions.supports(OFFSET_FETCH, 8))
        for versions in description.api_versions.values()
    }
    assert batching == {(kafka.version != "2.8.2",) * 2}, "2.8 is the real fallback"


async def test_partitions_asked_for_by_name_are_all_there(kafka: KafkaCluster) -> None:
    wanted = tuple(TopicPartition(TOPIC, partition) for partition in range(3))
    spec = ListConsumerGroupOffsetsSpec(wanted)
    async with client(kafka) as admin:
        results = await admin.list_consumer_group_offsets({group: spec for group in GROUPS[:3]} | {"core-nobody": spec})
    results.raise_for_errors()
    for group in GROUPS[:3]:
        values = [value and value.offset for value in (results[group].unwrap()[part] for part in wanted)]
        assert values == [5, None, 7]
    assert list(results["core-nobody"].unwrap().values()) == [None, None, None]


async def test_the_single_group_form_is_the_batched_one(kafka: KafkaCluster) -> None:
    async with client(kafka) as admin:
        offsets = await admin.list_consumer_group_offsets(GROUPS[0])
    assert offsets.group_id == GROUPS[0]
    assert {part for part, value in offsets.items() if value} == {TopicPartition(*key) for key in OFFSETS}


async def test_stable_offsets_can_be_asked_for(kafka: KafkaCluster) -> None:
    async with client(kafka) as admin:
        results = await admin.list_consumer_group_offsets(GROUPS[:2], require_stable=True)
    results.raise_for_errors()


async def test_listing_has_every_group_once_with_what_the_broker_tells(kafka: KafkaCluster) -> None:
    async with client(kafka) as admin:
        listing = (await admin.list_groups()).require_complete()
        empty = await admin.list_groups(states=["Empty"], group_id_pattern="core-0.*")
    assert set(GROUPS) <= set(listing)
    found = listing[GROUPS[0]]
    assert found.state is GroupState.EMPTY, "ListGroups v4 came with Kafka 2.6"
    assert found.type is (GroupType.UNKNOWN if kafka.version == "2.8.2" else GroupType.CLASSIC)
    assert set(empty) == {group for group in GROUPS if group.startswith("core-0")}


async def test_descriptions_of_live_empty_and_missing_groups(kafka: KafkaCluster) -> None:
    with LiveConsumer(kafka.bootstrap, "core-live", [TOPIC]):
        async with client(kafka) as admin:
            results = await admin.describe_consumer_groups(
                ["core-live", GROUPS[0], "core-nobody"], include_authorized_operations=True
            )
    live, empty, missing = (results[group].unwrap() for group in results)
    assert live.state is GroupState.STABLE
    assert live.protocol_type == "consumer"
    (member,) = live.members
    assert set(member.assignment) == {TopicPartition(TOPIC, partition) for partition in range(3)}
    assert {"delete", "describe", "read"} <= (live.authorized_operations or set())
    assert (empty.state, empty.members) == (GroupState.EMPTY, ())
    assert missing.state is GroupState.DEAD


async def test_deleting_takes_the_empty_and_leaves_the_live(kafka: KafkaCluster) -> None:
    doomed = [f"core-doomed-{i}" for i in range(60)]
    await asyncio.to_thread(commit_offsets, kafka.bootstrap, dict.fromkeys(doomed, OFFSETS))
    with LiveConsumer(kafka.bootstrap, "core-alive", [TOPIC]):
        async with client(kafka, batch_size=10) as admin:
            results = await admin.delete_consumer_groups([*doomed, "core-alive", "core-nobody", doomed[0]])
            left = (await admin.list_groups()).require_complete()
    assert set(results.succeeded) == set(doomed)
    names = {group: error.name for group, error in results.failed.items() if isinstance(error, BrokerError)}
    assert names == {"core-alive": "NON_EMPTY_GROUP", "core-nobody": "GROUP_ID_NOT_FOUND"}
    assert not set(doomed) & set(left)
    assert "core-alive" in left
    with pytest.raises(GroupsFailedError, match="2 of 62 failed"):
        results.raise_for_errors()


async def test_log_ends_and_the_error_of_a_topic_that_is_not_there(kafka: KafkaCluster) -> None:
    specs = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(3)}
    async with client(kafka) as admin:
        ends = await admin.list_offsets({**specs, TopicPartition("gone", 0): OffsetSpec.latest()})
        starts = await admin.list_offsets(dict.fromkeys(specs, OffsetSpec.earliest()))
    assert [getattr(ends[part], "offset", None) for part in specs] == [10, 0, 7]
    assert [getattr(starts[part], "offset", None) for part in specs] == [0, 0, 0]
    gone = ends[TopicPartition("gone", 0)]
    assert isinstance(gone, BrokerError)
    assert gone.name == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_what_the_official_tool_describes_agrees(kafka: KafkaCluster) -> None:
    table = await asyncio.to_thread(consumer_groups, kafka, "--describe", "--group", GROUPS[1], "--offsets")
    rows = [line.split() for line in table.splitlines() if line.startswith(GROUPS[1])]
    theirs = {(row[1], int(row[2])): int(row[3]) for row in rows}
    async with client(kafka) as admin:
        ours = await admin.list_consumer_group_offsets(GROUPS[1])
    assert {tuple(part): value.offset for part, value in ours.items() if value} == theirs == OFFSETS


async def test_streaming_gives_each_group_once(kafka: KafkaCluster) -> None:
    async with client(kafka, batch_size=20) as admin:
        stream = admin.stream_consumer_group_offsets(GROUPS)
        seen = [result.group_id async for result in stream]
    assert sorted(seen) == sorted(GROUPS)


async def test_leaving_a_stream_early_leaves_no_task_behind(kafka: KafkaCluster) -> None:
    before = len(asyncio.all_tasks())
    async with client(kafka, batch_size=1, batches_in_flight=1) as admin:
        async with contextlib.aclosing(admin.stream_consumer_group_offsets(GROUPS)) as stream:
            async for _ in stream:
                break
        assert (await admin.list_consumer_group_offsets(GROUPS)).failed == {}, "the connections still work"
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before


async def test_kip_848_groups_are_described_and_listed_with_their_type(kafka41: KafkaCluster) -> None:
    create_topics(kafka41.bootstrap, {"core-848": 2})
    with LiveConsumer(kafka41.bootstrap, "core-modern", ["core-848"], protocol="consumer"):
        async with client(kafka41) as admin:
            described = (await admin.describe_consumer_groups(["core-modern"]))["core-modern"].unwrap()
            listing = await admin.list_groups(types=["consumer"])
    assert (described.type, described.state) == (GroupType.CONSUMER, GroupState.STABLE)
    assert len(described.members[0].assignment) == 2
    assert "core-modern" in listing
    assert GROUPS[0] not in listing


async def test_a_share_group_is_listed_as_one(kafka41: KafkaCluster) -> None:
    create_topics(kafka41.bootstrap, {"core-share-topic": 1})
    with share_consumer(kafka41, "core-share", "core-share-topic"):
        async with client(kafka41) as admin:
            listing = await admin.list_groups()
    assert listing["core-share"].type is GroupType.SHARE


class TestBadInput:
    async def test_no_broker_there(self) -> None:
        with pytest.raises(NoBrokerAvailableError, match=r"127\.0\.0\.1:1"):
            async with AdminClient(config_of_address("127.0.0.1:1")):
                pass

    async def test_a_name_that_does_not_resolve(self) -> None:
        with pytest.raises(NoBrokerAvailableError, match="no-such-host"):
            async with AdminClient(config_of_address("no-such-host.invalid:9092")):
                pass

    async def test_a_port_that_hangs_up_or_says_nothing(self) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1000)
            await reader.read(1000)

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            with pytest.raises(NoBrokerAvailableError, match=r"within 0\.5 s"):
                async with AdminClient(config_of_address(f"127.0.0.1:{port}", connect_timeout=0.5)):
                    pass
        finally:
            server.close()

    async def test_ids_that_are_not_texts_and_a_text_that_is_no_list(self, kafka41: KafkaCluster) -> None:
        async with client(kafka41) as admin:
            with pytest.raises(ConfigurationError, match=r"group_ids.*5.*string"):
                await admin.delete_consumer_groups(["a", 5])  # type: ignore[list-item]
            with pytest.raises(ConfigurationError, match="give a list of ids"):
                await admin.delete_consumer_groups("core-000")
            with pytest.raises(ConfigurationError, match="not a regular expression"):
                await admin.list_groups(group_id_pattern="(")
            assert (await admin.delete_consumer_groups([])) == {}


def config_of_address(address: str, **overrides: Any) -> ClientConfig:
    return ClientConfig.from_librdkafka({"bootstrap.servers": address}, **overrides)
