"""What brokers really do in the corners, and that we get around them: on real brokers."""

import asyncio
from collections.abc import Iterator

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    PartitionOffsetsError,
    PartitionsFailedError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka import AdminClient, LagFlag, ListConsumerGroupOffsetsSpec
from airflow_kafka_groups.kafka.admin.handlers.groups import DescribeGroupsHandler
from airflow_kafka_groups.kafka.models import (
    CoordinatorType,
    GroupOffsets,
    GroupState,
    GroupType,
    OffsetAndMetadata,
    TopicPartition,
)
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.triggers.conditions import EndReached, OffsetsReached
from tests.integration.conftest import config_of
from tests.lab.cluster import KafkaCluster
from tests.lab.tools import consumer_groups, share_consumer
from tests.lab.workload.groups import commit_offsets, seed_groups
from tests.lab.workload.live import LiveConsumer
from tests.lab.workload.topics import create_topics, delete_records, delete_topics, produce, topic_id_of
from tests.lab.workload.transactions import open_transaction

WIDE = "w" * 60


@pytest.fixture(scope="module")
def narrow() -> Iterator[KafkaCluster]:
    """Run one broker whose groups are all in one partition of ``__consumer_offsets``."""
    with KafkaCluster(version="4.1.0", brokers=1, config={"offsets.topic.num.partitions": 1}) as cluster:
        create_topics(cluster.bootstrap, {WIDE: 200})
        yield cluster


class TestTombstones:
    """Kafka 4 writes a deletion as one batch for each partition, and fails all of it when that is too big."""

    async def test_what_is_too_much_at_once_is_deleted_all_the_same(self, narrow: KafkaCluster) -> None:
        groups = [f"too-much-{i:03d}" for i in range(120)]
        await asyncio.to_thread(seed_groups, narrow.bootstrap, groups, {(WIDE, p): 1 for p in range(200)})
        async with AdminClient(config_of(narrow, batch_size=500)) as admin:
            results = await admin.delete_consumer_groups(groups)
            left = (await admin.list_groups()).require_complete()
        results.raise_for_errors()
        assert not set(groups) & set(left)

    async def test_groups_whose_deletion_failed_are_listed_twice_and_counted_once(self, narrow: KafkaCluster) -> None:
        groups = [f"twice-{i:03d}" for i in range(120)]
        await asyncio.to_thread(seed_groups, narrow.bootstrap, groups, {(WIDE, p): 1 for p in range(200)})
        async with AdminClient(config_of(narrow, batch_size=500)) as admin:
            known = (await admin.list_consumer_group_offsets(groups)).succeeded
            nothing = {group: GroupOffsets(group) for group in groups}  # weighed as nothing: one request for all
            await admin.delete_consumer_groups(groups[:1], offsets=nothing)
            listing = await admin.list_groups(group_id_pattern="twice-.*")
            assert len(listing) == 119
            (await admin.delete_consumer_groups(groups[1:], offsets=known)).raise_for_errors()

    async def test_one_group_that_is_too_big_is_kept_until_some_offsets_are_deleted(self, narrow: KafkaCluster) -> None:
        giant = "giant-" + "g" * 6000  # the id is in every tombstone: 200 of these are more than a batch holds
        for half in (range(100), range(100, 200)):  # a commit is a batch, too
            await asyncio.to_thread(commit_offsets, narrow.bootstrap, {giant: {(WIDE, p): 1 for p in half}})
        async with AdminClient(config_of(narrow)) as admin:
            read = await admin.list_consumer_group_offsets(giant)
            error = (await admin.delete_consumer_groups([giant], offsets={giant: read}))[giant].error
            assert isinstance(error, BrokerError)
            assert error.name == "UNKNOWN_SERVER_ERROR", "as with every other client"
            assert await admin.list_consumer_group_offsets(giant) == read
            await admin.delete_consumer_group_offsets(giant, list(read))
            (await admin.delete_consumer_groups([giant])).raise_for_errors()
            described = (await admin.describe_consumer_groups([giant]))[giant].unwrap()
        assert described.state is GroupState.DEAD

    async def test_offsets_that_are_too_many_for_a_batch_are_forgotten_in_slices(self, narrow: KafkaCluster) -> None:
        wide = "wide-" + "g" * 6000
        for half in (range(100), range(100, 200)):
            await asyncio.to_thread(commit_offsets, narrow.bootstrap, {wide: {(WIDE, p): 1 for p in half}})
        async with AdminClient(config_of(narrow)) as admin:
            coordinator = (await admin.describe_consumer_groups([wide]))[wide].unwrap().coordinator
            partitions = [TopicPartition(WIDE, p) for p in range(200)]
            await admin.delete_consumer_group_offsets(wide, partitions, coordinator=coordinator)
            assert dict(await admin.list_consumer_group_offsets(wide)) == {}


