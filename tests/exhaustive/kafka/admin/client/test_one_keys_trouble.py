"""One key's trouble is never another's: whatever a broker makes of some keys of a request, exactly these fail."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import (
    BrokerError,
    KafkaGroupsError,
    OutcomeUnknownError,
    PartitionsFailedError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka import AdminClient
from airflow_kafka_groups.kafka.cluster.routing import OFFSETS_TOPIC
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, OffsetSpec, TopicPartition
from airflow_kafka_groups.kafka.protocol import api_versions as apis
from airflow_kafka_groups.kafka.protocol.api_versions import Api
from airflow_kafka_groups.kafka.protocol.codec import encode_body
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, FakeCluster, Noise, Oversize, _keys, _partitions
from tests.unit.kafka.admin.client.faults import client

pytestmark = pytest.mark.safety

WHERE = TopicPartition("t", 0)
COORDINATORS = {14, 15, 16}
"""Codes that are asked again: they fail nobody (see the fate tables)."""
LEADERS = {5, 6, 7, 9, 56, 74, 76, 78}
NOT_FOUND, SWITCHED_OFF = 69, 35
TOGETHER = (ErrorCode.unknown_server_error, ErrorCode.invalid_request, ErrorCode.message_too_large)


@dataclass(frozen=True)
class Together:
    """A key for which a broker fails all that it is asked about together."""

    code: ErrorCode


class EndsEarly:
    """A key for which an answer ends a byte too early."""


Trouble = int | Together | type[EndsEarly] | type[Oversize]
Failed = Mapping[Any, KafkaGroupsError]


@dataclass(frozen=True)
class Question:
    """How to ask about keys, how a broker answers, and what may go wrong.

    :param others: codes that are not an error of the key.
    :param old: whether the broker takes one key a request.
    :param changes: whether the answers that cannot be read make the outcome unknown.
    """

    api: Api
    ask: Callable[[AdminClient, Sequence[str]], Awaitable[Failed]]
    answer: Callable[[int, Any, dict[str, ErrorCode]], Any]
    others: set[int]
    old: bool = False
    changes: bool = False

    def troubles(self) -> st.SearchStrategy[Trouble]:
        codes = st.integers(-(2**15), 2**15 - 1) | st.integers(130, 140)
        each: list[st.SearchStrategy[Any]] = [codes.filter(lambda code: code not in {0, *self.others})]
        each.append(st.sampled_from(TOGETHER).map(Together))
        if not self.changes:  # a change whose answer is lost is never sent again
            each += [st.just(EndsEarly), st.just(Oversize)]
        return st.one_of(each)


async def find(admin: AdminClient, keys: Sequence[str]) -> Failed:
    return (await admin.find_coordinators(keys)).failed


async def fetch(admin: AdminClient, keys: Sequence[str]) -> Failed:
    return (await admin.list_consumer_group_offsets(keys)).failed


async def describe(admin: AdminClient, keys: Sequence[str]) -> Failed:
    return (await admin.describe_consumer_groups(keys)).failed


async def delete(admin: AdminClient, keys: Sequence[str]) -> Failed:
    return (await admin.delete_consumer_groups(keys)).failed


async def alter(admin: AdminClient, keys: Sequence[str]) -> Failed:
    return (await admin.alter_consumer_group_offsets({key: {WHERE: OffsetAndMetadata(1)} for key in keys})).failed


async def forget(admin: AdminClient, keys: Sequence[str]) -> Failed:
    ends = await asyncio.gather(
        *(admin.delete_consumer_group_offsets(key, [WHERE]) for key in keys), return_exceptions=True
    )
    return {key: end for key, end in zip(keys, ends, strict=True) if isinstance(end, KafkaGroupsError)}


async def ends(admin: AdminClient, keys: Sequence[str]) -> Failed:
    wanted = {TopicPartition("t", int(key[1:])): OffsetSpec.latest() for key in keys}
    found = await admin.list_offsets(wanted)
    return {f"k{where.partition}": end for where, end in found.items() if isinstance(end, KafkaGroupsError)}


def committed(version: int, request: Any, codes: dict[str, ErrorCode]) -> Any:
    return answers.offset_commit(version, dict.fromkeys(_partitions(request), codes[request.group_id]))


def forgotten(version: int, request: Any, codes: dict[str, ErrorCode]) -> Any:
    return answers.offset_delete(codes[request.group_id], {WHERE: ErrorCode.none})


def listed(version: int, request: Any, codes: dict[str, ErrorCode]) -> Any:
    return answers.list_offsets(version, {("t", int(key[1:])): (7, code) for key, code in codes.items()})


def of_codes(answer: Callable[..., Any], *first: Any) -> Callable[[int, Any, dict[str, ErrorCode]], Any]:
    return lambda version, _request, codes: answer(*first, version, codes)


CONSUMERS = apis.CONSUMER_GROUP_DESCRIBE
FOUND, FETCHED = of_codes(answers.find_coordinator), of_codes(answers.offset_fetch)
QUESTIONS = {
    "find": Question(apis.FIND_COORDINATOR, find, FOUND, COORDINATORS),
    "find singly": Question(apis.FIND_COORDINATOR, find, FOUND, COORDINATORS, old=True),
    "fetch": Question(apis.OFFSET_FETCH, fetch, FETCHED, COORDINATORS),
    "fetch singly": Question(apis.OFFSET_FETCH, fetch, FETCHED, COORDINATORS, old=True),
    "describe": Question(
        apis.DESCRIBE_GROUPS, describe, of_codes(answers.describe_groups), {*COORDINATORS, NOT_FOUND, SWITCHED_OFF}
    ),
    "describe modern": Question(
        CONSUMERS,
        describe,
        of_codes(answers.modern_group_describe, CONSUMERS),
        {*COORDINATORS, NOT_FOUND, SWITCHED_OFF},
    ),
    "delete": Question(apis.DELETE_GROUPS, delete, of_codes(answers.delete_groups), COORDINATORS, changes=True),
    "forget": Question(apis.OFFSET_DELETE, forget, forgotten, COORDINATORS, changes=True),
    "alter": Question(apis.OFFSET_COMMIT, alter, committed, COORDINATORS, changes=True),
    "ends": Question(apis.LIST_OFFSETS, ends, listed, LEADERS),
}


def reply(question: Question, bad: Mapping[str, Trouble], version: int, request: Any) -> Any:
    parts = _partitions(request) if question.api is apis.LIST_OFFSETS else ()
    keys = [f"k{partition}" for _, partition in parts] or list(_keys(request))
    troubles = [bad[key] for key in keys if key in bad]
    if Oversize in troubles:
        return Oversize
    if EndsEarly in troubles:
        return Noise(encode_body(question.answer(version, request, dict.fromkeys(keys, ErrorCode.none)))[:-1])
    for trouble in troubles:
        if isinstance(trouble, Together):
            return question.answer(version, request, dict.fromkeys(keys, trouble.code))
    codes = {key: trouble for key, trouble in bad.items() if isinstance(trouble, int)}
    return question.answer(version, request, {key: ErrorCode(codes.get(key, 0)) for key in keys})


def is_of(trouble: Trouble, error: KafkaGroupsError) -> bool:
    """Return whether an error says what went wrong: the number of a code that nobody knows, too."""
    if isinstance(error, PartitionsFailedError):
        (error,) = error.partition_errors.values()
    if isinstance(trouble, int | Together):
        code = trouble if isinstance(trouble, int) else trouble.code
        return isinstance(error, BrokerError) and error.code == code and f"({int(code)})" in str(error)
    return isinstance(error, RemoteProtocolError)


async def failures(question: Question, bad: Mapping[str, Trouble], keys: Sequence[str], size: int) -> Failed:
    async with FakeCluster({1: OLD if question.old else MODERN}, groups=set(keys)) as fake:
        topics = {OFFSETS_TOPIC: [1] * 50, "t": [1] * 100}
        fake.control(apis.METADATA, lambda _, version, __: answers.metadata(version, fake._ports, topics))
        if question.api is CONSUMERS:
            absent = dict.fromkeys(keys, ErrorCode.group_id_not_found)
            fake.control(apis.DESCRIBE_GROUPS, lambda _, version, __: answers.describe_groups(version, absent))
        fake.control(question.api, lambda _, version, request: reply(question, bad, version, request))
        async with client(fake, batch_size=size) as admin:
            return await question.ask(admin, keys)


@pytest.mark.parametrize("name", QUESTIONS)
@settings(max_examples=15)
@given(data=st.data())
def test_exactly_the_keys_with_trouble_fail_and_say_so(name: str, data: st.DataObject) -> None:
    question = QUESTIONS[name]
    keys = [f"k{number}" for number in range(data.draw(st.integers(1, 24)))]
    bad = data.draw(st.dictionaries(st.sampled_from(keys), question.troubles(), max_size=8))
    largest = [key for key, trouble in bad.items() if trouble is Oversize]
    for key in largest[1:]:  # each closes the connection, and what it carries is asked again after a pause
        bad[key] = EndsEarly
    failed = asyncio.run(failures(question, bad, keys, data.draw(st.sampled_from([3, 220]))))
    assert set(failed) == set(bad)
    assert [key for key in bad if not is_of(bad[key], failed[key])] == []


@pytest.mark.parametrize("name", ["forget", "alter"])
async def test_of_changes_only_the_one_whose_answer_ends_early_is_of_unknown_outcome(name: str) -> None:
    keys = [f"k{number}" for number in range(20)]
    failed = await failures(QUESTIONS[name], {"k7": EndsEarly}, keys, 220)
    assert list(failed) == ["k7"]
    assert isinstance(failed["k7"], OutcomeUnknownError)
