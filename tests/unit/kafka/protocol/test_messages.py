"""Requests and answers survive the wire at every version, and hand-written codecs write and read what kio does."""

from dataclasses import replace
from datetime import timedelta
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader

from airflow_kafka_groups.exceptions import (
    NoBatchedFindCoordinatorsError,
    NoBatchedOffsetFetchError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from airflow_kafka_groups.kafka.models import (
    CoordinatorType,
    GroupOffsets,
    GroupState,
    GroupType,
    ListConsumerGroupOffsetsSpec,
    MemberToRemove,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from airflow_kafka_groups.kafka.protocol import api_versions as apis
from airflow_kafka_groups.kafka.protocol import consumer_protocol as cp
from airflow_kafka_groups.kafka.protocol.answers import DescribedGroup
from airflow_kafka_groups.kafka.protocol.api_versions import (
    CONSUMER_GROUP_DESCRIBE,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SHARE_GROUP_DESCRIBE,
    STREAMS_GROUP_DESCRIBE,
    SYNC_GROUP,
    Api,
    ApiVersions,
)
from airflow_kafka_groups.kafka.protocol.apis import (
    decode_response,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    list_offsets,
    membership,
    metadata,
    offset_commit,
    offset_fetch,
)
from airflow_kafka_groups.kafka.protocol.apis.describe_groups import GROUP_TYPES, decode
from airflow_kafka_groups.kafka.protocol.apis.list_offsets import ends_of
from airflow_kafka_groups.kafka.protocol.codec import (
    Message,
    encode_body,
    header_around,
    request_schema,
    response_schema,
)
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode, operations
from tests.fakes import answers
from tests.fakes.answers import fields_left_out, fitting, frame
from tests.fakes.apis import ALL_APIS
from tests.unit.kafka.membership import replies
from tests.unit.kafka.protocol.texts import TEXTS

ALL = ListConsumerGroupOffsetsSpec()
SOME = ListConsumerGroupOffsetsSpec((TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("t", 1)))
GROUP = CoordinatorType.GROUP
PART = TopicPartition("t", 0)


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
    *((FIND_COORDINATOR, v, lambda v: find_coordinator.build(["g"], GROUP, v)) for v in versions_of(FIND_COORDINATOR)),
    *((OFFSET_FETCH, v, lambda v: offset_fetch.build(["g"], {}, False, v)) for v in versions_of(OFFSET_FETCH)),
    *((OFFSET_FETCH, v, lambda v: offset_fetch.build(["g"], {"g": SOME}, False, v)) for v in versions_of(OFFSET_FETCH)),
    *((apis.DELETE_GROUPS, v, lambda v: delete_groups.build(["g", "h"], v)) for v in versions_of(apis.DELETE_GROUPS)),
    *(
        (apis.LIST_GROUPS, v, lambda v: list_groups.build([GroupType.CLASSIC], v))
        for v in versions_of(apis.LIST_GROUPS)
    ),
    *(
        (api, v, lambda v, api=api: describe_groups.build(api, ["g"], True, v))
        for api in (apis.DESCRIBE_GROUPS, *describe_groups.GROUP_TYPES)
        for v in versions_of(api)
    ),
    *(
        (apis.OFFSET_COMMIT, v, lambda v: offset_commit.build("g", {PART: OffsetAndMetadata(7, "m", 3)}, v))
        for v in versions_of(apis.OFFSET_COMMIT)
    ),
    (apis.OFFSET_DELETE, 0, lambda v: offset_commit.build_delete("g", [PART], v)),
    *((apis.METADATA, v, lambda v: metadata.build(["t"], v)) for v in versions_of(apis.METADATA)),
    (apis.FETCH, 12, lambda v: list_offsets.build_fetch({PART: 7}, v)),
    *(
        (apis.LIST_OFFSETS, v, lambda v: list_offsets.build({PART: OffsetSpec.latest()}, v))
        for v in versions_of(apis.LIST_OFFSETS)
    ),
    *((JOIN_GROUP, v, lambda v: membership.build_join(JOIN, v)) for v in versions_of(JOIN_GROUP)),
    *((SYNC_GROUP, v, lambda v: membership.build_sync(SYNC, v)) for v in versions_of(SYNC_GROUP)),
    *((HEARTBEAT, v, lambda v: membership.build_heartbeat("g", 3, "m", "i", v)) for v in versions_of(HEARTBEAT)),
    *((LEAVE_GROUP, v, lambda v: membership.build_leave("g", ONE, v, "done")) for v in versions_of(LEAVE_GROUP)),
]


@pytest.mark.parametrize(
    ("api", "version", "build"),
    REQUESTS,
    ids=[f"{api.name}-v{version}-{i}" for i, (api, version, _) in enumerate(REQUESTS)],
)
def test_every_request_survives_the_wire(api: Api, version: int, build: Any) -> None:
    request = build(version)
    data = encode_body(request)
    read, size = entity_reader(load_request_schema(api.key, version))(data, 0)
    assert read == request or encode_body(read) == request, "whether kio wrote it or we did"
    assert size == len(data)


FULL: list[tuple[Api, int, Any]] = [
    *((FIND_COORDINATOR, v, find_coordinator.build(["g"], CoordinatorType.TRANSACTION, v)) for v in range(1, 4)),
    *((OFFSET_FETCH, v, offset_fetch.build(["g"], {"g": SOME}, True, v)) for v in versions_of(OFFSET_FETCH)),
    *((apis.DESCRIBE_GROUPS, v, describe_groups.build(apis.DESCRIBE_GROUPS, ["g"], True, v)) for v in range(5)),
    *((apis.METADATA, v, metadata.build(["t"], v, include_authorized_operations=True)) for v in range(1, 9)),
    *((JOIN_GROUP, v, membership.build_join(replace(JOIN, group_instance_id="i"), v)) for v in versions_of(JOIN_GROUP)),
    *((SYNC_GROUP, v, membership.build_sync(replace(SYNC, group_instance_id="i"), v)) for v in versions_of(SYNC_GROUP)),
    *((HEARTBEAT, v, membership.build_heartbeat("g", 3, "m", "i", v)) for v in versions_of(HEARTBEAT)),
    *((LEAVE_GROUP, v, membership.build_leave("g", STATIC, v, "done")) for v in versions_of(LEAVE_GROUP)),
]


@pytest.mark.parametrize(("api", "version", "request_"), FULL, ids=[f"{a.name}-v{v}" for a, v, _ in FULL])
def test_every_field_that_a_version_has_is_set(api: Api, version: int, request_: Any) -> None:
    outside = {"member_id", "member_epoch"} if api is OFFSET_FETCH else set()  # of a member, which nobody is here
    assert set(fields_left_out(request_)) <= outside


@pytest.mark.parametrize("api", ALL_APIS, ids=repr)
def test_headers_say_key_version_and_correlation(api: Api) -> None:
    for version in versions_of(api):
        header = b"\x00\x00\x00\x4d".join(header_around(api, version, "me"))
        assert int.from_bytes(header[0:2], "big") == api.key
        assert int.from_bytes(header[2:4], "big") == version
        assert int.from_bytes(header[4:8], "big") == 77
        schema = load_request_schema(api.key, version).__header_schema__
        read, size = entity_reader(schema)(header, 0)
        assert (read.request_api_key, read.request_api_version, read.correlation_id) == (api.key, version, 77)
        assert getattr(read, "client_id", "me") == "me"
        assert size == len(header)


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_half_an_answer_is_a_named_error(cut: int) -> None:
    data = frame(answers.offset_fetch(8, {"g": ErrorCode.none}, {("t", 0): (5, ErrorCode.none)}))
    with pytest.raises(RemoteProtocolError, match="OffsetFetch v8"):
        decode_response(OFFSET_FETCH, 8, data[:-cut])


def test_an_answer_with_something_after_it_is_a_named_error() -> None:
    data = frame(answers.delete_groups(2, {"g": ErrorCode.none}))
    with pytest.raises(RemoteProtocolError, match="3 bytes too many"):
        decode_response(apis.DELETE_GROUPS, 2, data + b"abc")


def test_a_tagged_field_that_kio_does_not_know_is_a_named_error() -> None:
    """Kio raises KeyError for it, which would close the connection and leave the call to its deadline."""
    tag = b"\x01\x4d\x01x"  # one of them, number 77, of one byte
    data = b"\x00\x00\x00\x07\x00" + b"\x00" * 4 + b"\x00\x00" + tag
    with pytest.raises(RemoteProtocolError, match="Heartbeat v4 cannot be read: KeyError") as failed:
        decode_response(apis.HEARTBEAT, 4, data)
    assert isinstance(failed.value.__cause__, KeyError)


@given(st.binary(max_size=200))
def test_noise_is_a_named_error_or_an_answer_but_never_a_crash(noise: bytes) -> None:
    try:
        decode_response(OFFSET_FETCH, 8, noise)
    except RemoteProtocolError:
        return


def kio_reads(body: bytes, version: int = 8, api: Api = OFFSET_FETCH) -> Any:
    """Read a request that is written by hand."""
    return entity_reader(load_request_schema(api.key, version))(body, 0)[0]


DESCRIBING = [
    *((apis.DESCRIBE_GROUPS, version) for version in (5, 6)),
    *((api, version) for api in describe_groups.GROUP_TYPES for version in versions_of(api)),
]
NAMES = st.lists(st.text(max_size=200), unique=True, max_size=150)
Written = tuple[Api, int, Message, dict[str, Any]]
"""A request that was written by hand: its API and version, the bytes, and the fields of kio's message."""


@st.composite
def written(draw: st.DrawFn, api: Api) -> Written:
    """Draw a request of each API that is written by hand."""
    names, flag = draw(NAMES), draw(st.booleans())
    match api:
        case apis.OFFSET_FETCH:
            version, stable = draw(st.sampled_from([7, 8, 9])), {"require_stable": flag}
            if version < 8:
                name = draw(st.text(max_size=200))
                built = offset_fetch.build([name], {name: ALL}, flag, version)
                return api, version, built, {"group_id": name, "topics": None, **stable}
            of_group = request_schema(api, version).OffsetFetchRequestGroup
            groups = tuple(of_group(group_id=name, topics=None) for name in names)
            return api, version, offset_fetch.build(names, {}, flag, version), {"groups": groups, **stable}
        case apis.FIND_COORDINATOR:
            kind, version = draw(
                st.sampled_from([(GROUP, 4), (CoordinatorType.TRANSACTION, 5), (CoordinatorType.SHARE, 6)])
            )
            fields: dict[str, Any] = {"key_type": kind, "coordinator_keys": tuple(names)}
            return api, version, find_coordinator.build(names, kind, version), fields
        case apis.DELETE_GROUPS:
            return api, 2, delete_groups.build(names, 2), {"groups_names": tuple(names)}
        case apis.METADATA:
            version = draw(st.sampled_from([9, 10, 11, 12]))
            topic, ids = request_schema(api, version).MetadataRequestTopic, {"topic_id": None} if version >= 10 else {}
            fields = {
                "topics": tuple(topic(name=name, **ids) for name in names),
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": flag,
                **({"include_cluster_authorized_operations": flag} if version <= 10 else {}),
            }
            return api, version, metadata.build(names, version, include_authorized_operations=flag), fields
        case apis.LIST_GROUPS:
            version = draw(st.sampled_from([3, 4, 5]))
            types = draw(st.lists(st.sampled_from(GroupType)))
            fields = {"states_filter": ()} if version >= 4 else {}
            fields |= {"types_filter": tuple(types)} if version >= 5 else {}
            return api, version, list_groups.build(types, version), fields
    version = draw(st.sampled_from([version for one, version in DESCRIBING if one is api]))
    fields = {"groups" if api is apis.DESCRIBE_GROUPS else "group_ids": tuple(names)}
    fields["include_authorized_operations"] = flag
    return api, version, describe_groups.build(api, names, flag, version), fields


HAND_WRITTEN = (apis.OFFSET_FETCH, FIND_COORDINATOR, apis.DELETE_GROUPS, apis.METADATA, apis.LIST_GROUPS)


@given(st.one_of([written(api) for api in (*HAND_WRITTEN, *dict.fromkeys(api for api, _ in DESCRIBING))]))
def test_what_is_written_by_hand_is_what_kio_writes(of: Written) -> None:
    api, version, by_hand, fields = of
    by_kio = getattr(request_schema(api, version), f"{api.name}Request")(**fields)
    assert by_hand == encode_body(by_kio)
    assert kio_reads(by_hand, version, api) == by_kio


class TestRefusals:
    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_find_coordinator_takes_many_keys_from_v4_on(self, version: int) -> None:
        with pytest.raises(NoBatchedFindCoordinatorsError, match=f"v{version} takes one key a request, not 2"):
            find_coordinator.build(["a", "b"], GROUP, version)
        request = kio_reads(find_coordinator.build(["a", "b"], GROUP, 4), 4, FIND_COORDINATOR)
        assert request.coordinator_keys == ("a", "b")

    def test_offset_fetch_takes_many_groups_from_v8_on(self) -> None:
        with pytest.raises(NoBatchedOffsetFetchError, match="takes one group a request"):
            offset_fetch.build(["a", "b"], {}, False, 7)
        assert [group.group_id for group in kio_reads(offset_fetch.build(["a", "b"], {}, False, 8)).groups] == [
            "a",
            "b",
        ]

    def test_share_keys_take_v6(self) -> None:
        with pytest.raises(UnsupportedVersionError, match="SHARE"):
            find_coordinator.build(["k"], CoordinatorType.SHARE, 5)

    def test_the_max_timestamp_takes_v7(self) -> None:
        with pytest.raises(UnsupportedVersionError, match="max timestamp"):
            list_offsets.build({PART: OffsetSpec.max_timestamp()}, 6)


class TestVersions:
    def test_the_newest_common_version_is_chosen(self) -> None:
        assert ApiVersions({9: (1, 10)}).choose(OFFSET_FETCH) == 9, "v10 wants topic ids"
        assert ApiVersions({9: (0, 7)}).choose(OFFSET_FETCH) == 7

    @pytest.mark.parametrize("ranges", [{}, {9: (0, 6)}, {9: (10, 12)}])
    def test_no_common_version_says_so(self, ranges: dict[int, tuple[int, int]]) -> None:
        with pytest.raises(UnsupportedVersionError, match="OffsetFetch"):
            ApiVersions(ranges).choose(OFFSET_FETCH)
        assert not ApiVersions(ranges).supports(OFFSET_FETCH, 2)


def test_metadata_with_errors_has_no_leaders_for_them() -> None:
    schema = response_schema(apis.METADATA, 12)
    topic = schema.MetadataResponseTopic(
        error_code=ErrorCode.topic_authorization_failed, name="t", topic_id=None, partitions=()
    )
    broker = schema.MetadataResponseBroker(node_id=1, host="b", port=9092)
    answer = answers.decoded(
        schema.MetadataResponse(throttle_time=answers.NO_THROTTLE, brokers=(broker,), topics=(topic,))
    )
    assert answer.errors == {"t": ErrorCode.topic_authorization_failed}
    assert answer.leaders == {}


NUMBERS = st.integers(0, 2**31 - 1)


COMMITS = st.dictionaries(
    st.tuples(st.sampled_from(["t", "ünï", "y" * 140]), NUMBERS),
    st.tuples(st.integers(0, 2**63 - 1), st.sampled_from(["", "", "m", "ünï", "x" * 130]), st.none() | NUMBERS),
    max_size=150,
).map(lambda drawn: {TopicPartition(*where): OffsetAndMetadata(*value) for where, value in drawn.items()})


@given(TEXTS, COMMITS, st.sampled_from([8, 9]), st.booleans())
def test_a_commit_is_what_kio_writes(
    group_id: str, commits: dict[TopicPartition, OffsetAndMetadata], version: int, columns: bool
) -> None:
    schema = request_schema(OFFSET_COMMIT, version)
    topics: dict[str, list[Any]] = {}
    for where, value in commits.items():
        partition = schema.OffsetCommitRequestPartition(
            partition_index=where.partition,
            committed_offset=value.offset,
            committed_leader_epoch=-1 if value.leader_epoch is None else value.leader_epoch,
            committed_metadata=value.metadata,
        )
        topics.setdefault(where.topic, []).append(partition)
    by_kio = schema.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=tuple(schema.OffsetCommitRequestTopic(name=n, partitions=tuple(p)) for n, p in topics.items()),
    )
    wanted: Any = GroupOffsets.from_mapping(group_id, dict(commits)) if columns else commits
    assert offset_commit.build(group_id, wanted, version) == encode_body(by_kio)