class TestChangingOffsets:
    async def test_offsets_are_altered_and_forgotten(self, any_kafka: KafkaCluster) -> None:
        topic = "corner-alter"
        await asyncio.to_thread(create_topics, any_kafka.bootstrap, {topic: 3})
        parts = [TopicPartition(topic, partition) for partition in range(3)]
        values = {parts[0]: OffsetAndMetadata(3, "mëta", 0), parts[1]: OffsetAndMetadata(4)}
        async with AdminClient(config_of(any_kafka)) as admin:
            (await admin.alter_consumer_group_offsets({"corner-a": values, "corner-b": {}})).raise_for_errors()
            read = await admin.list_consumer_group_offsets("corner-a")
            assert dict(read) == values
            await admin.delete_consumer_group_offsets("corner-a", parts[:1])
            assert set(await admin.list_consumer_group_offsets("corner-a")) == {parts[1]}
            with pytest.raises(PartitionsFailedError, match="corner-gone"):
                await admin.delete_consumer_group_offsets("corner-a", [TopicPartition("corner-gone", 0), parts[1]])
            with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
                await admin.delete_consumer_group_offsets("corner-nobody", parts)

    async def test_a_live_group_is_not_altered(self, any_kafka: KafkaCluster) -> None:
        topic = "corner-live-topic"
        await asyncio.to_thread(create_topics, any_kafka.bootstrap, {topic: 1})
        part = TopicPartition(topic, 0)
        with LiveConsumer(any_kafka.bootstrap, "corner-live", [topic], commit_every=None):
            async with AdminClient(config_of(any_kafka)) as admin:
                altered = await admin.alter_consumer_group_offsets({"corner-live": {part: OffsetAndMetadata(0)}})
                error = altered.failed["corner-live"]
                assert isinstance(error, PartitionsFailedError)
                assert "UNKNOWN_MEMBER_ID" in str(error.partition_errors[part])
                with pytest.raises(PartitionsFailedError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
                    await admin.delete_consumer_group_offsets("corner-live", [part])


async def test_a_group_with_more_offsets_than_a_commit_can_hold_is_deleted_and_restored(
    any_kafka: KafkaCluster,
) -> None:
    """Its consumers committed a part each; its tombstones fit into a batch, and its offsets do not."""
    topic, group = "corner-heavy", "corner-heavy-group"
    await asyncio.to_thread(create_topics, any_kafka.bootstrap, {topic: 300})
    values = {TopicPartition(topic, number): OffsetAndMetadata(0, "m" * 4_000, 0) for number in range(300)}
    async with AdminClient(config_of(any_kafka)) as admin:
        for start in range(0, 300, 100):
            part = {where: value for where, value in values.items() if start <= where.partition < start + 100}
            (await admin.alter_consumer_group_offsets({group: part})).raise_for_errors()
        read = await admin.list_consumer_group_offsets(group)
        (await admin.delete_consumer_groups([group], offsets={group: read})).raise_for_errors()
        assert dict(await admin.list_consumer_group_offsets(group)) == {}
        (await admin.alter_consumer_group_offsets({group: values})).raise_for_errors()
        assert dict(await admin.list_consumer_group_offsets(group)) == values == dict(read)


async def test_lag_and_its_flags(any_kafka: KafkaCluster) -> None:
    topic = "corner-lag"
    await asyncio.to_thread(create_topics, any_kafka.bootstrap, {topic: 4})
    await asyncio.to_thread(produce, any_kafka.bootstrap, {(topic, 0): 10, (topic, 1): 10, (topic, 3): 10})
    await asyncio.to_thread(delete_records, any_kafka.bootstrap, {(topic, 3): 6})
    offsets = {(topic, 0): 4, (topic, 1): 15, (topic, 3): 4}
    await asyncio.to_thread(commit_offsets, any_kafka.bootstrap, {"corner-lagging": offsets})
    parts = tuple(TopicPartition(topic, partition) for partition in range(4))
    async with AdminClient(config_of(any_kafka)) as admin:
        results = await admin.list_consumer_group_lag({"corner-lagging": ListConsumerGroupOffsetsSpec(parts)})
    lag = results["corner-lagging"].unwrap()
    assert [lag.partitions[part].flag for part in parts] == [
        LagFlag.OK,
        LagFlag.BEYOND_END,
        LagFlag.NO_COMMIT,
        LagFlag.DATA_LOST,
    ]
    assert (lag.partitions[parts[3]].messages, lag.partitions[parts[3]].lost) == (4, 2)
    assert lag.partitions[parts[0]].messages == 6
    assert lag.messages is None


async def test_a_group_that_does_not_exist_has_no_offsets_and_no_error(any_kafka: KafkaCluster) -> None:
    """So "no offsets" is never "no group", nor the other way round: existence is the listing's to say."""
    async with AdminClient(config_of(any_kafka)) as admin:
        assert len(await admin.list_consumer_group_offsets("corner-never-was")) == 0
        assert "corner-never-was" not in (await admin.list_groups()).require_complete()
        described = (await admin.describe_consumer_groups(["corner-never-was"]))["corner-never-was"].unwrap()
        gone = (await admin.delete_consumer_groups(["corner-never-was"])).failed["corner-never-was"]
        asked_once = await admin._calls.ask_coordinators(["corner-never-was"], DescribeGroupsHandler())
    assert (described.state, described.type) == (GroupState.DEAD, GroupType.UNKNOWN)
    # Kafka 4 says that there is none of any type, so that one request tells it.
    knows_types = any_kafka.version.startswith("4.")
    one_answer = asked_once["corner-never-was"].unwrap().type
    assert one_answer is (GroupType.UNKNOWN if knows_types else GroupType.CLASSIC)
    assert "GROUP_ID_NOT_FOUND" in str(gone)


async def test_offsets_of_a_topic_that_is_not_there_are_refused_partition_by_partition(kafka41: KafkaCluster) -> None:
    missing = TopicPartition("corner-no-topic", 0)
    async with AdminClient(config_of(kafka41)) as admin:
        altered = await admin.alter_consumer_group_offsets({"corner-restored": {missing: OffsetAndMetadata(1)}})
    error = altered.failed["corner-restored"]
    assert isinstance(error, PartitionsFailedError)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error.partition_errors[missing])


