"""What brokers do with groups, as facts: each is checked on ``FakeAdmin`` and on real brokers.

A fact takes a ``World``: an ``AdminClient`` (or the fake), and the means to make groups in its cluster. A test that
passes on the fake because the fake is kinder than Kafka proves nothing; a rule that tests rely on belongs here.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest

from airflow_kafka_groups.exceptions import (
    BrokerError,
    ConfigurationError,
    PartitionsFailedError,
    UnexpectedGroupTypeError,
)
from airflow_kafka_groups.kafka.models import (
    GroupState,
    GroupType,
    ListConsumerGroupOffsetsSpec,
    ListedOffset,
    MemberToRemove,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)

READ, OTHER, ABSENT = "facts-read", "facts-other", "facts-absent"
"""A topic that live groups are subscribed to, one that nobody is, and one that does not exist."""
RECORDS = 10
R0, R1 = TopicPartition(READ, 0), TopicPartition(READ, 1)
O0 = TopicPartition(OTHER, 0)
NOWHERE = TopicPartition(ABSENT, 0)


class World(Protocol):
    """A cluster with the topics ``READ`` and ``OTHER``, two partitions with ten records each."""

    admin: Any

    def name(self, name: str) -> str:
        """Return a group id that only this fact uses."""

    async def empty(self, name: str, offsets: Mapping[TopicPartition, int]) -> str:
        """Make a group without members, with these commits; return its id."""

    def live(self, name: str) -> AbstractAsyncContextManager[str]:
        """Make a consumer group with one member, which is subscribed to ``READ`` and commits nothing."""


Fact = Callable[[World], Awaitable[None]]
FACTS: list[Fact] = []


def fact(check: Fact) -> Fact:
    """Put a check on the list."""
    FACTS.append(check)
    return check


def names_of(error: BaseException | None) -> set[str]:
    """Return the names of the broker's errors in an error of a group."""
    if isinstance(error, PartitionsFailedError):
        return {name for of_partition in error.partition_errors.values() for name in names_of(of_partition)}
    return {error.name} if isinstance(error, BrokerError) else {type(error).__name__}


async def positions(world: World, group_id: str) -> dict[TopicPartition, int]:
    """Return a group's committed offsets."""
    offsets = (await world.admin.list_consumer_group_offsets([group_id]))[group_id].unwrap()
    return {where: value.offset for where, value in offsets.items() if value is not None}


async def delete(world: World, group_id: str) -> BaseException | None:
    """Delete a group; return its error."""
    error: BaseException | None = (await world.admin.delete_consumer_groups([group_id]))[group_id].error
    return error


async def alter(world: World, group_id: str, offsets: Mapping[TopicPartition, int]) -> BaseException | None:
    """Set committed offsets; return the group's error."""
    commits = {where: OffsetAndMetadata(offset) for where, offset in offsets.items()}
    error: BaseException | None = (await world.admin.alter_consumer_group_offsets({group_id: commits}))[group_id].error
    return error


@fact
async def a_group_that_does_not_exist_is_dead_and_reads_as_empty(world: World) -> None:
    group_id = world.name("nobody")
    described = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap()
    assert (described.state, described.type, described.members) == (GroupState.DEAD, GroupType.UNKNOWN, ())
    assert (described.protocol_type, described.protocol) == ("", "")
    assert await positions(world, group_id) == {}
    streamed = [result async for result in world.admin.stream_consumer_group_offsets([group_id])]
    assert [(result.group_id, result.error) for result in streamed] == [(group_id, None)]
    assert group_id not in await world.admin.list_groups()
    assert (await world.admin.find_coordinators([group_id]))[group_id].ok


@fact
async def an_empty_group_has_no_members_and_keeps_its_offsets(world: World) -> None:
    group_id = await world.empty("empty", {R0: 3, O0: 0})
    described = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap()
    assert (described.state, described.type, described.members) == (GroupState.EMPTY, GroupType.CLASSIC, ())
    assert await positions(world, group_id) == {R0: 3, O0: 0}
    assert group_id in (await world.admin.list_groups()).require_complete()


@fact
async def an_empty_group_is_deleted_once(world: World) -> None:
    group_id = await world.empty("once", {R0: 3})
    assert await delete(world, group_id) is None
    assert group_id not in await world.admin.list_groups()
    assert await positions(world, group_id) == {}
    assert names_of(await delete(world, group_id)) == {"GROUP_ID_NOT_FOUND"}


