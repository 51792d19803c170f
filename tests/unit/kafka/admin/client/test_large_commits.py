"""A group with more offsets than a broker writes at once is committed in slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import BrokerError, NotSentError, OutcomeUnknownError, PartitionsFailedError
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_COMMIT
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.fakes import answers
from tests.fakes.cluster import MODERN, Drop, FakeCluster
from tests.unit.kafka.admin.client.faults import client

TOO_LARGE = (ErrorCode.invalid_commit_offset_size, ErrorCode.unknown_server_error)
PARTITIONS = [TopicPartition("t", number) for number in range(400)]
BIG = dict.fromkeys(PARTITIONS, OffsetAndMetadata(7, "m" * 3_000))
"""1.2 MB: three slices."""

Said = Callable[[int, dict[TopicPartition, int]], Any]
"""(number of the request, its offsets) -> an error code for all of them, or what a ``Control`` returns."""


class Commits:
    """A broker's OffsetCommit: what it was asked to commit, and what it has."""

    def __init__(self, fake: FakeCluster, say: Said) -> None:
        self.sizes: list[int] = []
        self.committed: dict[TopicPartition, int] = {}
        self._say = say
        fake.control(OFFSET_COMMIT, self._answer)

    def _answer(self, _: int, version: int, request: Any) -> Any:
        asked = {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        self.sizes.append(len(asked))
        said = self._say(len(self.sizes), asked)
        if said is Drop:
            return said
        codes: Any = said if isinstance(said, dict) else dict.fromkeys(asked, said)
        self.committed |= {where: asked[where] for where, code in codes.items() if code is ErrorCode.none}
        return answers.offset_commit(version, codes)


async def commit(
    say: Said, offsets: dict[TopicPartition, OffsetAndMetadata] = BIG
) -> tuple[GroupResult[None], Commits]:
    async with FakeCluster({1: MODERN}) as fake, client(fake, request_timeout=0.3) as admin:
        commits = Commits(fake, say)
        results = await admin.alter_consumer_group_offsets({"small": {}, "big": offsets})
        assert list(results) == ["small", "big"]
        return results["big"], commits


@pytest.mark.parametrize("error", TOO_LARGE)
async def test_what_is_more_than_a_batch_is_committed_in_slices(error: ErrorCode) -> None:
    """Real brokers refuse 300 offsets with 4,000 bytes of metadata each, so nobody could have restored them."""
    result, commits = await commit(lambda _, asked: error if len(asked) > 300 else ErrorCode.none)
    assert result.ok
    assert commits.committed == dict.fromkeys(PARTITIONS, 7)
    assert len(commits.sizes) == 3


@pytest.mark.parametrize("error", TOO_LARGE)
@pytest.mark.parametrize("text", ["", "m" * 3_000])
async def test_where_a_broker_writes_less_at_once_slices_are_halved(error: ErrorCode, text: str) -> None:
    offsets = dict.fromkeys(PARTITIONS, OffsetAndMetadata(7, text))
    result, commits = await commit(lambda _, asked: error if len(asked) > 110 else ErrorCode.none, offsets)
    assert result.ok
    assert commits.committed == dict.fromkeys(PARTITIONS, 7)


async def test_a_partition_that_is_refused_is_named_and_the_others_are_committed() -> None:
    refused = {PARTITIONS[0], PARTITIONS[-1]}
    unknown, none = ErrorCode.unknown_topic_or_partition, ErrorCode.none
    result, commits = await commit(lambda _, asked: {where: unknown if where in refused else none for where in asked})
    assert isinstance(result.error, PartitionsFailedError)
    assert set(result.error.partition_errors) == refused
    assert set(commits.committed) == set(PARTITIONS) - refused


async def test_a_group_that_somebody_joins_meanwhile_names_all_that_was_not_committed() -> None:
    result, commits = await commit(lambda number, _: ErrorCode.none if number == 1 else ErrorCode.unknown_member_id)
    assert isinstance(result.error, PartitionsFailedError)
    assert set(result.error.partition_errors) == set(PARTITIONS) - set(commits.committed)
    assert "UNKNOWN_MEMBER_ID" in str(result.error)


async def test_an_answer_that_is_lost_leaves_the_group_unknown_and_nothing_more_is_sent() -> None:
    result, commits = await commit(lambda number, _: ErrorCode.none if number == 1 else Drop)
    assert isinstance(result.error, OutcomeUnknownError)
    assert len(commits.sizes) == 2


async def test_a_group_of_which_nothing_was_sent_says_so_and_one_of_which_some_was_names_the_rest() -> None:
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        results = await admin.alter_consumer_group_offsets({"big": BIG}, send_within=0)
        assert isinstance(results["big"].error, NotSentError)
        assert fake.requests(OFFSET_COMMIT) == []


async def test_a_refusal_of_the_coordinator_after_the_first_slice_leaves_no_offset_unnamed() -> None:
    code = ErrorCode.group_authorization_failed
    result, commits = await commit(lambda number, _: ErrorCode.none if number == 1 else code)
    assert isinstance(result.error, PartitionsFailedError)
    assert len(result.error.partition_errors) + len(commits.committed) == len(PARTITIONS)
    assert {type(each) for each in result.error.partition_errors.values()} == {BrokerError}
