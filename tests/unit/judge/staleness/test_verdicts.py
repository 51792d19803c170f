"""The table of verdicts in docs/formats.md, row by row and in its order."""

from collections.abc import Callable
from typing import Any

import pytest

from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from tests.histories.shorthand import HOUR, expect, lives, reduced, seen, verdicts
from tests.histories.shorthand import judged as judge

IDLE = "idle for 2.0 h (3 snapshots); the policy requires 2.0 h and 2 snapshots"
CONNECT = "protocol type connect: another program keeps its own state in this group"
HIDDEN = "no committed offset is visible: a broker removes such a group by itself, so some may be hidden"

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("read in full, empty", {}, "stale", IDLE),
    ("no member count, empty", {"members": None}, "stale", IDLE),
    ("of the new protocol", {"group_type": "consumer"}, "stale", IDLE),
    ("type not known", {"group_type": "unknown"}, "stale", IDLE),
    ("only commits", {"protocol_type": ""}, "stale", IDLE),
    ("error", {"error": "NOT_COORDINATOR"}, "unreadable", "not read in full: NOT_COORDINATOR"),
    ("error, with members", {"error": "E", "state": "Stable", "members": 1}, "unreadable", "not read in full: E"),
    ("error, of a share group", {"error": "E", "group_type": "share"}, "unreadable", "not read in full: E"),
    ("error, without offsets", {"error": "E", "offsets": {}}, "unreadable", "not read in full: E"),
    ("an error without words", {"error": ""}, "unreadable", "not read in full: "),
    ("share", {"group_type": "share"}, "untouchable", "a share group keeps state of its own"),
    ("share, idle", {"group_type": "share", "protocol_type": "share"}, "stale", IDLE),
    ("streams", {"group_type": "streams"}, "untouchable", "a streams group keeps state of its own"),
    ("streams, idle", {"group_type": "streams", "protocol_type": "streams"}, "stale", IDLE),
    ("a type to come", {"group_type": "fancy"}, "untouchable", "a fancy group keeps state of its own"),
    ("connect", {"protocol_type": "connect"}, "untouchable", CONNECT),
    ("connect, live", {"protocol_type": "connect", "state": "Stable", "members": 2}, "untouchable", CONNECT),
    ("members", {"state": "Stable", "members": 2}, "live", "it has 2 member(s), state Stable"),
    ("empty, yet members", {"members": 1}, "live", "it has 1 member(s), state Empty"),
    ("state not known", {"state": "Unknown", "members": None}, "live", "its state is Unknown, not Empty"),
    ("state not known, no members", {"state": "Unknown"}, "live", "its state is Unknown, not Empty"),
    ("dead", {"state": "Dead"}, "live", "its state is Dead, not Empty"),
    ("not certain", {"state": "empty"}, "live", "its state is empty, not Empty"),
    ("live, no offsets", {"state": "Stable", "members": 1, "offsets": {}}, "live", "it has 1 member(s), state Stable"),
    ("no offsets", {"offsets": {}}, "no_offsets", HIDDEN),
]


NEWEST = 5
MOVED = {("t", 0): 11}
BUSY: dict[str, Any] = {"offsets": MOVED, "state": "Stable", "members": 1}
KINDS = [seen(number, group=name, **fields) for name, fields, _, _ in CASES for number in (3, 4, NEWEST)]
TIMES = [
    *(*seen(0, group="left"), *(row for number in range(1, 5) for row in seen(number, group="left", **BUSY))),
    *seen(NEWEST, group="left", offsets=MOVED),
    *(*seen(2, group="rests"), *(row for number in (3, 4, 5) for row in seen(number, group="rests", offsets=MOVED))),
    *(row for number in (3, 4, NEWEST) for row in seen(number, group="thrice")),
    *(*seen(3, group="moves"), *seen(4, group="moves"), *seen(NEWEST, group="moves", offsets=MOVED)),
    *(*seen(4, group="twice"), *seen(NEWEST, group="twice")),
    *seen(NEWEST, group="once"),
]
Judged = dict[str, dict[str, Any]]
Judge = Callable[[StalenessPolicy], Judged]


@pytest.fixture(scope="module")
def judge_all() -> Judge:
    """Judge every group of this module by a policy. Their lives are one: only the longest gap has a say in that."""
    followed = lives(reduced([*KINDS, TIMES]), policy=StalenessPolicy(min_idle_seconds=1))
    return lambda policy: {row["group_id"]: row for row in judge(followed, policy)}


@pytest.fixture(scope="module")
def judged(judge_all: Judge) -> Judged:
    return judge_all(StalenessPolicy(min_idle_seconds=2 * HOUR))


def test_each_kind_of_group_gets_its_verdict_and_reason(judged: Judged) -> None:
    expected = [{"group_id": name, "verdict": verdict, "reason": reason} for name, _, verdict, reason in CASES]
    expect([row for name, row in judged.items() if name not in {row["group_id"] for row in TIMES}], *expected)


def test_a_group_that_moved_just_now_is_moving(judged: Judged) -> None:
    reason = "offsets moved 0.0 s ago; the policy requires 2.0 h without"
    expect([judged["moves"]], {"idle_seconds": 0.0, "verdict": "moving", "reason": reason})


@pytest.mark.parametrize(("min_idle", "verdict"), [(2 * HOUR, "stale"), (2 * HOUR + 0.001, "moving")])
def test_a_group_that_moved_exactly_the_idle_time_ago_is_stale(judge_all: Judge, min_idle: float, verdict: str) -> None:
    judged = judge_all(StalenessPolicy(min_idle_seconds=min_idle))
    expect([judged["rests"]], {"idle_seconds": 2 * HOUR, "verdict": verdict})


@pytest.mark.parametrize(("min_idle", "verdict"), [(HOUR, "stale"), (HOUR + 0.001, "settling")])
def test_a_group_idle_for_exactly_the_time_asked_for_is_stale(judge_all: Judge, min_idle: float, verdict: str) -> None:
    judged = judge_all(StalenessPolicy(min_idle_seconds=min_idle))
    expect([judged["twice"]], {"idle_seconds": HOUR, "verdict": verdict})


@pytest.mark.parametrize(("asked", "verdict"), [(3, "stale"), (4, "settling")])
def test_a_group_seen_exactly_as_often_as_asked_for_is_stale(judge_all: Judge, asked: int, verdict: str) -> None:
    judged = judge_all(StalenessPolicy(min_idle_seconds=HOUR, min_observations=asked))
    expect([judged["thrice"]], {"observations": 3, "verdict": verdict})


def test_a_group_seen_once_is_settling(judged: Judged) -> None:
    reason = "idle for 0.0 s (1 snapshots); the policy requires 2.0 h and 2 snapshots"
    expect([judged["once"]], {"verdict": "settling", "reason": reason})


def test_a_group_that_moved_long_ago_and_lost_its_members_just_now_is_settling(
    judged: dict[str, dict[str, Any]],
) -> None:
    expect([judged["left"]], {"observations": 1, "verdict": "settling"})


def test_times_are_written_for_people_and_rounded_down() -> None:
    policy = StalenessPolicy(min_idle_seconds=90)
    expect(
        verdicts([seen(0), seen(24 * 6.99)], policy=policy),
        {"reason": "idle for 6.9 days (2 snapshots); the policy requires 90.0 s and 2 snapshots"},
    )
