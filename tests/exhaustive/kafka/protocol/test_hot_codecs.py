"""Hand-written codecs write and read what kio does, whatever a message contains."""

from datetime import timedelta
from functools import cache, partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.models import Broker, GroupState, GroupType, PackedGroups, TopicOffsets, TopicPartition
from airflow_kafka_groups.kafka.protocol.answers import (
    DescribeGroupsAnswer,
    GroupOffsetsAnswer,
    ListedGroup,
    ListGroupsAnswer,
    MetadataAnswer,
    OffsetFetchAnswer,
)
from airflow_kafka_groups.kafka.protocol.api_versions import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    METADATA,
    OFFSET_FETCH,
    Api,
)
from airflow_kafka_groups.kafka.protocol.apis import (
    decode_response,
    delete_groups,
    describe_groups,
    find_coordinator,
    metadata,
)
from airflow_kafka_groups.kafka.protocol.apis.list_groups import FIRST_STATES_VERSION, FIRST_TYPES_VERSION
from airflow_kafka_groups.kafka.protocol.codec import decode_message, encode_body, response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes.answers import frame
from tests.unit.kafka.protocol.texts import TEXTS

MODULES: dict[Api, Any] = {
    DELETE_GROUPS: delete_groups,
    DESCRIBE_GROUPS: describe_groups,
    FIND_COORDINATOR: find_coordinator,
    METADATA: metadata,
}
ASSIGNMENT = b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x03\xff\xff\xff\xff"
CODES = st.sampled_from([ErrorCode.none, ErrorCode.none, *ErrorCode])
THROTTLES = st.integers(0, 10_000).map(lambda ms: timedelta(milliseconds=ms))
IDS = st.integers(0, 2**31 - 1)


def lists(items: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=most).map(tuple)


