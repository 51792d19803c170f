"""Members that share work, a member that joins and leaves at once, and the public names."""

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    KafkaGroupsError,
    MembershipError,
    NoBrokerAvailableError,
)
from airflow_kafka_groups.kafka import ClientConfig, ClusterClient, JoinedMember, KafkaGroupMember
from airflow_kafka_groups.kafka.membership.brief import join_and_leave
from airflow_kafka_groups.kafka.membership.work_assignment import PROTOCOL, _WorkMember, divide
from airflow_kafka_groups.kafka.protocol.api_versions import JOIN_GROUP
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.unit.kafka.membership import replies
from tests.unit.kafka.membership.group import ScriptedGroup

NOWHERE = ClientConfig(bootstrap_servers=(("127.0.0.1", 1),), connect_timeout=1)


@given(st.sets(st.integers(0, 200)), st.sets(st.text(min_size=1), min_size=1, max_size=20))
def test_every_part_is_dealt_once_and_evenly(free: set[int], members: set[str]) -> None:
    dealt = divide(sorted(free), list(members))
    assert dealt.keys() == members
    assert sorted(part for share in dealt.values() for part in share) == sorted(free)
    sizes = {len(share) for share in dealt.values()}
    assert max(sizes) - min(sizes) <= 1


def joined(name: str, busy: int | None) -> JoinedMember:
    return JoinedMember(name, None, json.dumps({"busy": busy}).encode())


def test_what_is_done_or_being_worked_on_is_dealt_to_nobody() -> None:
    leader = _WorkMember(8, {0, 5}.__contains__)
    noise = [JoinedMember("c", None, b"[1]"), JoinedMember("d", None, b"[" * 100_000)]
    made = leader.perform_assignment("a", PROTOCOL, [joined("a", 3), joined("b", None), *noise])
    dealt = {member: json.loads(data)["todo"] for member, data in made.items()}
    assert sorted(part for share in dealt.values() for part in share) == [1, 2, 4, 6, 7]


def test_the_last_part_goes_to_a_member_that_has_nothing_to_do() -> None:
    leader = _WorkMember(4, lambda part: False)
    members = [joined("a", None), joined("b", 1), joined("c", 2), joined("d", 3)]
    dealt = {member: json.loads(data) for member, data in leader.perform_assignment("b", PROTOCOL, members).items()}
    assert [member for member, received in dealt.items() if received["todo"] == [0]] == ["a"]


def test_who_asks_for_a_round_joins_with_other_metadata_than_before() -> None:
    member = _WorkMember(4, lambda part: False)
    (before,) = member.metadata()
    member.asked += 1
    assert member.metadata() != [before], "of what is the same, a broker makes no round"


def test_a_part_begun_stays_with_its_member_through_a_round() -> None:
    member = _WorkMember(4, lambda part: False)
    member.on_join_complete(1, "m", PROTOCOL, json.dumps({"todo": [1, 2], "waiting": True}).encode())
    assert member.take() == 1
    member.on_join_prepare(1, "m")
    (protocol,) = member.metadata()
    assert json.loads(protocol.metadata) == {"busy": 1}
    assert not member.todo, "nothing is begun until it is dealt anew"


def test_a_part_that_another_has_done_meanwhile_is_not_begun() -> None:
    done: set[int] = set()
    member = _WorkMember(4, done.__contains__)
    member.on_join_complete(1, "m", PROTOCOL, json.dumps({"todo": [1, 2], "waiting": False}).encode())
    done.add(1)
    assert member.take() == 2
    assert member.take() is None


def test_who_comes_when_all_is_done_does_not_even_join() -> None:
    with KafkaGroupMember(NOWHERE, group_id="g", parts=3, is_done=lambda part: True) as member:
        assert list(member.assigned_parts()) == []
    with KafkaGroupMember(NOWHERE, group_id="g", parts=0, is_done=lambda part: False) as member:
        assert list(member.assigned_parts()) == []


def test_a_cluster_that_cannot_be_reached_is_the_tasks_error() -> None:
    with (
        pytest.raises(KafkaGroupsError, match=r"127\.0\.0\.1:1"),
        KafkaGroupMember(NOWHERE, group_id="g", parts=3, is_done=lambda part: False) as member,
    ):
        list(member.assigned_parts())
    assert not [one for one in threading.enumerate() if one.name == "member of g"]


