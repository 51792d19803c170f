"""Changes leave in time or not at all, and what comes of one that is sent with others says nothing about those."""

import asyncio
import gc
import time
from collections import defaultdict
from typing import Any, cast

import pytest

from airflow_kafka_groups.exceptions import (
    ConfigurationError,
    DeadlineExceededError,
    KafkaGroupsError,
    NotSentError,
    OutcomeUnknownError,
    RemoteProtocolError,
)
from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.admin.handlers.change_groups import AlterGroupOffsetsHandler
from airflow_kafka_groups.kafka.cluster import clock
from airflow_kafka_groups.kafka.cluster.client import ClusterClient
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.kafka.protocol.api_versions import DELETE_GROUPS, LIST_GROUPS, OFFSET_COMMIT, OFFSET_FETCH
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from airflow_kafka_groups.kafka.transport.connection import BrokerConnection, open_connection
from airflow_kafka_groups.kafka.transport.security import SecurityConfig
from tests.fakes import answers
from tests.fakes.cluster import MODERN, OLD, Control, Cut, FakeCluster, Noise
from tests.unit.kafka.admin.client.faults import GROUPS, client, until

pytestmark = pytest.mark.safety


def deletions(fake: FakeCluster) -> list[str]:
    return [key for sent in fake.sent if sent.api == DELETE_GROUPS.name for key in sent.keys]


async def test_nothing_leaves_after_a_check_of_types_that_took_too_long() -> None:
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:

        async def slowly(_broker: int, _version: int, _request: Any) -> None:
            await asyncio.sleep(0.3)

        fake.control(LIST_GROUPS, slowly)
        results = await admin.delete_consumer_groups(GROUPS, send_within=0.1)
        assert all(isinstance(result.error, NotSentError) for result in results.values())
        assert deletions(fake) == []
        assert fake.groups == set(GROUPS)


async def test_retries_leave_within_the_time_too() -> None:
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        loading = ErrorCode.coordinator_load_in_progress
        fake.control(DELETE_GROUPS, lambda _id, version, _request: answers.delete_groups(version, {"g": loading}))
        begun = asyncio.get_running_loop().time()
        results = await admin.delete_consumer_groups(["g"], send_within=0.5)
        assert isinstance(results["g"].error, NotSentError)
        tries = [sent.at for sent in fake.sent if sent.api == DELETE_GROUPS.name]
        assert len(tries) > 1
        assert max(tries) - begun < 0.6
        assert fake.groups == {"g"}


async def test_a_machine_that_slept_in_between_sends_nothing_when_it_wakes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop's clock stops during suspend: by it, no time has passed."""
    slept = [0.0]
    monkeypatch.setattr(clock, "now", lambda: 1_000 + slept[0])
    async with FakeCluster(groups=set(GROUPS)) as fake, client(fake) as admin:

        def sleep_meanwhile(_broker: int, _version: int, _request: Any) -> None:
            slept[0] = 3_600.0

        fake.control(LIST_GROUPS, sleep_meanwhile)
        results = await admin.delete_consumer_groups(GROUPS, send_within=15)
        assert all(isinstance(result.error, NotSentError) for result in results.values())
        assert deletions(fake) == []
        assert fake.groups == set(GROUPS)


async def test_a_commit_leaves_in_time_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = {"g": {TopicPartition("t", 0): OffsetAndMetadata(7)}}
    async with FakeCluster(groups={"g"}) as fake, client(fake) as admin:
        assert (await admin.alter_consumer_group_offsets(commit, send_within=30))["g"].ok
        assert len(fake.requests(OFFSET_COMMIT)) == 1
        slept = [0.0]
        monkeypatch.setattr(clock, "now", lambda: 1_000 + slept[0])

        def sleep_meanwhile(_broker: int, version: int, _request: Any) -> Any:
            slept[0] = 3_600.0
            return answers.offset_commit(version, {("t", 0): ErrorCode.coordinator_load_in_progress})

        fake.control(OFFSET_COMMIT, sleep_meanwhile)
        assert isinstance((await admin.alter_consumer_group_offsets(commit, send_within=15))["g"].error, NotSentError)
        assert len(fake.requests(OFFSET_COMMIT)) == 2, "it is not tried again"


@pytest.mark.parametrize("stands_still", [True, False], ids=["the process stands still", "the broker does"])
async def test_a_change_that_waits_for_a_connection_is_not_sent_after_the_calls_deadline(stands_still: bool) -> None:
    hung = [False]

    async def connect(host: str, port: int) -> BrokerConnection:
        if hung[0] and not stands_still:
            await asyncio.sleep(60)  # a broker behind a firewall that drops packets
        connection = await open_connection(host, port, security=SecurityConfig(), client_id="t", timeout=5)
        if hung[0]:
            time.sleep(1)  # noqa: ASYNC251  # the complete process stands still
        return connection

    async with FakeCluster(groups={"g"}) as fake:
        config = ClientConfig.from_librdkafka({"bootstrap.servers": fake.bootstrap}, api_timeout=0.5)
        async with AdminClient(config, connect) as admin:
            for broker_id in (1, 2):
                await (await admin._calls.cluster.connection(broker_id)).aclose()
            hung[0] = True
            results = await admin.alter_consumer_group_offsets({"g": {TopicPartition("t", 0): OffsetAndMetadata(7)}})
            await asyncio.sleep(0.1)
            assert fake.requests(OFFSET_COMMIT) == []
    error = results["g"].error
    assert isinstance(error, DeadlineExceededError if stands_still else NotSentError), "nothing was committed"