@fact
async def only_the_coordinator_that_is_named_changes_a_group(world: World) -> None:
    group_id = await world.empty("coordinator", {R0: 3})
    coordinator = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap().coordinator
    others = [broker.broker_id for broker in await world.admin.brokers() if broker.broker_id != coordinator]
    commits, right = {group_id: {R0: OffsetAndMetadata(5)}}, {group_id: coordinator}
    for other in others:  # some clusters have one broker only
        wrong = {group_id: other}
        for results in (
            await world.admin.delete_consumer_groups([group_id], coordinators=wrong),
            await world.admin.alter_consumer_group_offsets(commits, coordinators=wrong),
        ):
            assert names_of(results[group_id].error) == {"NOT_COORDINATOR"}
        with pytest.raises(BrokerError, match="NOT_COORDINATOR"):
            await world.admin.delete_consumer_group_offsets(group_id, [R0], coordinator=other)
    assert await positions(world, group_id) == {R0: 3}
    assert (await world.admin.alter_consumer_group_offsets(commits, coordinators=right))[group_id].ok
    assert (await world.admin.delete_consumer_groups([group_id], coordinators=right))[group_id].ok
    assert group_id not in await world.admin.list_groups()


@fact
async def a_group_that_never_was_is_not_deleted(world: World) -> None:
    assert names_of(await delete(world, world.name("never"))) == {"GROUP_ID_NOT_FOUND"}


@fact
async def a_live_group_has_members_and_is_not_deleted(world: World) -> None:
    async with world.live("live") as group_id:
        described = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap()
        assert (described.state, described.protocol_type) == (GroupState.STABLE, "consumer")
        assert len(described.members) == 1
        assert described.protocol != ""
        assert names_of(await delete(world, group_id)) == {"NON_EMPTY_GROUP"}
        assert (await world.admin.list_groups())[group_id].protocol_type == "consumer"


@fact
async def a_group_that_was_left_keeps_its_protocol_type(world: World) -> None:
    async with world.live("left") as group_id:
        pass
    described = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap()
    listing = (await world.admin.list_groups())[group_id]
    assert (described.members, described.protocol_type, listing.protocol_type) == ((), "consumer", "consumer")


@fact
async def the_refusal_of_one_group_does_not_hold_up_the_others(world: World) -> None:
    empty, nobody = await world.empty("mixed", {R0: 3}), world.name("mixed-nobody")
    async with world.live("mixed-live") as live:
        results = await world.admin.delete_consumer_groups([nobody, live, empty, nobody])
    assert list(results) == [nobody, live, empty], "in the order asked, without duplicates"
    assert results[empty].ok
    assert names_of(results[live].error) == {"NON_EMPTY_GROUP"}
    assert names_of(results[nobody].error) == {"GROUP_ID_NOT_FOUND"}


@fact
async def a_commit_creates_a_group_without_a_protocol(world: World) -> None:
    group_id = world.name("created")
    assert await alter(world, group_id, {R0: 4, R1: 0}) is None
    listing = (await world.admin.list_groups())[group_id]
    assert listing.protocol_type == ""
    described = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap()
    assert (described.state, described.members, described.protocol_type) == (GroupState.EMPTY, (), "")
    assert await positions(world, group_id) == {R0: 4, R1: 0}


@fact
async def a_commit_to_an_empty_group_leaves_its_other_offsets(world: World) -> None:
    group_id = await world.empty("altered", {R0: 3, O0: 1})
    assert await alter(world, group_id, {R0: 5, R1: 99}) is None, "an offset beyond the end of the log is not refused"
    assert await positions(world, group_id) == {R0: 5, R1: 99, O0: 1}


@fact
async def a_commit_to_a_live_group_is_refused(world: World) -> None:
    async with world.live("busy") as group_id:
        error = await alter(world, group_id, {R0: 4, O0: 4})
        assert isinstance(error, PartitionsFailedError)
        assert set(error.partition_errors) == {R0, O0}
        assert names_of(error) == {"UNKNOWN_MEMBER_ID"}
        assert await positions(world, group_id) == {}


@fact
async def a_commit_to_a_topic_that_does_not_exist_is_refused_for_that_partition_only(world: World) -> None:
    group_id = world.name("partly")
    error = await alter(world, group_id, {R0: 4, NOWHERE: 4})
    assert isinstance(error, PartitionsFailedError)
    assert set(error.partition_errors) == {NOWHERE}
    assert names_of(error) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert await positions(world, group_id) == {R0: 4}


@fact
async def offsets_of_an_empty_group_can_be_deleted_one_by_one(world: World) -> None:
    group_id = await world.empty("forgetful", {R0: 3, R1: 4})
    await world.admin.delete_consumer_group_offsets(group_id, [R0, O0])
    assert await positions(world, group_id) == {R1: 4}, "one that was never committed is no error"
    with pytest.raises(PartitionsFailedError) as caught:
        await world.admin.delete_consumer_group_offsets(group_id, [R1, NOWHERE])
    assert names_of(caught.value) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert await positions(world, group_id) == {}
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        await world.admin.delete_consumer_group_offsets(world.name("forgetful-nobody"), [R0])


