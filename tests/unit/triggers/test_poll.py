"""The one trigger: carried as plain data, one event, one client for all, closed whatever happens."""

import asyncio
import importlib
import json
import time
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import (
    AirflowUnavailableError,
    AuthenticationFailedError,
    ConfigurationError,
    KafkaGroupsError,
    NoBrokerAvailableError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from airflow_kafka_groups.kafka.models import TopicPartition
from airflow_kafka_groups.triggers import clients
from airflow_kafka_groups.triggers.clients import CONDITIONS, condition_from_json
from airflow_kafka_groups.triggers.conditions import (
    CoordinatorsAvailable,
    EndReached,
    GroupsEmpty,
    GroupsExist,
    GroupsGone,
    LagAtMost,
    NoProgress,
    OffsetsReached,
)
from airflow_kafka_groups.triggers.poll import FIRST_POLL_AFTER, ConditionTrigger, wait_before_poll
from tests.fakes.admin import FakeAdmin
from tests.fakes.groups import FakeGroup
from tests.lab.machine.waiting import until_async
from tests.unit.triggers.conftest import fire, wait_for

T0 = TopicPartition("t", 0)
TARGETS = {"a": {T0: 5, TopicPartition("t", 1): 0}, "b": {TopicPartition("u", 2): 7}}
EACH = [
    CoordinatorsAvailable(group_ids=("a", "b")),
    GroupsGone(group_ids=("a",)),
    OffsetsReached(targets=TARGETS, any_group=True),
    LagAtMost(group_ids=("a",), total=5, partition=None, seconds=1.5, any_group=True),
    GroupsExist(group_ids=("a",), any_group=True),
    GroupsEmpty(group_ids=("a",)),
    EndReached(group_ids=("a", "b"), targets=TARGETS),
    NoProgress(group_ids=("a",), seconds=60.5, only_with_lag=False),
]


def trigger(condition: Any = EACH[4], **arguments: Any) -> ConditionTrigger:
    return wait_for(condition, **arguments)


def test_every_condition_is_carried() -> None:
    assert {type(condition).__name__ for condition in EACH} == set(CONDITIONS)


@pytest.mark.parametrize("condition", EACH, ids=lambda condition: type(condition).__name__)
def test_a_trigger_is_rebuilt_from_what_it_serialises_to(condition: Any) -> None:
    path, arguments = trigger(condition, poll_interval=7.0, deadline=123.0, backoff=True).serialize()
    carried = json.loads(json.dumps(arguments))
    assert carried == arguments, "plain JSON only"
    module, _, name = path.rpartition(".")
    rebuilt = getattr(importlib.import_module(module), name)(**carried)
    assert rebuilt.serialize() == (path, arguments)
    assert condition_from_json(rebuilt.condition) == condition


@pytest.mark.usefixtures("_hurried")
async def test_it_polls_until_it_is_reached(admin: FakeAdmin) -> None:
    task = asyncio.create_task(fire(trigger()))
    await asyncio.sleep(0.05)
    assert not task.done()
    admin.groups["a"] = FakeGroup()
    event = await task
    assert (event["version"], event["status"]) == (1, "reached")
    assert admin.closed == 1


@pytest.mark.usefixtures("_hurried")
async def test_many_triggers_share_one_client(admin: FakeAdmin) -> None:
    tasks = [asyncio.create_task(fire(trigger())) for _ in range(50)]
    held = clients._clients.setdefault(asyncio.get_running_loop(), [])
    await until_async(lambda: [each.users for each in held] == [50])
    assert admin.closed == 0
    admin.groups["a"] = FakeGroup()
    await asyncio.gather(*tasks)
    assert (held, admin.closed) == ([], 1)


@pytest.mark.usefixtures("_hurried")
async def test_a_cancelled_trigger_closes_its_client_unless_others_use_it(admin: FakeAdmin) -> None:
    first, second = asyncio.create_task(fire(trigger())), asyncio.create_task(fire(trigger()))
    held = clients._clients.setdefault(asyncio.get_running_loop(), [])
    await until_async(lambda: [each.users for each in held] == [2])
    for task, closed in ((first, 0), (second, 1)):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert admin.closed == closed


@pytest.mark.usefixtures("_hurried")
async def test_out_of_time_it_says_what_it_waited_for(admin: FakeAdmin) -> None:
    event = await fire(trigger(deadline=time.time() + 0.05))
    assert event["status"] == "timeout"
    assert "waiting for a: state Dead" in event["message"]


@pytest.mark.usefixtures("_hurried")
async def test_past_the_deadline_it_still_looks_once(admin: FakeAdmin) -> None:
    admin.groups["a"] = FakeGroup()
    assert (await fire(trigger(deadline=1.0)))["status"] == "reached"


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize(
    ("error", "silent_fail"),
    [(NoBrokerAvailableError("b1:9092", "refused"), False), (RemoteProtocolError("nonsense"), True)],
)
async def test_it_polls_on_after_what_may_get_better_and_with_silent_fail_after_more(
    admin: FakeAdmin, error: KafkaGroupsError, silent_fail: bool
) -> None:
    admin.fails_with = error
    task = asyncio.create_task(fire(trigger(silent_fail=silent_fail)))
    await asyncio.sleep(0.05)
    assert not task.done()
    admin.groups["a"] = FakeGroup()
    admin.fails_with = None
    assert (await asyncio.wait_for(task, 5))["status"] == "reached"
    admin.fails_with = AuthenticationFailedError("b1:9092", "wrong password")
    assert (await fire(trigger(silent_fail=silent_fail)))["status"] == "failed"


@pytest.mark.usefixtures("_hurried")
async def test_an_airflow_that_cannot_be_asked_for_the_connection_is_not_yet(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its API server restarts: the wait goes on, whether the trigger is new or has lost its client meanwhile."""
    from airflow_kafka_groups.hooks.kafka_groups import KafkaGroupsHook

    away = True

    async def connect(self: Any) -> FakeAdmin:
        if away:
            raise AirflowUnavailableError("the connection cannot be looked up")
        return admin

    monkeypatch.setattr(KafkaGroupsHook, "aget_conn", connect)
    task = asyncio.create_task(fire(trigger()))
    await asyncio.sleep(0.05)
    assert not task.done()
    admin.groups["a"] = FakeGroup()
    away = False
    assert (await task)["status"] == "reached"


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize(
    ("error", "final"),
    [(AuthenticationFailedError("b1:9092", "wrong password"), True), (RemoteProtocolError("nonsense"), False)],
)
async def test_what_will_not_get_better_fails_at_once_and_says_whether_a_retry_would_help(
    admin: FakeAdmin, error: KafkaGroupsError, final: bool
) -> None:
    admin.fails_with = error
    event = await fire(trigger())
    assert (event["status"], event["final"]) == ("failed", final)
    assert event["message"] == f"{type(error).__name__}: {error}"


@pytest.mark.usefixtures("_hurried")
async def test_a_connection_that_is_not_there_or_wrong_fails(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT", '{"conn_type": "kafka_groups", "extra": {"reed_only": 1}}')
    assert "reed_only" in (await fire(trigger()))["message"]
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT")
    assert "there is no such connection" in (await fire(trigger()))["message"]


@pytest.mark.parametrize(
    "condition",
    [{}, {"kind": "Unheard"}, {"kind": "LagAtMost", "group_ids": ["a"], "new": 1}, {"kind": "OffsetsReached"}, None],
)
async def test_a_condition_of_another_version_fails_and_is_not_half_understood(condition: Any) -> None:
    one = trigger()
    one.condition = condition
    event = await fire(one)
    assert event["status"] == "failed"
    assert "another version" in event["message"]


@pytest.mark.usefixtures("_hurried")
async def test_a_slow_answer_takes_no_client_away_from_others(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(_: Any) -> Any:
        raise RequestTimeoutError("no answer")

    monkeypatch.setattr(admin, "describe_consumer_groups", slow)
    assert (await fire(trigger(deadline=time.time() + 0.05)))["status"] == "timeout"
    assert admin.closed == 1


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ({"interval": 60, "polls": 1, "failures": 0, "backoff": False}, 60),
        ({"interval": 60, "polls": 9, "failures": 0, "backoff": False}, 60),
        ({"interval": 60, "polls": 1, "failures": 1, "backoff": False}, 120),
        ({"interval": 60, "polls": 9, "failures": 9, "backoff": False}, 300),
        ({"interval": 60, "polls": 2, "failures": 0, "backoff": True}, 240),
        ({"interval": 900, "polls": 5, "failures": 5, "backoff": True}, 900),
        ({"interval": 1, "polls": 0, "failures": 0, "backoff": False}, FIRST_POLL_AFTER),
        ({"interval": 0, "polls": 1, "failures": 0, "backoff": False}, 0),
    ],
)
def test_how_long_it_waits(arguments: Any, seconds: float) -> None:
    assert wait_before_poll(**arguments) == pytest.approx(seconds)
    low, high = (wait_before_poll(**arguments, spread=spread) for spread in (0.0, 1.0))
    assert low >= min(seconds * 0.9, seconds)
    assert high <= max(seconds * 1.1, FIRST_POLL_AFTER)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_it_waits_no_longer_than_the_sensor_s_max_wait(spread: float) -> None:
    how: Any = {"polls": 5, "spread": spread, "most": 60.0}
    assert wait_before_poll(30, failures=0, backoff=True, **how) == 60
    assert wait_before_poll(30, failures=5, backoff=True, **how) == 60
    assert wait_before_poll(600, failures=0, backoff=False, **how) > 500, "as in a worker, it is a limit of the backoff"


@pytest.mark.usefixtures("_hurried")
async def test_a_poll_that_loses_its_connection_gets_a_new_client(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    described, calls = admin.describe_consumer_groups, 0

    async def once_lost(group_ids: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise NoBrokerAvailableError("b1:9092", "connection lost")
        return await described(group_ids)

    admin.groups["a"] = FakeGroup()
    monkeypatch.setattr(admin, "describe_consumer_groups", once_lost)
    assert (await fire(trigger()))["status"] == "reached"
    assert admin.closed == 2


@pytest.mark.usefixtures("_hurried")
async def test_a_stall_is_not_claimed_for_a_time_in_which_the_cluster_was_away(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def away(group_ids: Any) -> Any:
        asked.set()
        raise NoBrokerAvailableError("b1:9092", "down for maintenance")

    admin.groups["a"] = FakeGroup({T0: 5})
    task = asyncio.create_task(fire(trigger(NoProgress(group_ids=("a",), seconds=0.4))))
    await asyncio.sleep(0.2)
    with monkeypatch.context() as patched:
        patched.setattr(admin, "list_consumer_group_offsets", away)
        await asyncio.wait_for(asked.wait(), 5)  # on a busy machine, it may not be asked for a while
    back = time.monotonic()
    assert (await asyncio.wait_for(task, 5))["status"] == "reached"
    assert time.monotonic() - back >= 0.38, "it had watched for 0.2 s only when the cluster went away"


async def test_groups_are_gone_only_on_the_cluster_that_they_were_deleted_on(admin: FakeAdmin) -> None:
    assert (await GroupsGone(group_ids=("a",), kafka_cluster_id=admin.cluster).check(admin)).reached
    with pytest.raises(ConfigurationError, match="another-cluster"):
        await GroupsGone(group_ids=("a",), kafka_cluster_id="another-cluster").check(admin)


async def test_no_deadline_is_so_near_that_airflow_loses_the_task(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline of a short sensor, or one that has passed while the triggerer was down."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    for deadline in (time.time() + 1, time.time() - 60):
        one = trigger(deadline=deadline)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", sleep)
            assert (await fire(one))["status"] == "timeout"
    assert [min(seconds, FIRST_POLL_AFTER) for seconds in slept] == [FIRST_POLL_AFTER] * 2


CONNECTION = "AIRFLOW_CONN_KAFKA_GROUPS_DEFAULT"