async def test_the_group_with_the_empty_id_is_one_of_all_groups(kafka41: KafkaCluster) -> None:
    await asyncio.to_thread(create_topics, kafka41.bootstrap, {"corner-nameless": 1})
    where = TopicPartition("corner-nameless", 0)
    async with AdminClient(config_of(kafka41)) as admin:
        (await admin.alter_consumer_group_offsets({"": {where: OffsetAndMetadata(5)}})).raise_for_errors()
        listed = (await admin.list_groups()).require_complete()
        assert listed[""].state is GroupState.EMPTY
        assert "" in filter(GroupFilter().selects, listed)
        assert (await admin.list_consumer_group_offsets([""]))[""].unwrap()[where] == OffsetAndMetadata(5)
        assert (await admin.delete_consumer_groups([""]))[""].ok
        assert "" not in (await admin.list_groups()).require_complete()
        error = (await admin.delete_consumer_groups([""])).failed[""]
    assert isinstance(error, BrokerError)
    assert error.name in ("GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID")


async def test_offsets_of_a_deleted_topic_vanish_by_themselves(kafka41: KafkaCluster) -> None:
    await asyncio.to_thread(create_topics, kafka41.bootstrap, {"corner-short-lived": 1})
    await asyncio.to_thread(commit_offsets, kafka41.bootstrap, {"corner-orphan": {("corner-short-lived", 0): 1}})
    await asyncio.to_thread(delete_topics, kafka41.bootstrap, ["corner-short-lived"])
    async with AdminClient(config_of(kafka41)) as admin:
        async with asyncio.timeout(20):
            while len(await admin.list_consumer_group_offsets("corner-orphan")):  # noqa: ASYNC110  # nothing to await
                await asyncio.sleep(0.2)