VERSIONS = [
    (CONSUMER_GROUP_DESCRIBE, 0),
    (CONSUMER_GROUP_DESCRIBE, 1),
    (SHARE_GROUP_DESCRIBE, 1),
    (STREAMS_GROUP_DESCRIBE, 0),
]
HEADER = b"\x00\x00\x00\x07\x00"
groups = st.lists(
    st.fixed_dictionaries(
        {
            "error_code": st.sampled_from([ErrorCode.none, ErrorCode.group_id_not_found, ErrorCode.not_coordinator]),
            "error_message": st.sampled_from([None, "", "Group g not found.", "x" * 200]),
            "group_id": st.sampled_from(["g", "ünï", "x" * 200, "a\0\0\0b"]),
            "group_state": st.sampled_from(["", "Empty", "Stable"]),
            "group_epoch": st.integers(0, 1),
            "assignment_epoch": st.integers(0, 1),
            "assignor_name": st.sampled_from(["", "uniform", "x" * 200]),
            "authorized_operations": st.sampled_from([-(2**31), 0, 256]),
        }
    ),
    max_size=8,
)


def frame_of(api: Api, version: int, drawn: list[dict[str, Any]]) -> bytes:
    schema = response_schema(api, version)
    described = tuple(fitting(schema.DescribedGroup, **group, topology=None, members=()) for group in drawn)
    response = getattr(schema, f"{api.name}Response")(throttle_time=timedelta(seconds=1), groups=described)
    return HEADER + encode_body(response)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@given(drawn=groups)