def runs(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Rows of which many in a row are alike, as in most responses."""
    repeated = st.tuples(items, st.sampled_from([1, 1, 2, 9]))
    return st.lists(repeated, max_size=6).map(lambda drawn: tuple(item for item, times in drawn for _ in range(times)))


@cache
def deleted(version: int) -> st.SearchStrategy[Any]:
    schema = response_schema(DELETE_GROUPS, version)
    results = st.builds(schema.DeletableGroupResult, group_id=TEXTS, error_code=CODES)
    return st.builds(schema.DeleteGroupsResponse, throttle_time=THROTTLES, results=runs(results))


@cache
def listed(version: int) -> st.SearchStrategy[Any]:
    schema = response_schema(LIST_GROUPS, version)
    fields = {"group_id": TEXTS, "protocol_type": TEXTS}
    fields |= {"group_state": TEXTS} if version >= FIRST_STATES_VERSION else {}
    fields |= {"group_type": TEXTS} if version >= FIRST_TYPES_VERSION else {}
    groups = runs(st.builds(schema.ListedGroup, **fields))
    return st.builds(schema.ListGroupsResponse, throttle_time=THROTTLES, error_code=CODES, groups=groups)


@cache
def described(version: int) -> st.SearchStrategy[Any]:
    """Rows that are alike but for the id, and any others between them."""
    schema = response_schema(DESCRIBE_GROUPS, version)
    assigned = st.sampled_from([b"", b"x", ASSIGNMENT, b"\x00" * 300])
    member = st.builds(
        schema.DescribedGroupMember,
        member_id=TEXTS,
        group_instance_id=st.none() | TEXTS,
        client_id=TEXTS,
        client_host=TEXTS,
        member_metadata=assigned,
        member_assignment=assigned,
    )
    message = {"error_message": st.none() | TEXTS} if version >= 6 else {}
    group = {
        "group_id": TEXTS,
        "group_state": st.sampled_from(["Empty", "Stable", "Dead", "?"]),
        "protocol_type": st.sampled_from(["", "consumer", "connect"]),
        "protocol_data": st.sampled_from(["", "range"]),
    }
    plain = {name: st.just(None) for name in message} | {"error_code": st.just(ErrorCode.none), "members": st.just(())}
    other = {"error_code": CODES, "members": lists(member), "authorized_operations": st.sampled_from([-(2**31), 264])}
    groups = st.builds(schema.DescribedGroup, **group, **plain) | st.builds(
        schema.DescribedGroup, **group, **message, **other
    )
    return st.builds(schema.DescribeGroupsResponse, throttle_time=THROTTLES, groups=runs(groups))


@cache
def found(version: int) -> st.SearchStrategy[Any]:
    schema = response_schema(FIND_COORDINATOR, version)
    coordinators = st.builds(
        schema.Coordinator,
        key=TEXTS,
        node_id=st.integers(-1, 2),
        host=st.sampled_from(["", "b1"]),
        port=st.integers(-1, 1),
        error_code=CODES,
        error_message=st.none() | TEXTS,
    )
    each_once = runs(coordinators).map(lambda rows: tuple({row.key: row for row in rows}.values()))
    return st.builds(schema.FindCoordinatorResponse, throttle_time=THROTTLES, coordinators=each_once)


@cache
def told(version: int) -> st.SearchStrategy[Any]:
    schema = response_schema(METADATA, version)
    nodes = lists(IDS)
    partitions = st.builds(
        schema.MetadataResponsePartition,
        error_code=CODES,
        partition_index=IDS,
        leader_id=st.integers(-1, 9),
        leader_epoch=st.integers(-1, 9),
        replica_nodes=nodes,
        isr_nodes=nodes,
        offline_replicas=nodes,
    )
    operations = st.sampled_from([-(2**31), 0, 264])
    topic = {"error_code": CODES, "name": TEXTS, "is_internal": st.booleans(), "partitions": lists(partitions)}
    topic["topic_authorized_operations"] = operations
    if version >= 10:
        topic["topic_id"] = st.none() | st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
    if version >= 12:
        topic["name"] |= st.none()
    of_cluster = {"cluster_authorized_operations": operations} if version <= 10 else {}
    brokers = st.builds(schema.MetadataResponseBroker, node_id=IDS, host=TEXTS, port=IDS, rack=st.none() | TEXTS)
    return st.builds(
        schema.MetadataResponse,
        throttle_time=THROTTLES,
        brokers=lists(brokers),
        cluster_id=st.none() | TEXTS,
        controller_id=IDS,
        topics=lists(st.builds(schema.MetadataResponseTopic, **topic)),
        **of_cluster,
    )


MOSTLY_NONE = st.sampled_from([ErrorCode.none] * 5 + list(ErrorCode))


@cache
def fetched(version: int, plain: bool = False) -> st.SearchStrategy[Any]:
    """Groups of which nearly all partitions are in the plainest form, or all of them."""
    schema, end = response_schema(OFFSET_FETCH, version), "s" if version >= 8 else ""
    row, kind = (getattr(schema, f"OffsetFetchResponse{part}{end}") for part in ("Partition", "Topic"))
    # Only what differs is drawn: a message has up to 4,000 of them.
    drawn = st.lists(st.tuples(IDS, st.integers(0, 2**40)), min_size=plain, max_size=3 if plain else 200)
    rows = drawn.map(lambda pairs: tuple(plain_row(row, *pair) for pair in pairs))
    others = st.builds(
        row,
        partition_index=IDS,
        committed_offset=st.sampled_from([-1, 0, 7, 2**63 - 1]),
        committed_leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.sampled_from([None, "", "", "", "m", "ünï", "x" * 130]),
        error_code=MOSTLY_NONE,
    )
    names = st.sampled_from(["t", "ünï", *([] if plain else ["y" * 140])])
    topics = lists(st.builds(kind, name=names, partitions=rows if plain else rows | lists(others, 8)))
    of_group = {"topics": topics, "error_code": st.just(ErrorCode.none) if plain else MOSTLY_NONE}
    if version < 8:
        return st.builds(schema.OffsetFetchResponse, throttle_time=THROTTLES, **of_group)
    group = st.builds(schema.OffsetFetchResponseGroup, group_id=st.text(max_size=9), **of_group)
    groups = st.lists(group, max_size=5, unique_by=lambda one: one.group_id).map(tuple)
    return st.builds(schema.OffsetFetchResponse, throttle_time=THROTTLES, groups=groups)


def plain_row(row: Any, index: int, offset: int) -> Any:
    fields = {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": 0}
    return row(**fields, metadata="", error_code=ErrorCode.none)


ANSWERS = [
    (DELETE_GROUPS, 2, deleted),
    *((DESCRIBE_GROUPS, version, described) for version in (5, 6)),
    *((FIND_COORDINATOR, version, found) for version in (4, 5, 6)),
    *((LIST_GROUPS, version, listed) for version in (3, 4, 5)),
    *((METADATA, version, told) for version in (9, 10, 11, 12)),
    *((OFFSET_FETCH, version, fetched) for version in (7, 8, 9)),
    (OFFSET_FETCH, 8, partial(fetched, plain=True)),
]


def by_kio(api: Api, version: int, frame: bytes) -> Any:
    convert = FROM_KIO.get(api) or MODULES[api].from_kio
    return plain(convert(decode_message(api, version, frame)))


def listed_groups(response: Any) -> ListGroupsAnswer:
    groups = [
        ListedGroup(
            group.group_id,
            group.protocol_type,
            GroupState.parse(getattr(group, "group_state", None)),
            GroupType.parse(getattr(group, "group_type", None)),
        )
        for group in response.groups
    ]
    return ListGroupsAnswer(response.throttle_time, ErrorCode(response.error_code), groups)


def fetched_groups(response: Any) -> OffsetFetchAnswer:
    answer = OffsetFetchAnswer(response.throttle_time, {}, [])
    for group in getattr(response, "groups", (response,)):
        errors, topics = {}, []
        for topic in group.topics:
            rows = []
            for part in topic.partitions:
                row = part.partition_index, part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                if part.error_code:
                    errors[TopicPartition(topic.name, part.partition_index)] = ErrorCode(part.error_code)
                else:
                    rows.append(row)
            topics.append(TopicOffsets.of_rows(topic.name, rows))
        code = ErrorCode(group.error_code)
        answer.groups.append(GroupOffsetsAnswer(getattr(group, "group_id", ""), code, tuple(topics), errors))
    return answer


FROM_KIO: dict[Api, Any] = {LIST_GROUPS: listed_groups, OFFSET_FETCH: fetched_groups}
"""What kio's messages mean of which the package has no version that kio reads."""


def by_hand(api: Api, version: int, frame: bytes) -> Any:
    return plain(decode_response(api, version, frame))


def plain(answer: Any) -> Any:
    """Undo what hand-written codecs do with rows that are alike: they come together."""
    match answer:
        case DescribeGroupsAnswer(throttle, groups):
            return throttle, sorted(((group_id, group) for ids, group in groups for group_id in ids), key=repr)
        case MetadataAnswer():
            return answer
        case OffsetFetchAnswer(throttle, packed, groups):
            whole: dict[str, Any] = {
                group_id: (ErrorCode.none, group.topics, {}) for group_id, group in PackedGroups(packed).items()
            }
            return throttle, whole | {group_id: (*rest, dict(errors)) for group_id, *rest, errors in groups}
    return tuple(sorted(field, key=repr) if isinstance(field, list) else field for field in answer)


@pytest.mark.parametrize(("api", "version", "answers"), ANSWERS)
@given(data=st.data())
def test_an_answer_is_read_as_kio_reads_it(api: Api, version: int, answers: Any, data: st.DataObject) -> None:
    """One that is cut, too long, or has another byte somewhere is refused, or read as kio reads it.

    To draw an answer takes longer than all that is done with it. Each of the claims fails by itself.
    """
    whole = frame(data.draw(answers(version)))
    assert by_hand(api, version, whole) == by_kio(api, version, whole)
    with pytest.raises(RemoteProtocolError, match="1 bytes too many"):
        decode_response(api, version, whole + b"\x00")
    cut = data.draw(st.integers(5, len(whole) - 1))
    with pytest.raises(RemoteProtocolError):
        decode_response(api, version, whole[:cut])
    changed = bytearray(whole)
    changed[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    check_changed(api, version, bytes(changed))


def check_changed(api: Api, version: int, changed: bytes) -> None:
    try:
        mine = by_hand(api, version, changed)
    except RemoteProtocolError:
        return
    try:
        theirs = by_kio(api, version, changed)
    except KeyError:
        return  # kio knows no tagged fields of tomorrow
    except ValueError as error:  # kio refuses a complete response with a code that it does not know
        if "is not a valid ErrorCode" not in str(error):
            raise
        return
    assert mine == theirs, "one byte is not what it was: another answer than kio's"


def test_every_byte_of_plain_groups_counts() -> None:
    """The second group is read by what is remembered of the first one."""
    schema = response_schema(OFFSET_FETCH, 8)
    topic = schema.OffsetFetchResponseTopics(
        name="t", partitions=(plain_row(schema.OffsetFetchResponsePartitions, 1, 7),)
    )
    groups = tuple(
        schema.OffsetFetchResponseGroup(group_id=group_id, topics=(topic,), error_code=ErrorCode.none)
        for group_id in ("g", "h")
    )
    whole = frame(schema.OffsetFetchResponse(throttle_time=timedelta(0), groups=groups))
    for position in range(4, len(whole)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            check_changed(OFFSET_FETCH, 8, whole[:position] + bytes([value]) + whole[position + 1 :])


def test_fields_that_came_later_are_passed_over() -> None:
    tags = b"\x02\x00\x01x\x05\x02yz"  # two of them, of one byte and two
    groups = b"\x03\x02g\x00\x45" + tags + b"\x02h\x00\x00" + tags
    answer = decode_response(DELETE_GROUPS, 2, b"\x00\x00\x00\x07" + tags + b"\x00" * 4 + groups + tags)
    assert (answer.found, answer.failed) == ({"h": None}, [("g", ErrorCode.group_id_not_found, None)])


@pytest.mark.parametrize("version", [4, 5, 6])
def test_two_coordinators_of_one_group_are_refused_and_one_named_twice_is_not(version: int) -> None:
    schema = response_schema(FIND_COORDINATOR, version)

    def answer(*ports: int) -> bytes:
        named = tuple(
            schema.Coordinator(key="g", node_id=1, host="b", port=port, error_code=ErrorCode.none, error_message=None)
            for port in ports
        )
        response = schema.FindCoordinatorResponse(throttle_time=timedelta(0), coordinators=named)
        return frame(response)

    assert decode_response(FIND_COORDINATOR, version, answer(1, 1)).found == {
        "g": Broker(broker_id=1, host="b", port=1)
    }
    with pytest.raises(RemoteProtocolError, match="two coordinators"):
        decode_response(FIND_COORDINATOR, version, answer(1, 2, 1))


def test_a_yes_or_no_that_is_neither_is_refused() -> None:
    topic = response_schema(METADATA, 9).MetadataResponseTopic(
        error_code=ErrorCode.none, name="t", is_internal=True, partitions=()
    )
    answer = response_schema(METADATA, 9).MetadataResponse(
        throttle_time=timedelta(0), brokers=(), cluster_id=None, controller_id=0, topics=(topic,)
    )
    whole = frame(answer)
    assert decode_response(METADATA, 9, whole).partition_counts == {"t": 0}
    with pytest.raises(RemoteProtocolError, match="boolean"):
        decode_response(METADATA, 9, whole.replace(b"\x02t\x01", b"\x02t\x02"))


def test_groups_that_are_alike_share_their_description() -> None:
    """Thousands of empty groups share one object, and groups between them have their own."""
    schema = response_schema(DESCRIBE_GROUPS, 6)

    def group(group_id: str, state: str, code: ErrorCode = ErrorCode.none) -> Any:
        return schema.DescribedGroup(
            error_code=code,
            error_message=None,
            group_id=group_id,
            group_state=state,
            protocol_type="",
            protocol_data="",
            members=(),
        )

    groups = tuple(group(f"g{number}", "Empty") for number in range(9))
    groups += (group("dead", "Empty", ErrorCode.group_id_not_found), group("stable", "Stable"), group("last", "Empty"))
    response = schema.DescribeGroupsResponse(throttle_time=timedelta(0), groups=groups)
    answer = decode_response(DESCRIBE_GROUPS, 6, frame(response))
    described = {tuple(ids): (group.state, group.error) for ids, group in answer.groups}
    assert described == {
        (*(f"g{number}" for number in range(9)), "last"): (GroupState.EMPTY, ErrorCode.none),
        ("dead",): (GroupState.EMPTY, ErrorCode.group_id_not_found),
        ("stable",): (GroupState.STABLE, ErrorCode.none),
    }


@pytest.mark.parametrize(("assignment", "known"), [(ASSIGNMENT, True), (b"", True), (b"x", False)])
@pytest.mark.parametrize("version", [4, 6])
def test_an_assignment_that_cannot_be_read_is_not_one_of_nothing(version: int, assignment: bytes, known: bool) -> None:
    schema = response_schema(DESCRIBE_GROUPS, version)
    member = schema.DescribedGroupMember(
        member_id="m", client_id="c", client_host="h", member_metadata=b"", member_assignment=assignment
    )
    group = schema.DescribedGroup(
        error_code=ErrorCode.none,
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="own",
        members=(member,),
    )
    response = schema.DescribeGroupsResponse(throttle_time=timedelta(0), groups=(group,))
    header = b"\x00\x00\x00\x07" + (b"\x00" if version >= 5 else b"")
    answer = decode_response(DESCRIBE_GROUPS, version, header + encode_body(response))
    ((_, described),) = answer.groups
    assert described.members[0].assignment_known is known
    assert bool(described.members[0].assignment) is (assignment == ASSIGNMENT)


def test_a_name_that_contains_the_end_of_a_row_is_one_name() -> None:
    schema = response_schema(DELETE_GROUPS, 2)
    group_ids = [*("g" for _ in range(9)), "a\0\0\0b", *("h" for _ in range(9)), "x" * 200, "i"]
    results = tuple(schema.DeletableGroupResult(group_id=key, error_code=ErrorCode.none) for key in group_ids)
    response = schema.DeleteGroupsResponse(throttle_time=timedelta(0), results=results)
    answer = decode_response(DELETE_GROUPS, 2, frame(response))
    assert sorted(answer.found) == sorted({*group_ids})


@pytest.mark.safety
@pytest.mark.parametrize("metadata", [("", ""), ("", "m"), ("m", ""), ("m", "n")])
def test_an_answer_that_names_a_group_twice_is_refused(metadata: tuple[str, str]) -> None:
    """The last of two would be the group's offsets, or none at all: nobody knows which of them are."""
    schema = response_schema(OFFSET_FETCH, 8)

    def group(group_id: str, text: str) -> Any:
        part = schema.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=7, metadata=text, error_code=ErrorCode.none
        )
        topic = schema.OffsetFetchResponseTopics(name="t", partitions=(part,))
        return schema.OffsetFetchResponseGroup(group_id=group_id, topics=(topic,), error_code=ErrorCode.none)

    def answer(*groups: Any) -> bytes:
        return frame(schema.OffsetFetchResponse(throttle_time=timedelta(0), groups=groups))

    first, second = metadata
    assert len(plain(decode_response(OFFSET_FETCH, 8, answer(group("g", first), group("h", second))))[1]) == 2
    with pytest.raises(RemoteProtocolError, match="names a group twice"):
        decode_response(OFFSET_FETCH, 8, answer(group("g", first), group("h", ""), group("g", second)))


@given(fetched(8, plain=True))
def test_plain_groups_stay_packed(response: Any) -> None:
    answer = decode_response(OFFSET_FETCH, 8, frame(response))
    assert (list(answer.packed), answer.groups) == ([group.group_id for group in response.groups], [])


def test_tagged_fields_of_tomorrow_are_passed_over() -> None:
    partition = bytes.fromhex("00000003" + "0000000000000007" + "00000000" + "01" + "0000") + b"\x01\x05\x02ab"
    topic = b"\x02" + b"t" + b"\x02" + partition + b"\x00"
    group = b"\x02" + b"g" + b"\x02" + topic + b"\x00\x00" + b"\x01\x00\x01z"
    data = b"\x00\x00\x00\x07\x00" + b"\x00\x00\x00\x00" + b"\x02" + group + b"\x00"
    answer = decode_response(OFFSET_FETCH, 8, data)
    (group,) = answer.groups
    assert (answer.packed, group.group_id, group.error) == ({}, "g", ErrorCode.none)
    assert [(topic.topic, list(topic.rows())) for topic in group.topics] == [("t", [(3, 7, 0, "")])]


def test_a_code_of_tomorrow_is_an_error_and_not_an_empty_group() -> None:
    data = b"\x00\x00\x00\x07\x00" + b"\x00\x00\x00\x00" + b"\x02" + b"\x02g\x01" + b"\x7f\xff" + b"\x00" + b"\x00"
    answer = decode_response(OFFSET_FETCH, 8, data)
    assert answer.packed == {}
    assert [(group.group_id, int(group.error)) for group in answer.groups] == [("g", 32767)]
