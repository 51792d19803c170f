"""Results of each group, their columns for Arrow, and whether groups are ready for KIP-848."""

from array import array
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import GroupsFailedError, IncompleteListingError, KafkaGroupsError
from airflow_kafka_groups.kafka import GroupListings, GroupResult, GroupResults, to_arrow
from airflow_kafka_groups.kafka.admin.arrow import packed_rows
from airflow_kafka_groups.kafka.admin.readiness import SERVER_ASSIGNORS, MoveStatus, judge_readiness
from airflow_kafka_groups.kafka.models import (
    GroupDescription,
    GroupListing,
    GroupOffsets,
    GroupState,
    GroupType,
    MemberDescription,
    OffsetAndMetadata,
    TopicOffsets,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_GROUPS, METADATA
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import classic_member
from airflow_kafka_groups.kafka.protocol.codec import response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, broker_error

ERROR = KafkaGroupsError("no")


def listing(group_id: str, coordinator: int = 1) -> GroupListing:
    return GroupListing(
        group_id=group_id, protocol_type="", state=GroupState.EMPTY, type=GroupType.CLASSIC, coordinator=coordinator
    )


def test_results_tell_apart_what_succeeded_and_what_failed() -> None:
    results = GroupResults([GroupResult("b", 2), GroupResult("a", None, ERROR), GroupResult("c", None)])
    assert results.succeeded == {"b": 2, "c": None}
    assert results.failed == {"a": ERROR}
    assert [result.group_id for result in results.sorted()] == ["a", "b", "c"]
    assert repr(results) == "<GroupResults [3 groups | 2 succeeded | 1 failed]>"
    assert results["b"].ok
    with pytest.raises(KafkaGroupsError, match="no"):
        results["a"].unwrap()


def test_errors_are_raised_only_when_asked_for_and_name_the_first_groups() -> None:
    GroupResults([GroupResult("a", 1)]).raise_for_errors()
    results: GroupResults[int] = GroupResults(GroupResult(f"g{i}", None, ERROR) for i in range(5))
    with pytest.raises(GroupsFailedError, match=r"5 of 5 failed: 'g0': no; .*; and 2 more") as raised:
        results.raise_for_errors()
    assert len(raised.value.errors) == 5


def test_an_error_of_groups_with_the_longest_ids_is_of_a_bearable_length() -> None:
    errors = {f"{i}{'x' * 32_766}": KafkaGroupsError(f"group '{i}{'x' * 32_766}': no") for i in range(5)}
    error = GroupsFailedError(errors, 5)
    assert len(str(error)) < 4_000
    assert str(error).endswith("': no; and 2 more"), "what happened is at the end"
    assert error.errors == errors, "the ids are complete here"


def test_a_group_listed_twice_is_there_once() -> None:
    assert len(GroupListings([listing("a"), listing("b"), listing("a", 2)], {})) == 2


@pytest.mark.safety
@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.UNKNOWN])
def test_a_group_that_one_broker_lists_as_empty_and_another_does_not_is_not_empty(state: GroupState) -> None:
    """A coordinator that was replaced may not know it yet, and lists what it saw last."""
    old, new = listing("a", 1), listing("a", 2)._replace(state=state)
    for both in ([old, new], [new, old], [old, new, old]):
        assert GroupListings(iter([*both, listing("b")]), {})["a"] == new


def test_a_listing_that_lacks_a_broker_is_not_taken_for_a_whole_one() -> None:
    short = GroupListings([listing("a")], {3: ERROR})
    assert not short.complete
    assert repr(short) == "<GroupListings [1 groups | 1 brokers missing]>"
    with pytest.raises(IncompleteListingError, match="broker 3: no"):
        short.require_complete()
    whole = GroupListings([], {})
    assert whole.require_complete() is whole


def test_a_listing_names_brokers_before_partitions() -> None:
    partitions = [TopicPartition("__consumer_offsets", number) for number in (10, 9)]
    leaderless = broker_error(ErrorCode.leader_not_available, METADATA)
    short = GroupListings([], {**dict.fromkeys(partitions, leaderless), 10: ERROR, 9: ERROR})
    assert list(short.errors) == [9, 10, *reversed(partitions)]
    with pytest.raises(IncompleteListingError) as raised:
        short.require_complete()
    assert str(raised.value) == (
        "groups may be missing; 2 broker(s) did not answer: broker 10: no; broker 9: no; "
        "2 partition(s) have no leader, so no broker lists their groups: __consumer_offsets-9, __consumer_offsets-10"
    )


COLUMNS = ("group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata")


