"""The membership messages survive the wire at every version; what a version cannot say is refused or left out."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader

from airflow_kafka_groups.exceptions import RemoteProtocolError, UnsupportedVersionError
from airflow_kafka_groups.kafka.models import MemberToRemove, TopicPartition
from airflow_kafka_groups.kafka.protocol import consumer_protocol as cp
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, Api
from airflow_kafka_groups.kafka.protocol.apis import membership
from airflow_kafka_groups.kafka.protocol.codec import encode_body, response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.answers import decoded, fields_left_out
from tests.unit.kafka.membership import replies

JOIN = membership.JoinRequest(
    group_id="g",
    member_id="m",
    group_instance_id=None,
    protocol_type="p",
    protocols=[("b", b"1"), ("a", b"2")],
    session_timeout=10,
    rebalance_timeout=20,
    reason="why",
)
SYNC = membership.SyncRequest(
    group_id="g",
    generation=3,
    member_id="m",
    group_instance_id=None,
    protocol_type="p",
    protocol="b",
    assignments={"m": b"x", "n": b""},
)


ONE, STATIC = [MemberToRemove("m")], [MemberToRemove("m", "i")]


def versions_of(api: Api) -> range:
    return range(api.min_version, api.max_version + 1)


REQUESTS: list[tuple[Api, int, Any]] = [
    *((JOIN_GROUP, v, lambda v: membership.build_join(JOIN, v)) for v in versions_of(JOIN_GROUP)),
    *((SYNC_GROUP, v, lambda v: membership.build_sync(SYNC, v)) for v in versions_of(SYNC_GROUP)),
    *((HEARTBEAT, v, lambda v: membership.build_heartbeat("g", 3, "m", "i", v)) for v in versions_of(HEARTBEAT)),
    *((LEAVE_GROUP, v, lambda v: membership.build_leave("g", ONE, v, "done")) for v in versions_of(LEAVE_GROUP)),
]


@pytest.mark.parametrize(("api", "version", "build"), REQUESTS, ids=[f"{a.name}-v{v}" for a, v, _ in REQUESTS])
def test_every_request_survives_the_wire(api: Api, version: int, build: Any) -> None:
    request = build(version)
    read, size = entity_reader(load_request_schema(api.key, version))(encode_body(request), 0)
    assert read == request
    assert size == len(encode_body(request))


FULL: list[tuple[Api, int, Any]] = [
    *(
        (JOIN_GROUP, v, membership.build_join(replace(JOIN, group_instance_id="i" if v >= 5 else None), v))
        for v in versions_of(JOIN_GROUP)
    ),
    *((SYNC_GROUP, v, membership.build_sync(replace(SYNC, group_instance_id="i"), v)) for v in versions_of(SYNC_GROUP)),
    *((HEARTBEAT, v, membership.build_heartbeat("g", 3, "m", "i", v)) for v in versions_of(HEARTBEAT)),
    *((LEAVE_GROUP, v, membership.build_leave("g", STATIC, v, "done")) for v in versions_of(LEAVE_GROUP)),
]


@pytest.mark.parametrize(("api", "version", "request_"), FULL, ids=[f"{a.name}-v{v}" for a, v, _ in FULL])
def test_every_field_that_a_version_has_is_set(api: Api, version: int, request_: Any) -> None:
    assert fields_left_out(request_) == []


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
def test_protocols_keep_the_order_of_preference(version: int) -> None:
    request = membership.build_join(JOIN, version)
    assert [item.name for item in request.protocols] == ["b", "a"]
    assert request.session_timeout.total_seconds() == 10


def test_an_instance_id_is_refused_where_the_broker_would_ignore_it() -> None:
    static = membership.JoinRequest(
        group_id="g",
        member_id="",
        group_instance_id="i",
        protocol_type="p",
        protocols=[("a", b"")],
        session_timeout=10,
        rebalance_timeout=20,
    )
    with pytest.raises(UnsupportedVersionError, match="static membership takes v5"):
        membership.build_join(static, 4)
    assert membership.build_join(static, 5).group_instance_id == "i"


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
def test_the_answer_to_a_leader_has_the_members(version: int) -> None:
    members = {"m": b"1", "n": b"2"}
    answer = decoded(replies.join(version, "m", leader="m", generation=4, members=members))
    assert (answer.generation, answer.leader, answer.protocol) == (4, "m", "p1")
    assert {member.member_id: member.metadata for member in answer.members} == members


@pytest.mark.parametrize("version", versions_of(LEAVE_GROUP))
def test_a_members_own_error_in_leave_group_is_seen(version: int) -> None:
    schema = response_schema(LEAVE_GROUP, version)
    code = ErrorCode.unknown_member_id
    if version < membership.FIRST_BATCHED_LEAVE_VERSION:
        response = replies.fitting(schema.LeaveGroupResponse, error_code=code)
    else:
        member = schema.MemberResponse(member_id="m", group_instance_id=None, error_code=code)
        response = replies.fitting(schema.LeaveGroupResponse, error_code=ErrorCode.none, members=(member,))
    assert decoded(response).error is code


def test_an_old_broker_takes_one_member_by_its_id() -> None:
    assert membership.build_leave("g", ONE, 2).member_id == "m"
    for members in (STATIC * 2, [MemberToRemove("", "i")]):
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.4"):
            membership.build_leave("g", members, 2)
    assert len(membership.build_leave("g", ONE + STATIC, 3).members) == 2


PARTS = st.lists(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "é"]), st.integers(0, 99)), unique=True, max_size=8
)


class TestConsumerProtocol:
    @given(st.integers(0, 3), PARTS, st.none() | st.binary(max_size=9), st.integers(-1, 99))
    def test_a_subscription_survives_with_what_its_version_carries(
        self, version: int, owned: list[TopicPartition], data: bytes | None, generation: int
    ) -> None:
        given_ = cp.Subscription(topics=("a", "b"), user_data=data, owned=tuple(owned), generation=generation, rack="r")
        read = cp.decode_subscription(cp.encode_subscription(given_, version))
        assert (read.topics, read.user_data) == (given_.topics, data)
        assert set(read.owned) == (set(owned) if version >= 1 else set())
        assert read.generation == (generation if version >= 2 else -1)
        assert read.rack == ("r" if version >= 3 else None)

    @given(st.integers(0, 3), PARTS)
    def test_an_assignment_survives(self, version: int, parts: list[TopicPartition]) -> None:
        read = cp.decode_assignment(cp.encode_assignment(cp.Assignment(partitions=tuple(parts)), version))
        assert set(read.partitions) == set(parts)

    def test_a_newer_version_is_read_as_the_newest_known(self) -> None:
        data = cp.encode_subscription(cp.Subscription(topics=("t",)), 3)
        assert cp.decode_subscription(b"\x00\x09" + data[2:] + b"new").topics == ("t",)

    def test_no_assignment_at_all_is_no_partitions(self) -> None:
        assert cp.decode_assignment(b"") == cp.Assignment()

    @given(st.binary(max_size=40))
    def test_noise_is_a_named_error_or_an_answer_but_never_a_crash(self, noise: bytes) -> None:
        for decode in (cp.decode_subscription, cp.decode_assignment):
            try:
                decode(noise)
            except RemoteProtocolError:
                continue