async def test_a_share_group_is_described_as_one_and_kept(kafka41: KafkaCluster) -> None:
    """The broker itself would delete it, empty as it is by then, with all its progress (measured)."""
    await asyncio.to_thread(create_topics, kafka41.bootstrap, {"corner-share-topic": 1})
    async with AdminClient(config_of(kafka41)) as admin:
        with share_consumer(kafka41, "corner-share", "corner-share-topic"):
            described = (await admin.describe_consumer_groups(["corner-share"]))["corner-share"].unwrap()
        async with asyncio.timeout(60):
            while (await admin.list_groups())["corner-share"].state is not GroupState.EMPTY:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        kept = (await admin.delete_consumer_groups(["corner-share"]))["corner-share"]
        there = "corner-share" in (await admin.list_groups()).require_complete()
        async with asyncio.timeout(60):  # until the topic with share groups' state is there, brokers refuse
            while (await admin.delete_consumer_groups(["corner-share"], types=[GroupType.SHARE])).failed:  # noqa: ASYNC110
                await asyncio.sleep(0.5)
        gone = "corner-share" not in (await admin.list_groups()).require_complete()
    assert described.type is GroupType.SHARE
    assert len(described.members) == 1
    assert isinstance(kept.error, UnexpectedGroupTypeError)
    assert there
    assert gone


async def test_coordinators_of_share_keys_are_found_and_bad_keys_are_refused_by_name(kafka41: KafkaCluster) -> None:
    """A share key is group:topic id:partition (KIP-932); FindCoordinator takes it from v6 on."""
    await asyncio.to_thread(create_topics, kafka41.bootstrap, {"corner-share-keys": 1})
    with share_consumer(kafka41, "corner-sharing", "corner-share-keys"):  # the first one makes the state topic
        topic_id = await asyncio.to_thread(topic_id_of, kafka41.bootstrap, "corner-share-keys")
        good, bad = f"corner-sharing:{topic_id}:0", "no-share-key"
        async with AdminClient(config_of(kafka41)) as admin:
            results = await admin.find_coordinators([good, bad], key_type=CoordinatorType.SHARE)
    assert results[good].unwrap().broker_id in kafka41.brokers
    assert isinstance(results[bad].error, BrokerError)


async def test_offsets_of_an_open_transaction_are_waited_for_and_never_left_out(kafka41: KafkaCluster) -> None:
    """Java's client drops such a partition with a warning; here the group says so, until the transaction ends."""
    topic, group = "corner-transaction", "corner-transacting"
    part = TopicPartition(topic, 0)
    await asyncio.to_thread(create_topics, kafka41.bootstrap, {topic: 1})
    await asyncio.to_thread(commit_offsets, kafka41.bootstrap, {group: {(topic, 0): 3}})
    with open_transaction(kafka41.bootstrap, group, {(topic, 0): 7}) as commit:
        async with AdminClient(config_of(kafka41)) as admin:
            told = await admin.list_consumer_group_offsets([group])
            unstable = (await admin.list_consumer_group_offsets([group], require_stable=True)).failed[group]
            await asyncio.to_thread(commit)
            stable = await admin.list_consumer_group_offsets(group, require_stable=True)
    assert told[group].unwrap()[part] == OffsetAndMetadata(3), "what was committed before"
    assert isinstance(unstable, PartitionOffsetsError)
    assert "UNSTABLE_OFFSET_COMMIT" in str(unstable.partition_errors[part])
    assert stable[part] == OffsetAndMetadata(7)