@fact
async def offsets_of_a_live_group_can_be_deleted_where_it_does_not_read(world: World) -> None:
    async with world.live("reading") as group_id:
        await world.admin.delete_consumer_group_offsets(group_id, [O0])
        with pytest.raises(PartitionsFailedError) as caught:
            await world.admin.delete_consumer_group_offsets(group_id, [R0, O0])
    assert {where: names_of(error) for where, error in caught.value.partition_errors.items()} == {
        R0: {"GROUP_SUBSCRIBED_TO_TOPIC"}
    }


@fact
async def partitions_asked_for_by_name_are_all_answered(world: World) -> None:
    group_id = await world.empty("named", {R0: 3})
    spec = {group_id: ListConsumerGroupOffsetsSpec((R0, R1))}
    offsets = (await world.admin.list_consumer_group_offsets(spec))[group_id].unwrap()
    assert {where: value and value.offset for where, value in offsets.items()} == {R0: 3, R1: None}


@fact
async def members_are_removed_by_their_ids_and_others_are_none(world: World) -> None:
    nobody = MemberToRemove("nobody-5f1c"), MemberToRemove("", "nobody"), MemberToRemove("nobody-5f1c", "nobody")
    async with world.live("members") as group_id:
        (member,) = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap().members
        there = MemberToRemove(member.member_id)
        errors = await world.admin.remove_members_from_consumer_group(group_id, [there, *nobody], reason="a fact")
        assert errors[there] is None
        assert [names_of(errors[each]) for each in nobody] == [{"UNKNOWN_MEMBER_ID"}] * 3
        left = (await world.admin.describe_consumer_groups([group_id]))[group_id].unwrap().members
        assert member.member_id not in {each.member_id for each in left}


@fact
async def logs_have_a_begin_and_an_end_and_nothing_after_it(world: World) -> None:
    admin = world.admin
    assert (await admin.list_offsets({R0: OffsetSpec.earliest()}))[R0].offset == 0
    assert (await admin.list_offsets({R0: OffsetSpec.latest()}))[R0].offset == RECORDS
    late = (await admin.list_offsets({R0: OffsetSpec.for_timestamp(2**53)}))[R0]
    assert isinstance(late, ListedOffset)
    assert late.offset == -1
    absent = (await admin.list_offsets({NOWHERE: OffsetSpec.latest()}))[NOWHERE]
    assert names_of(absent) == {"UNKNOWN_TOPIC_OR_PARTITION"}


@fact
async def lag_is_what_is_left_of_the_log(world: World) -> None:
    group_id = await world.empty("behind", {R0: 3, O0: RECORDS})
    lag = (await world.admin.list_consumer_group_lag([group_id]))[group_id].unwrap()
    assert lag.messages == RECORDS - 3


@fact
async def topics_have_ids_if_they_exist(world: World) -> None:
    ids = await world.admin.topic_ids([READ, OTHER, ABSENT])
    assert set(ids) == {READ, OTHER}
    assert ids[READ] != ids[OTHER]
    assert await world.admin.sees_all_topics()
    assert await world.admin.cluster_id()


@fact
async def listings_are_cut_to_what_is_asked_for(world: World) -> None:
    group_id = await world.empty("chosen", {R0: 3})
    other = await world.empty("chosen-not", {R0: 3})
    assert list(await world.admin.list_groups(group_id_pattern=group_id)) == [group_id]
    assert {group_id, other} <= set(await world.admin.list_groups())


@fact
async def what_makes_no_sense_is_refused_before_anything_is_sent(world: World) -> None:
    group_id = await world.empty("sensible", {R0: 3})
    for call in (
        world.admin.describe_consumer_groups,
        world.admin.delete_consumer_groups,
        world.admin.find_coordinators,
    ):
        with pytest.raises(ConfigurationError):
            await call(group_id)
    with pytest.raises(ConfigurationError):
        await alter(world, group_id, {R0: -1})
    assert await positions(world, group_id) == {R0: 3}


async def share_groups_are_left_alone(world: World, group_id: str) -> None:
    """Check what becomes of a share group without members; only new brokers have such groups.

    :param group_id: the group.
    """
    assert isinstance(await delete(world, group_id), UnexpectedGroupTypeError)
    assert names_of(await alter(world, group_id, {R0: 1})) == {"GROUP_ID_NOT_FOUND"}
    listed = await world.admin.list_groups(types=[GroupType.SHARE])
    assert listed[group_id].type is GroupType.SHARE
    assert set(await world.admin.list_groups(types=[GroupType.CLASSIC])).isdisjoint({group_id})