def rows_of(groups: Iterable[GroupOffsets]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in COLUMNS) for row in to_arrow(groups).to_pylist()]


def test_every_group_topic_and_partition_is_a_row() -> None:
    groups = [
        GroupOffsets.from_mapping(
            "a", {TopicPartition("t", 0): OffsetAndMetadata(2**40, "mëta", 7), TopicPartition("t", 1): None}
        ),
        GroupOffsets.from_mapping("none", {}),
        GroupOffsets.from_mapping("b", {TopicPartition("u", 3): OffsetAndMetadata(0)}),
    ]
    assert rows_of(groups) == [
        ("a", "t", 0, 2**40, 7, "mëta"),
        ("a", "t", 1, None, None, ""),
        ("b", "u", 3, 0, None, ""),
    ]


def test_no_groups_are_an_empty_table() -> None:
    assert to_arrow([]).num_rows == 0


@given(
    st.lists(
        st.dictionaries(
            st.builds(TopicPartition, st.sampled_from(("t", "u", "ü")), st.integers(0, 2**31 - 1)),
            st.none()
            | st.builds(
                OffsetAndMetadata,
                st.integers(0, 2**63 - 1),
                st.sampled_from(("", "", "", "mëta")),
                st.none() | st.integers(0, 2**31 - 1),
            ),
        ),
        max_size=5,
    )
)
def test_columns_hold_what_the_groups_hold_whether_packed_or_not(groups: list[dict[TopicPartition, Any]]) -> None:
    made = [GroupOffsets.from_mapping(f"g{number}", offsets) for number, offsets in enumerate(groups)]
    expected = [
        (group.group_id, topic.topic, partition, None if offset < 0 else offset, None if epoch < 0 else epoch, metadata)
        for group in made
        for topic in group.topics
        for partition, offset, epoch, metadata in topic.rows()
    ]
    assert rows_of(made) == expected
    packed = [
        GroupOffsets(
            group.group_id,
            tuple(
                topic if topic.metadata else TopicOffsets.packed(topic.topic, topic.packed_rows())
                for topic in group.topics
            ),
        )
        for group in made
    ]
    assert rows_of(packed) == expected


def test_a_topic_without_rows_has_none() -> None:
    full = TopicOffsets("t", array("i", [3]), array("q", [9]), array("i", [-1]))
    assert rows_of([GroupOffsets("g", (TopicOffsets.packed("e", b""), full))]) == [("g", "t", 3, 9, None, "")]


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1))))
def test_columns_become_rows_as_a_broker_sends_them(rows: list[tuple[int, int, int]]) -> None:
    partitions, offsets, epochs = (array(kind, [row[place] for row in rows]) for place, kind in enumerate("iqi"))
    made = packed_rows(partitions, offsets, epochs)
    assert made == TopicOffsets("t", partitions, offsets, epochs).packed_rows()
    assert list(TopicOffsets.packed("t", made).rows()) == [(*row, "") for row in rows]


KAFKA_4 = (4, 1)
_ORDERS = "00000000000100066f7264657273" + "00000001" + "00000000"
"""Version 0 of an assignment with partition 0 of the topic ``orders``."""
KAFKAJS = bytes.fromhex(_ORDERS + "00000000")
SARAMA = bytes.fromhex(_ORDERS + "00000018" + "0000000100066f72646572730000000100000000" + "00000001")


def member(classic: bool | None = True, **how: Any) -> MemberDescription:
    facts: dict[str, Any] = {"subscribed_topics": ("t",), "uses_classic_protocol": classic}
    return MemberDescription(member_id="m", client_id="c", host="/h", **{**facts, **how})


def group(*members: MemberDescription, state: GroupState | None = None, **how: Any) -> GroupDescription:
    facts: dict[str, Any] = {
        "group_id": "g",
        "state": state or (GroupState.STABLE if members else GroupState.EMPTY),
        "type": GroupType.CLASSIC,
        "protocol_type": "consumer",
        "protocol": "range" if members else "",
        "coordinator": 1,
    }
    return GroupDescription(**{**facts, **how}, members=members)


@pytest.mark.parametrize(("assignor", "server"), SERVER_ASSIGNORS.items())
def test_a_group_with_an_assignor_that_brokers_have_is_ready(assignor: str, server: str) -> None:
    found = judge_readiness(group(member(), member(group_instance_id="i"), protocol=assignor), KAFKA_4)
    assert (found.status, found.blockers, found.assignor, found.moves_to) == (MoveStatus.READY, (), assignor, server)
    assert (found.members, found.static_members, found.classic_members) == (2, 1, 2)