@pytest.mark.parametrize("seconds", [float("nan"), "3"])
async def test_a_time_that_is_no_number_is_refused_before_anything_is_sent(seconds: float) -> None:
    """No time is later than NaN: a request would leave however old the reading is."""
    where = TopicPartition("t", 0)
    async with FakeCluster(groups={"g0"}) as fake, client(fake) as admin:
        for change in (
            admin.delete_consumer_groups(["g0"], send_within=seconds),
            admin.alter_consumer_group_offsets({"g0": {where: OffsetAndMetadata(1)}}, send_within=seconds),
            admin.delete_consumer_group_offsets("g0", [where], send_within=seconds),
        ):
            with pytest.raises(ConfigurationError, match=r"send_within.*: give a number of seconds"):
                await change
    assert fake.groups == {"g0"}
    assert not {sent.api for sent in fake.sent} & {"DeleteGroups", "OffsetCommit", "OffsetDelete"}


TEN = [f"g{number}" for number in range(10)]
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
        results = await admin.alter_consumer_group_offsets(dict.fromkeys(TEN, COMMIT))
        assert list(results) == TEN
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
    async with FakeCluster({1: MODERN}) as fake, client(fake, api_timeout=1.0) as admin:
        fake.control(OFFSET_COMMIT, third(stand_still))
        with pytest.raises(ZeroDivisionError):
            await admin.alter_consumer_group_offsets(dict.fromkeys(TEN[:3], COMMIT))


async def test_answers_that_come_when_the_call_has_ended_are_those_of_their_own_groups() -> None:
    """The reader of a stream is slow: the rest of a series comes before it takes the results."""
    async with FakeCluster({1: OLD}, groups=set(TEN)) as fake, client(fake, api_timeout=0.3) as admin:
        fake.control(OFFSET_FETCH, third(stand_still))
        results = []
        async for result in admin.stream_consumer_group_offsets(TEN):
            results.append(result)
            await asyncio.sleep(0.1)
        assert sorted(result.group_id for result in results) == TEN
        late = [result.error for result in results if result.error is not None]
        assert late
        assert {type(error) for error in late} == {DeadlineExceededError}


async def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    async with FakeCluster({1: MODERN}) as fake, client(fake, commit_connections=2) as admin:
        fake.control(OFFSET_COMMIT, third(stand_still))
        call = asyncio.create_task(admin.alter_consumer_group_offsets(dict.fromkeys(TEN, COMMIT)))
        await until(lambda: len(fake.requests(OFFSET_COMMIT)) > 5)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        again = await admin.alter_consumer_group_offsets(dict.fromkeys(TEN, COMMIT))
        again.raise_for_errors()
    gc.collect(1)  # what this test left is young
    assert troubles == []


async def test_reads_that_were_lost_are_sent_again_and_no_others() -> None:
    async with FakeCluster({1: OLD}, groups=set(TEN)) as fake, client(fake) as admin:
        fake.control(OFFSET_FETCH, third(Cut))
        (await admin.list_consumer_group_offsets(TEN)).raise_for_errors()
        asked = [sent.keys[0] for sent in fake.requests(OFFSET_FETCH)]
        assert set(asked[:2]).isdisjoint(asked[2:]), "the first two were answered"
        assert set(asked) == set(TEN)


async def test_a_read_whose_answer_cannot_be_read_fails_alone() -> None:
    async with FakeCluster({1: OLD}, groups=set(TEN)) as fake, client(fake) as admin:
        fake.control(OFFSET_FETCH, third(Noise(b"\xff")))
        results = await admin.list_consumer_group_offsets(TEN)
        assert [type(error) for error in results.failed.values()] == [RemoteProtocolError]


async def test_what_a_connection_that_is_lost_already_did_not_send_is_sent_over_another() -> None:
    async with FakeCluster({1: MODERN}) as fake, client(fake) as admin:
        (await admin.describe_consumer_groups(TEN)).raise_for_errors()  # connects
        cluster = admin._calls.cluster
        (own,) = cluster._connections.values()
        lost = [own]

        def connection_of(broker_id: int, number: int = 0) -> Any:
            if lost:  # it broke after it was chosen
                cast("Any", lost.pop())._pipeline._transport.abort()
                return own
            return ClusterClient.open_connection(cluster, broker_id, number)

        cluster.open_connection = connection_of  # type: ignore[method-assign]
        (await admin.alter_consumer_group_offsets({TEN[0]: COMMIT})).raise_for_errors()
        assert len(fake.requests(OFFSET_COMMIT)) == 1
