"""The lease ends here before it can be given away there, and only its group's word gives it."""

import asyncio
import json
import logging
import re
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.exceptions import ConfigurationError, LeaseLostError, LeaseNotAcquiredError
from airflow_kafka_groups.kafka import ClientConfig, JoinedMember, MaintenanceLease
from airflow_kafka_groups.kafka.membership import lease as lease_assignor
from airflow_kafka_groups.kafka.membership.lease import Bid, _LeaseMember
from airflow_kafka_groups.kafka.protocol.api_versions import HEARTBEAT
from airflow_kafka_groups.kafka.protocol.error_codes import ErrorCode
from tests.pages import DOCS
from tests.unit.kafka.membership.group import ScriptedGroup, until

ANOTHER = json.dumps({"holder": "other", "owner": "run 7"}).encode()


class Clock:
    """A clock that a test can put forward, as a stall would. A stall of the machine itself counts for little."""

    def __init__(self) -> None:
        self.stalled = 0.0
        self._passed = 0.0
        self._read = time.monotonic()

    def __call__(self) -> float:
        before, self._read = self._read, time.monotonic()
        self._passed += min(self._read - before, 0.05)
        return self._passed + self.stalled


def lease_of(group: ScriptedGroup, clock: Clock | None = None, **options: float) -> MaintenanceLease:
    fields = {"session_timeout": 6.0, "acquire_timeout": 0.0, **options}
    return MaintenanceLease(group.config, group_id="g", owner="me", now=clock or Clock(), **fields)


async def test_who_holds_it_may_go_on_and_says_by_what(group: ScriptedGroup) -> None:
    lease = lease_of(group)
    with pytest.raises(LeaseLostError, match="never requested"):
        lease.check()
    async with lease:
        lease.check()
        assert 0 < lease.remaining <= lease.valid_for == 3.0
        assert (lease.generation, lease.member_id, lease.kafka_cluster_id) == (1, "m1", "fake")
        with pytest.raises(LeaseLostError, match="99 s are required"):
            lease.check(at_least=99)
    assert not lease.held
    assert lease.generation == -1


async def test_the_page_asks_for_no_longer_than_a_lease_is_confirmed(group: ScriptedGroup) -> None:
    page = (DOCS / "membership.md").read_text()
    found = re.search(r"MaintenanceLease\(config, (.*?)\).*?check\(at_least=(\d+)\)", page, re.DOTALL)
    assert found
    shown: dict[str, Any] = {name: float(seconds) for name, seconds in re.findall(r"(\w+)=(\d+)", found[1])}
    async with MaintenanceLease(group.config, owner="run_id", **shown) as lease:
        lease.check(at_least=int(found[2]))
    assert int(found[2]) < lease.valid_for * 2 / 3, "and shortly before the next heartbeat"


@pytest.mark.parametrize(("at_least", "remedy"), [(2.9, False), (3, True), (99, True)])
async def test_a_lease_that_is_never_confirmed_for_so_long_names_the_setting(
    group: ScriptedGroup, at_least: float, remedy: bool
) -> None:
    """Every check failed, and looked like a lease that was about to be lost."""
    clock = Clock()
    async with lease_of(group, clock, valid_for=3.0) as lease:
        clock.stalled = 0.5
        with pytest.raises(LeaseLostError, match=f"but {at_least:g} s are required") as lost:
            lease.check(at_least)
    assert ("never for more than 3 s: raise session_timeout" in str(lost.value)) is remedy


async def test_a_stall_ends_it_at_once_by_the_clock_alone(group: ScriptedGroup) -> None:
    clock = Clock()
    async with lease_of(group, clock) as lease:
        clock.stalled = 3.1  # nothing was awaited: no task of ours could have noticed
        assert not lease.held
        with pytest.raises(LeaseLostError, match="last confirmation is 3"):
            lease.check()