async def test_a_first_commit_in_an_open_transaction_is_seen_only_by_its_name(kafka41: KafkaCluster) -> None:
    """Of "all offsets" brokers leave out a partition that has nothing but a pending commit, and delete the group.

    The transaction commits afterwards, without an error, and its offset is nowhere. docs/safety.md says so.
    """
    topic, group = "corner-first-commit", "corner-first-committing"
    old, new = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await asyncio.to_thread(create_topics, kafka41.bootstrap, {topic: 2})
    await asyncio.to_thread(commit_offsets, kafka41.bootstrap, {group: {(topic, 0): 3}})
    with open_transaction(kafka41.bootstrap, group, {(topic, 1): 7}) as commit:
        async with AdminClient(config_of(kafka41)) as admin:
            everything = await admin.list_consumer_group_offsets(group, require_stable=True)
            by_name = ListConsumerGroupOffsetsSpec(topic_partitions=(old, new))
            named = (await admin.list_consumer_group_offsets({group: by_name}, require_stable=True)).failed[group]
            (await admin.delete_consumer_groups([group])).raise_for_errors()
            await asyncio.to_thread(commit)
            assert group not in (await admin.list_groups()).require_complete()
    assert dict(everything) == {old: OffsetAndMetadata(3)}
    assert isinstance(named, PartitionOffsetsError)
    assert list(named.partition_errors) == [new]


async def test_a_dead_broker_costs_its_own_groups_a_moment_and_no_other() -> None:
    """Kill a coordinator while its groups are asked for: they are found at the broker that takes over."""
    with KafkaCluster(version="4.1.0", brokers=3) as cluster:
        await asyncio.to_thread(create_topics, cluster.bootstrap, {"corner-kill": 1}, replication_factor=3)
        groups = [f"kill-{i:03d}" for i in range(300)]
        await asyncio.to_thread(commit_offsets, cluster.bootstrap, {group: {("corner-kill", 0): 1} for group in groups})
        async with AdminClient(config_of(cluster, batch_size=10)) as admin:
            assert not (await admin.list_consumer_group_offsets(groups)).failed
            cluster.kill(cluster.brokers[-1])
            short = await admin.list_groups()
            assert not short.complete or len(short) == len(groups), "short is not empty"
            async with asyncio.timeout(60):
                while True:
                    results = await admin.list_consumer_group_offsets(groups)
                    results.raise_for_errors()
                    if all(len(offsets) == 1 for offsets in results.succeeded.values()):
                        break
                    # A broker that has just taken over shows only what lies below its high watermark, for some
                    # milliseconds and without an error (docs/safety.md). More than a moment would be our mistake.
                    await asyncio.sleep(0.1)
        listed = await asyncio.to_thread(consumer_groups, cluster, "--list")
    assert set(groups) <= set(listed.split())


async def test_an_offset_past_the_end_has_reached_no_target(kafka44: KafkaCluster) -> None:
    where = TopicPartition("past-the-end", 0)
    await asyncio.to_thread(create_topics, kafka44.bootstrap, {where.topic: 1})
    await asyncio.to_thread(produce, kafka44.bootstrap, {where: 5})
    await asyncio.to_thread(commit_offsets, kafka44.bootstrap, {"past": {where: 500}, "up-to-date": {where: 5}})
    async with AdminClient(config_of(kafka44)) as admin:
        for group_id, reached in (("past", False), ("up-to-date", True)):
            assert (await OffsetsReached(targets={group_id: {where: 4}}).check(admin)).reached is reached
            assert (await EndReached(group_ids=(group_id,)).check(admin)).reached is reached
