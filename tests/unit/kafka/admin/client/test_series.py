"""Requests of one group each that are sent together: what comes of one says nothing about the others."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from typing import Any, cast

import pytest

from airflow_kafka_groups.exceptions import (
    DeadlineExceededError,
    KafkaGroupsError,
    OutcomeUnknownError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka.admin.handlers.change_group_offsets import AlterGroupOffsetsHandler
from airflow_kafka_groups.kafka.admin.results import GroupResult
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import OFFSET_COMMIT, OFFSET_FETCH
from tests.fakes.cluster import MODERN, OLD, Control, Cut, FakeCluster, Noise
from tests.unit.kafka.admin.client.faults import client, until

pytestmark = pytest.mark.safety

GROUPS = [f"g{number}" for number in range(10)]
COMMIT = {TopicPartition("t", 0): OffsetAndMetadata(1)}


async def stand_still() -> None:
    await asyncio.sleep(0.6)


def third(end: Any) -> Control:
    """Let the third request of the first connection that has so many meet this end, and answer all others."""
    asked: defaultdict[Any, list[str]] = defaultdict(list)

    async def answer(_broker: int, _version: int, request: Any) -> Any:
        of_connection = asked[asyncio.current_task()]
        of_connection.append(request)
        if sum(len(some) >= 3 for some in asked.values()) == 1 and len(of_connection) == 3:
            return await end() if end is stand_still else end
        return None

    return answer


async def commit(end: Any, **limits: Any) -> tuple[int, list[KafkaGroupsError]]:
    """Commit two series of five groups; return how many were committed, and the errors of the others."""
    async with FakeCluster({1: MODERN}) as fake, client(fake, commit_connections=2, **limits) as admin:
        fake.control(OFFSET_COMMIT, third(end))
        results = await admin.alter_consumer_group_offsets(dict.fromkeys(GROUPS, COMMIT))
        assert list(results) == GROUPS
        assert len(fake.requests(OFFSET_COMMIT)) <= 10, "none is sent again"
        return len(results.succeeded), list(results.failed.values())


@pytest.mark.parametrize(
    ("end", "limits"),
    [(Cut, {}), (stand_still, {"request_timeout": 0.3}), (stand_still, {"api_timeout": 0.3})],
    ids=["the connection breaks", "an answer does not come", "the call ends"],
)
async def test_what_was_answered_before_is_done_and_the_rest_is_unknown(end: Any, limits: dict[str, Any]) -> None:
    done, errors = await commit(end, **limits)
    assert done == 7
    assert [type(error) for error in errors] == [OutcomeUnknownError] * 3


async def test_an_answer_that_cannot_be_read_is_that_of_one_group() -> None:
    done, errors = await commit(Noise(b"\xff"))
    assert done == 9
    assert [type(error) for error in errors] == [OutcomeUnknownError]


async def test_a_bug_in_a_handler_is_raised_also_where_the_call_ends_at_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(AlterGroupOffsetsHandler, "parse_series", fail)
    async with FakeCluster({1: MODERN}) as fake, client(fake, api_timeout=0.3) as admin:
        fake.control(OFFSET_COMMIT, third(stand_still))
        with pytest.raises(ZeroDivisionError):
            await admin.alter_consumer_group_offsets(dict.fromkeys(GROUPS[:3], COMMIT))


async def test_answers_that_come_when_the_call_has_ended_are_those_of_their_own_groups() -> None:
    """The reader of a stream is slow: the rest of a series comes before it takes the results."""
    async with FakeCluster({1: OLD}, groups=set(GROUPS)) as fake, client(fake, api_timeout=0.3) as admin:
        fake.control(OFFSET_FETCH, third(stand_still))
        results = []
        async for result in admin.stream_consumer_group_offsets(GROUPS):
            results.append(result)
            await asyncio.sleep(0.1)
        assert sorted(result.group_id for result in results) == GROUPS
        late = [result.error for result in results if result.error is not None]
        assert late
        assert {type(error) for error in late} == {DeadlineExceededError}


async def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    async with FakeCluster({1: MODERN}) as fake, client(fake, commit_connections=2) as admin:
        fake.control(OFFSET_COMMIT, third(stand_still))
        call = asyncio.create_task(admin.alter_consumer_group_offsets(dict.fromkeys(GROUPS, COMMIT)))
        await until(lambda: len(fake.requests(OFFSET_COMMIT)) > 5)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        again = await admin.alter_consumer_group_offsets(dict.fromkeys(GROUPS, COMMIT))
        again.raise_for_errors()
    gc.collect(1)  # what this test left is young
    assert troubles == []


async def test_a_commit_that_was_given_up_is_remembered_when_another_one_of_its_group_was_answered() -> None:
    given_up: GroupResult[None] = GroupResult("b", error=OutcomeUnknownError("no answer"))
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        calls = admin._calls
        first = calls.take_turns(["a", "b"], 2, {})
        second = calls.take_turns(["b"], 1, {})
        assert first["b"] == second["b"] == 1
        calls.settle([GroupResult("b")], first)
        calls.settle([given_up], second)
        assert calls.take_turns(["b"], 1, {})["b"] == 1
        calls.settle([GroupResult("b")], second)
        assert calls.take_turns(["b"], 1, {})["b"] == 0


async def test_reads_that_were_lost_are_sent_again_and_no_others() -> None:
    async with FakeCluster({1: OLD}, groups=set(GROUPS)) as fake, client(fake) as admin:
        fake.control(OFFSET_FETCH, third(Cut))
        (await admin.list_consumer_group_offsets(GROUPS)).raise_for_errors()
        asked = [sent.keys[0] for sent in fake.requests(OFFSET_FETCH)]
        assert set(asked[:2]).isdisjoint(asked[2:]), "the first two were answered"
        assert set(asked) == set(GROUPS)


async def test_a_read_whose_answer_cannot_be_read_fails_alone() -> None:
    async with FakeCluster({1: OLD}, groups=set(GROUPS)) as fake, client(fake) as admin:
        fake.control(OFFSET_FETCH, third(Noise(b"\xff")))
        results = await admin.list_consumer_group_offsets(GROUPS)
        assert [type(error) for error in results.failed.values()] == [RemoteProtocolError]


async def test_what_a_connection_that_is_lost_already_did_not_send_is_sent_over_another() -> None:
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        (await admin.describe_consumer_groups(GROUPS)).raise_for_errors()  # connects
        cluster = admin._calls.cluster
        (own,) = cluster._connections.values()
        lost = [own]

        def connection_of(broker_id: int, number: int = 0) -> Any:
            if lost:  # it broke after it was chosen
                cast("Any", lost.pop())._pipeline._transport.abort()
                return own
            return ClusterClient.open_connection(cluster, broker_id, number)

        cluster.open_connection = connection_of  # type: ignore[method-assign]
        (await admin.alter_consumer_group_offsets({GROUPS[0]: COMMIT})).raise_for_errors()
        assert len(fake.requests(OFFSET_COMMIT)) == 1