@pytest.mark.parametrize(
    ("what", "blockers"),
    [
        (group(member(), member(subscribed_topics=None)), ["subscription of 1 member(s) cannot be read"]),
        (group(member(), member(assignment_known=False)), ["assignment of 1 member(s) cannot be read"]),
        (
            group(member(subscribed_topics=None), member(assigned_with_user_data=True), protocol="{x}"),
            ["subscription of 1 member(s)", "'{x}' adds user data to the assignment of 1 member(s)"],
        ),
    ],
)
def test_what_blocks_a_group(what: GroupDescription, blockers: list[str]) -> None:
    found = judge_readiness(what, KAFKA_4)
    assert found.status is MoveStatus.BLOCKED
    assert len(found.blockers) == len(blockers)
    assert all(text in blocker for text, blocker in zip(blockers, found.blockers, strict=True))


@pytest.mark.parametrize(
    ("assignor", "assignment", "status"),
    [
        ("sticky", SARAMA, MoveStatus.BLOCKED),
        ("RoundRobinAssigner", KAFKAJS, MoveStatus.READY),
        ("RoundRobinAssigner", b"", MoveStatus.READY),  # one that has not synced yet
        ("RoundRobinAssigner", KAFKAJS[:-5], MoveStatus.BLOCKED),
    ],
)
def test_what_other_clients_write_is_judged_as_brokers_do(assignor: str, assignment: bytes, status: MoveStatus) -> None:
    """Recorded from Sarama 1.45 and kafkajs 2.2 on Kafka 4.4, which refused the first and took the second over."""
    subscription = bytes.fromhex("00000000000100066f726465727300000000")
    sent = {"member_metadata": subscription, "member_assignment": assignment}
    schema = response_schema(DESCRIBE_GROUPS, 5)
    told = classic_member(schema.DescribedGroupMember(member_id="m", client_id="c", client_host="/h", **sent), True)
    found = judge_readiness(group(told, protocol=assignor), KAFKA_4)
    assert found.status is status, found.blockers


@pytest.mark.parametrize(("oldest", "said"), [((3, 9), "Kafka 3.9"), ((0, 0), "Kafka 0.0"), (None, "not known")])
@pytest.mark.parametrize("what", [group(member()), group()])
def test_old_brokers_block_every_group(oldest: tuple[int, int] | None, said: str, what: GroupDescription) -> None:
    found = judge_readiness(what, oldest)
    assert found.status is MoveStatus.BLOCKED
    assert said in found.blockers[0]
    assert "4.0" in found.blockers[0]


def test_a_group_without_members_is_decided_by_its_next_consumer() -> None:
    found = judge_readiness(group(), KAFKA_4)
    assert (found.status, found.blockers, found.moves_to) == (MoveStatus.NO_MEMBERS, (), None)


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_a_group_that_rebalances_is_unknown(state: GroupState) -> None:
    found = judge_readiness(group(member(subscribed_topics=None), state=state, protocol=""), KAFKA_4)
    assert found.status is MoveStatus.UNKNOWN
    assert state.value in found.blockers[0]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (group(type=GroupType.SHARE, protocol_type="share"), "share group"),
        (group(type=GroupType.STREAMS, protocol_type="streams"), "streams group"),
        (group(member(), protocol="stream"), "KIP-1071"),
        (group(member(), protocol_type="connect", protocol="sessioned"), "'connect'"),
        (group(protocol_type=""), "only commit"),
    ],
)
def test_groups_that_are_not_of_consumers(what: GroupDescription, said: str) -> None:
    found = judge_readiness(what, KAFKA_4)
    assert found.status is MoveStatus.OTHER
    assert said in found.blockers[0]


@pytest.mark.parametrize(
    ("members", "status", "classic"),
    [
        ([], MoveStatus.MOVED, 0),
        ([False, False], MoveStatus.MOVED, 0),
        ([False, True], MoveStatus.MOVING, 1),
        ([None], MoveStatus.MOVED, None),
    ],
)
def test_a_group_that_has_moved(members: list[bool | None], status: MoveStatus, classic: int | None) -> None:
    what = group(*map(member, members), type=GroupType.CONSUMER, protocol="uniform")
    found = judge_readiness(what, (3, 9))
    assert (found.status, found.classic_members, found.moves_to) == (status, classic, "uniform")


def test_a_group_that_does_not_exist() -> None:
    answered = group(type=GroupType.UNKNOWN, state=GroupState.DEAD, protocol_type="")
    found = judge_readiness(answered, KAFKA_4)
    assert (found.status, found.group_type, found.protocol_type, found.blockers) == (
        MoveStatus.UNKNOWN,
        "unknown",
        "",
        ("the group does not exist",),
    )
