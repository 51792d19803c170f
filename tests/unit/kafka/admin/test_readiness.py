"""Whether groups can move to the rebalance protocol of KIP-848: each status and each blocker."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.kafka.admin.readiness import SERVER_ASSIGNORS, MoveStatus, judge_readiness
from airflow_kafka_groups.kafka.models import GroupDescription, GroupState, GroupType, MemberDescription
from airflow_kafka_groups.kafka.protocol.api_versions import DESCRIBE_GROUPS
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import classic_member
from airflow_kafka_groups.kafka.protocol.codec import response_schema

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