def test_groups_are_read_alike_one_by_one_and_together(api: Api, version: int, drawn: list[dict[str, Any]]) -> None:
    together = decode(api, frame_of(api, version, drawn), version)
    assert together.throttle_time == timedelta(seconds=1)
    found = [(group_id, group) for group_ids, group in together.groups for group_id in group_ids]
    alone = [decode(api, frame_of(api, version, [group]), version).groups[0] for group in drawn]
    assert sorted(found, key=repr) == sorted(((group_id, group) for (group_id,), group in alone), key=repr)
    assert [group for _, group in alone] == [expected(api, group) for group in drawn]


def expected(api: Api, group: dict[str, Any]) -> DescribedGroup:
    return DescribedGroup(
        group["error_code"],
        group["error_message"],
        GroupState.parse(group["group_state"]),
        GROUP_TYPES[api].value,
        "" if api is STREAMS_GROUP_DESCRIBE else group["assignor_name"],
        (),
        operations(group["authorized_operations"]),
        group["group_epoch"],
    )


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_what_follows_the_last_group_is_an_error(api: Api, version: int) -> None:
    with pytest.raises(ValueError, match="2 bytes too many"):
        decode(api, frame_of(api, version, []) + b"ab", version)


PRODUCER = 4_000


def batch(base: int, count: int = 1, attributes: int = 0, producer: int = -1, magic: int = 2) -> bytes:
    """Write the header of a batch, with a body of 9 bytes."""
    fields = (0, magic, 0, attributes, max(count - 1, 0), 0, 0, producer, 0, 0, count)
    return pack(">qi", base, 49 + 9) + pack(">ibIhiqqqhii", *fields) + b"record..."


