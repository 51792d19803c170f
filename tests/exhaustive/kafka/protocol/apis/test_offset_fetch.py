"""The hand-written decoder of OffsetFetch reads what kio reads, whatever a response contains."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from kio.serial.errors import SerialError

from airflow_kafka_groups.exceptions import RemoteProtocolError
from airflow_kafka_groups.kafka.models import PackedGroups
from airflow_kafka_groups.kafka.protocol.answers import OffsetFetchAnswer
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.apis import offset_fetch
from airflow_kafka_groups.kafka.protocol.codec import decode_message, encode_body, response_schema
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.protocol.responses import decode_response

SCHEMA = response_schema(OFFSET_FETCH, 8)
CODES = st.sampled_from([ErrorCode.none] * 5 + list(ErrorCode))
PARTITIONS = st.builds(
    SCHEMA.OffsetFetchResponsePartitions,
    partition_index=st.integers(0, 2**31 - 1),
    committed_offset=st.sampled_from([-1, 0, 7, 2**63 - 1]),
    committed_leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.sampled_from([None, "", "", "", "m", "ünï", "x" * 130]),
    error_code=CODES,
)


def plain_rows(rows: list[tuple[int, int]]) -> tuple[Any, ...]:
    return tuple(
        SCHEMA.OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=0,
            metadata="",
            error_code=ErrorCode.none,
        )
        for index, offset in rows
    )


def plain(most: int, least: int = 0) -> st.SearchStrategy[tuple[Any, ...]]:
    """Partitions as nearly all are. Only what differs is drawn: a message has up to 4,000 of them."""
    rows = st.tuples(st.integers(0, 300), st.integers(0, 2**40))
    return st.lists(rows, min_size=least, max_size=most).map(plain_rows)


def lists(items: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=most).map(tuple)


TOPICS = st.builds(
    SCHEMA.OffsetFetchResponseTopics,
    name=st.sampled_from(["t", "ünï", "y" * 140]),
    partitions=plain(200) | lists(PARTITIONS, 8),
)
GROUPS = st.builds(
    SCHEMA.OffsetFetchResponseGroup, group_id=st.text(max_size=9), topics=lists(TOPICS, 4), error_code=CODES
)
RESPONSES = st.builds(
    SCHEMA.OffsetFetchResponse,
    throttle_time=st.integers(0, 10_000).map(lambda ms: timedelta(milliseconds=ms)),
    groups=st.lists(GROUPS, max_size=5, unique_by=lambda group: group.group_id).map(tuple),
)


def frame(response: Any) -> bytes:
    return b"\x00\x00\x00\x07\x00" + encode_body(response)


def contents(answer: OffsetFetchAnswer) -> Any:
    """Return what an answer says of each group, in whichever form."""
    packed: dict[str, Any] = {
        key: (ErrorCode.none, group.topics, {}) for key, group in PackedGroups(answer.packed).items()
    }
    groups = {group.group_id: (group.error, group.topics, dict(group.partition_errors)) for group in answer.groups}
    return answer.throttle_time, packed | groups


def check_refused(whole: bytes, version: int, data: st.DataObject) -> None:
    """Check that half an answer, and one with something after it, is an error and never a short answer."""
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(RemoteProtocolError):
        decode_response(OFFSET_FETCH, version, whole[:cut])
    with pytest.raises(RemoteProtocolError):
        decode_response(OFFSET_FETCH, version, whole + b"x")


@given(RESPONSES, st.data())
def test_it_reads_what_kio_reads_and_neither_less_nor_more(response: Any, data: st.DataObject) -> None:
    whole = frame(response)
    answer = decode_response(OFFSET_FETCH, 8, whole)
    assert contents(answer) == contents(offset_fetch.from_kio(decode_message(OFFSET_FETCH, 8, whole)))
    assert answer == offset_fetch.named(answer, [], 8)
    assert answer.throttle_time == response.throttle_time
    check_refused(whole, 8, data)


@pytest.mark.safety
@pytest.mark.parametrize("metadata", [("", ""), ("", "m"), ("m", ""), ("m", "n")])
def test_an_answer_that_names_a_group_twice_is_refused(metadata: tuple[str, str]) -> None:
    """The last of two would be the group's offsets, or none at all: nobody knows which of them are."""

    def group(group_id: str, text: str) -> Any:
        part = SCHEMA.OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=7, metadata=text, error_code=ErrorCode.none
        )
        topic = SCHEMA.OffsetFetchResponseTopics(name="t", partitions=(part,))
        return SCHEMA.OffsetFetchResponseGroup(group_id=group_id, topics=(topic,), error_code=ErrorCode.none)

    def answer(*groups: Any) -> bytes:
        return frame(SCHEMA.OffsetFetchResponse(throttle_time=timedelta(0), groups=groups))

    first, second = metadata
    assert len(contents(decode_response(OFFSET_FETCH, 8, answer(group("g", first), group("h", second))))[1]) == 2
    with pytest.raises(RemoteProtocolError, match="names a group twice"):
        decode_response(OFFSET_FETCH, 8, answer(group("g", first), group("h", ""), group("g", second)))