async def test_after_a_stall_only_the_coordinators_word_counts(group: ScriptedGroup) -> None:
    clock = Clock()
    async with lease_of(group, clock, valid_for=0.3) as lease:
        group.hold_beats = asyncio.Event()
        clock.stalled = 3.1
        group.beats.append(ErrorCode.unknown_member_id)
        group.override = ANOTHER
        group.hold_beats.set()
        await group.beats_seen(1)
        await until(lambda: lease.held or lease.member_id == "m2")
        assert not lease.held


async def test_a_heartbeat_counts_from_when_it_was_sent(group: ScriptedGroup) -> None:
    clock = Clock()
    sent = group.cluster.requests
    async with lease_of(group, clock, valid_for=0.3) as lease:
        group.hold_beats = first = asyncio.Event()
        before = len(sent(HEARTBEAT))
        await until(lambda: len(sent(HEARTBEAT)) == before + 1)
        clock.stalled = 1.0
        group.hold_beats = second = asyncio.Event()
        first.set()
        await until(lambda: len(sent(HEARTBEAT)) == before + 2)  # so the first has been dealt with
        assert not lease.held, "the answer came now, but it speaks of a second ago"
        second.set()
        await until(lambda: lease.held)


async def test_it_is_not_held_any_more_when_the_coordinator_hears_of_leaving(group: ScriptedGroup) -> None:
    heard: list[bool] = []
    async with lease_of(group) as lease:
        group.on_leave.append(lambda: heard.append(lease.held))
        assert lease.held
    assert heard == [False]


async def test_a_lease_that_comes_back_is_of_another_term(group: ScriptedGroup) -> None:
    async with lease_of(group, valid_for=1.5) as lease:  # a shorter one expires where the machine is busy
        term = lease.term
        group.beats.append(ErrorCode.rebalance_in_progress)
        await until(lambda: lease.generation == 2 and lease.held)
        assert lease.term == term, "it was claimed all the time"
        group.beats.append(ErrorCode.unknown_member_id)
        await until(lambda: lease.member_id == "m2" and lease.held)
        assert lease.term != term


async def test_after_a_session_timeout_without_a_word_it_is_asked_for_again(group: ScriptedGroup) -> None:
    """Its coordinator may have been suspended, too, and say OK before it learns that it is none any more."""
    clock = Clock()
    async with lease_of(group, clock, valid_for=0.3) as lease:
        term, generation = lease.term, lease.generation
        clock.stalled = 6.0
        await until(lambda: lease.held)
        assert lease.generation > generation
        assert lease.term != term, "another may have had it"


async def test_no_request_for_it_looks_like_the_one_before(group: ScriptedGroup) -> None:
    """A broker begins no round for the same metadata: one that was coordinator gave it again by what it remembered."""
    clock = Clock()
    async with lease_of(group, clock, valid_for=0.3) as lease:
        clock.stalled = 6.0
        await until(lambda: lease.generation == 2)
    requests = [metadata for member_id, metadata in group.joined_as if member_id]
    assert len(set(requests)) == len(requests) == 2


async def test_a_round_is_waited_for_and_a_loss_is_not(group: ScriptedGroup) -> None:
    async with lease_of(group, Clock(), valid_for=0.3) as lease:
        await lease.confirm(0.1)
        group.hold_beats = asyncio.Event()
        await until(lambda: not lease.held)
        waiting = asyncio.create_task(lease.confirm(0.1))
        await asyncio.sleep(0)
        assert not waiting.done()
        group.hold_beats.set()
        await waiting
        assert lease.held
        group.override = ANOTHER
        group.beats.append(ErrorCode.rebalance_in_progress)
        await until(lambda: lease.generation == -1)
        with pytest.raises(LeaseLostError, match="assigned the lease to another"):
            await lease.confirm(0.1)
    with pytest.raises(LeaseLostError, match="released"):
        await lease.confirm()


async def test_a_confirmation_that_does_not_come_is_given_up(group: ScriptedGroup) -> None:
    clock = Clock()
    async with lease_of(group, clock, valid_for=0.3) as lease:
        group.hold_beats = asyncio.Event()
        await until(lambda: not lease.held)
        waiting = asyncio.create_task(lease.confirm())
        await asyncio.sleep(0)
        clock.stalled = 7.0  # more than the session timeout
        with pytest.raises(LeaseLostError, match="is not confirmed"):
            await waiting