DATA, MARKER = batch(10, 5, 0x10, PRODUCER), batch(15, 1, 0x30, PRODUCER)


@pytest.mark.parametrize(
    ("batches", "aborted", "ends"),
    [
        ((), [], (0, 0)),
        ((batch(10, 5),), [], (15, 15)),
        ((MARKER,), [], (16, 0)),
        ((DATA, MARKER), [], (16, 15)),
        ((DATA, MARKER), [(PRODUCER, 10)], (16, 0)),
        ((DATA, MARKER), [(PRODUCER, 3)], (16, 0)),  # it began before what was fetched
        ((DATA, MARKER), [(PRODUCER + 1, 10)], (16, 15)),
        ((DATA, MARKER, batch(16, 1, 0x10, PRODUCER)), [(PRODUCER, 10)], (17, 17)),  # the next transaction
        ((DATA, MARKER, batch(16, 1, 0x10, PRODUCER)), [(PRODUCER, 10), (PRODUCER, 16)], (17, 0)),
        ((DATA, batch(15, 1, 0, PRODUCER)), [(PRODUCER, 10)], (16, 16)),  # not in a transaction
        ((batch(10, 0),), [], (11, 0)),  # what compaction leaves of a producer
        ((MARKER, batch(16)[:-1]), [], (16, 0)),
        ((MARKER, batch(16, magic=1)), [], (16, 0)),
    ],
)
def test_markers_and_aborted_records_are_not_readable(
    batches: tuple[bytes, ...], aborted: list[tuple[int, int]], ends: tuple[int, int]
) -> None:
    assert ends_of(b"".join(batches), aborted) == ends


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    ends_of(data, [])
    ends_of(MARKER + data, [(PRODUCER, 3)])


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
def test_protocols_keep_the_order_of_preference(version: int) -> None:
    request = membership.build_join(JOIN, version)
    assert [item.name for item in request.protocols] == ["b", "a"]
    assert request.session_timeout.total_seconds() == 10


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
def test_the_answer_to_a_leader_has_the_members(version: int) -> None:
    members = {"m": b"1", "n": b"2"}
    answer = answers.decoded(replies.join(version, "m", leader="m", generation=4, members=members))
    assert (answer.generation, answer.leader, answer.protocol) == (4, "m", "p1")
    assert {member.member_id: member.metadata for member in answer.members} == members


@pytest.mark.parametrize("version", versions_of(LEAVE_GROUP))
def test_a_members_own_error_in_leave_group_is_seen(version: int) -> None:
    schema = response_schema(LEAVE_GROUP, version)
    code = ErrorCode.unknown_member_id
    member = schema.MemberResponse(member_id="m", group_instance_id=None, error_code=code)
    response = fitting(schema.LeaveGroupResponse, error_code=ErrorCode.none, members=(member,))
    answer = answers.decoded(response)
    assert dict(answer.members) == {MemberToRemove("m"): code}


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
        for read in (cp.decode_subscription, cp.decode_assignment):
            try:
                read(noise)
            except RemoteProtocolError:
                continue