ONE_GROUP = st.sampled_from([6, 7])


def of_one(response: Any, version: int) -> Any:
    """Return the first group of a response in the old form."""
    schema = response_schema(OFFSET_FETCH, version)
    group = response.groups[0] if response.groups else SCHEMA.OffsetFetchResponseGroup(group_id="", topics=())
    topics = tuple(
        schema.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                schema.OffsetFetchResponsePartition(
                    partition_index=part.partition_index,
                    committed_offset=part.committed_offset,
                    committed_leader_epoch=part.committed_leader_epoch,
                    metadata=part.metadata,
                    error_code=part.error_code,
                )
                for part in topic.partitions
            ),
        )
        for topic in group.topics
    )
    return schema.OffsetFetchResponse(throttle_time=response.throttle_time, topics=topics, error_code=group.error_code)


@given(RESPONSES, ONE_GROUP, st.data())
def test_it_reads_the_answer_for_one_group_as_kio_does(response: Any, version: int, data: st.DataObject) -> None:
    response = of_one(response, version)
    whole = frame(response)
    answer = decode_response(OFFSET_FETCH, version, whole)
    assert contents(answer) == contents(offset_fetch.from_kio(decode_message(OFFSET_FETCH, version, whole)))
    named = offset_fetch.named(answer, ["g"], version)
    assert [*named.packed, *(group.group_id for group in named.groups)] == ["g"]
    assert answer.throttle_time == response.throttle_time
    check_refused(whole, version, data)


PLAIN_GROUPS = st.builds(
    SCHEMA.OffsetFetchResponseGroup,
    group_id=st.sampled_from(["a", "bc", "ünï"]),
    topics=lists(
        st.builds(SCHEMA.OffsetFetchResponseTopics, name=st.sampled_from(["t", "uv"]), partitions=plain(3, least=1)),
        2,
    ),
    error_code=st.just(ErrorCode.none),
)
PLAIN_RESPONSES = st.builds(
    SCHEMA.OffsetFetchResponse,
    throttle_time=st.just(timedelta()),
    groups=st.lists(PLAIN_GROUPS, min_size=1, max_size=3, unique_by=lambda group: group.group_id).map(tuple),
)


@given(PLAIN_RESPONSES)
def test_plain_groups_stay_packed(response: Any) -> None:
    answer = decode_response(OFFSET_FETCH, 8, frame(response))
    assert (list(answer.packed), answer.groups) == ([group.group_id for group in response.groups], [])


@given(PLAIN_RESPONSES, st.data())
def test_a_changed_byte_of_plain_groups_means_what_kio_says(response: Any, data: st.DataObject) -> None:
    whole = bytearray(frame(response))
    whole[data.draw(st.integers(5, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = contents(offset_fetch.from_kio(decode_message(OFFSET_FETCH, 8, bytes(whole))))
    except KeyError:
        reject()  # kio knows no tagged fields of tomorrow
    except (SerialError, ValueError, IndexError, TypeError, struct.error):  # TypeError: kio reads a null array as None
        with pytest.raises(RemoteProtocolError):
            decode_response(OFFSET_FETCH, 8, bytes(whole))
    else:
        assert contents(decode_response(OFFSET_FETCH, 8, bytes(whole))) == expected


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