async def test_a_round_that_gives_it_to_another_ends_it(group: ScriptedGroup) -> None:
    async with lease_of(group, valid_for=0.3) as lease:
        group.override = ANOTHER
        group.beats.append(ErrorCode.rebalance_in_progress)
        await until(lambda: lease.generation == -1)
        with pytest.raises(LeaseLostError, match="assigned the lease to another"):
            lease.check()


async def test_who_does_not_get_it_is_told_who_has_it_and_leaves(group: ScriptedGroup) -> None:
    group.override = ANOTHER
    with pytest.raises(LeaseNotAcquiredError, match="held by 'run 7'"):
        async with lease_of(group):
            pass
    assert group.left == ["m1"]


async def test_who_waits_gets_it_when_it_becomes_free(group: ScriptedGroup) -> None:
    group.override = ANOTHER
    lease = lease_of(group, valid_for=0.3)
    waiting = asyncio.create_task(lease.acquire(10))
    await group.beats_seen(2)
    group.override = None
    group.beats.append(ErrorCode.rebalance_in_progress)
    await waiting
    assert lease.held
    await lease.aclose()


@pytest.mark.parametrize("timeout", [float("nan"), -1.0, "soon"])
def test_a_wait_that_makes_no_sense_is_refused(timeout: Any) -> None:
    """It is compared with the time: after no number of seconds, a lease that another run holds was given up."""
    with pytest.raises(ConfigurationError, match="acquire_timeout"):
        MaintenanceLease(ClientConfig(bootstrap_servers=(("b", 1),)), acquire_timeout=timeout)


@pytest.mark.parametrize("valid_for", [0, -1, 3.5])
def test_a_validity_too_near_to_the_session_timeout_is_refused(valid_for: float) -> None:
    with pytest.raises(ConfigurationError, match="at most half"):
        MaintenanceLease(ClientConfig(bootstrap_servers=(("b", 1),)), session_timeout=6, valid_for=valid_for)


def member(name: str, since: int, holds: int | None = None) -> JoinedMember:
    return JoinedMember(name, None, msgspec.json.encode(Bid(owner=name.upper(), since=since, holds=holds)))


def holder(*members: JoinedMember) -> str:
    made = lease_assignor.assign("leader", members)
    assert set(made) == {one.member_id for one in members}
    (data,) = set(made.values())
    return lease_assignor.read_grant(data).holder


class TestGrants:
    def test_the_holder_keeps_it_whoever_waits_longer(self) -> None:
        assert holder(member("a", 1), member("b", 9, holds=3)) == "b"

    def test_the_newest_claim_wins(self) -> None:
        assert holder(member("a", 1, holds=3), member("b", 9, holds=4)) == "b"

    def test_the_longest_waiting_is_next(self) -> None:
        assert holder(member("a", 5), member("b", 2), member("c", 9)) == "b"

    def test_noise_holds_nothing(self) -> None:
        assert holder(JoinedMember("a", None, b'{"since": 1, "holds": true}'), member("b", 7)) == "b"

    @given(st.binary(max_size=40))
    def test_noise_gives_nothing(self, noise: bytes) -> None:
        assert lease_assignor.read_grant(noise).holder == ""
        assert lease_assignor.read_bid(noise) is None


@pytest.mark.safety
async def test_the_name_of_another_run_writes_no_line_of_its_own_into_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.Logger("of this test")  # that of all tests remembers for which levels it is switched on
    log.addHandler(caplog.handler)
    monkeypatch.setattr("airflow_kafka_groups.kafka.membership.lease.log", log)
    lease = MaintenanceLease(ClientConfig(bootstrap_servers=(("127.0.0.1", 1),)), group_id="leases")
    grant = json.dumps({"holder": "m", "owner": "run\nlease leases: lost" + "x" * 10_000}).encode()
    await _LeaseMember(lease).on_join_complete(3, "m", "p", grant)
    assert "held by 'run\\nlease leases: lost" in caplog.text
    assert len(caplog.text) < 2_000