def test_a_part_that_is_worked_on_and_not_done_is_an_error() -> None:
    member = KafkaGroupMember(NOWHERE, group_id="g", parts=3, is_done=lambda part: False)
    member._member.todo.append(2)
    with pytest.raises(MembershipError, match=r"part 2 was processed, but is_done\(2\) is still false"):
        list(member.assigned_parts())


def test_it_is_used_in_a_with_block() -> None:
    parts: Iterator[int] = KafkaGroupMember(NOWHERE, group_id="g", parts=3, is_done=lambda part: False).assigned_parts()
    with pytest.raises(MembershipError, match="with block"):
        next(parts)


@pytest.mark.parametrize("parts", [-1, True, 1.5, "3"])
def test_a_number_of_parts_that_is_none_is_refused(parts: object) -> None:
    with pytest.raises(ConfigurationError, match="parts"):
        KafkaGroupMember(NOWHERE, group_id="g", parts=parts, is_done=lambda part: False)  # type: ignore[arg-type]


def test_who_comes_a_second_time_joins_again_and_begins_nothing_that_was_assigned_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = KafkaGroupMember(NOWHERE, group_id="g", parts=3, is_done=lambda part: False)
    found: list[object] = []

    def come_again() -> None:
        with member:
            try:
                found.append(next(member.assigned_parts()))
            except KafkaGroupsError as error:
                found.append(error)

    with monkeypatch.context() as patched:
        patched.setattr(KafkaGroupMember, "_run", lambda self: None)
        with member:
            member._member.on_join_complete(1, "m", PROTOCOL, json.dumps({"todo": [1, 2], "waiting": False}).encode())
            assert next(member.assigned_parts()) == 1
        with pytest.raises(MembershipError, match="with block"):
            next(member.assigned_parts())
    thread = threading.Thread(target=come_again, daemon=True)
    thread.start()
    thread.join(20)
    assert [type(each) for each in found] == [NoBrokerAvailableError], "it is another task's part by now"
    with monkeypatch.context() as patched:
        patched.setattr(KafkaGroupMember, "_run", lambda self: None)
        with member:
            member._member.on_join_complete(2, "m", PROTOCOL, json.dumps({"todo": [0], "waiting": False}).encode())
            assert next(member.assigned_parts()) == 0, "the error was of the time before"


def test_a_fork_of_the_process_that_joined_is_told_so_and_does_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no copy of the thread that takes part, so nothing is ever assigned; and a lock may stay locked in it."""
    member = KafkaGroupMember(NOWHERE, group_id="g", parts=3, is_done=lambda part: False)
    monkeypatch.setattr(member, "_run", lambda: None)
    with member:
        here, locked = os.getpid(), member._member.changed
        monkeypatch.setattr(os, "getpid", lambda: here + 1)
        monkeypatch.setattr(locked, "wait", lambda seconds: pytest.fail("it waits for what never comes"))
        with pytest.raises(MembershipError, match="in another process"):
            next(member.assigned_parts())
        monkeypatch.setattr(member._thread, "join", lambda: pytest.fail("it waits for a thread that it has not"))
        member.__exit__(None, None, None)


async def test_it_joins_alone_and_leaves(group: ScriptedGroup, cluster: ClusterClient) -> None:
    await join_and_leave(cluster, "g", ["t"])
    assert group.left == ["m1"]


async def test_where_another_member_is_it_leads_nothing_and_leaves(
    group: ScriptedGroup, cluster: ClusterClient
) -> None:
    group.others = {"a consumer that is back": b""}
    with pytest.raises(MembershipError, match="another member"):
        await join_and_leave(cluster, "g", ["t"])
    assert group.left == ["m1"]


async def test_where_another_member_leads_it_was_not_alone(group: ScriptedGroup, cluster: ClusterClient) -> None:
    def follow(broker_id: int, version: int, request: Any) -> Any:
        if not request.member_id:
            return replies.join(version, "m1", error=ErrorCode.member_id_required)
        return replies.join(version, "m1", leader="a consumer that is back", generation=7)

    group.cluster.control(JOIN_GROUP, follow)
    group.override = b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\0"  # it is given t[0]
    with pytest.raises(MembershipError, match="another member"):
        await join_and_leave(cluster, "g", ["t"])
    assert group.left == ["m1"]
