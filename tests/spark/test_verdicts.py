"""The table of verdicts in docs/formats.md, row by row and in its order."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.errors import ArgumentError
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from tests.spark.histories import HOUR, expect, seen, verdicts

pytestmark = pytest.mark.spark

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
    ("streams", {"group_type": "streams"}, "untouchable", "a streams group keeps state of its own"),
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


def test_each_kind_of_group_gets_its_verdict_and_reason(spark: SparkSession) -> None:
    history = [seen(number, group=name, **fields) for name, fields, _, _ in CASES for number in (0, 1, 2)]
    expected = [{"group_id": name, "verdict": verdict, "reason": reason} for name, _, verdict, reason in CASES]
    expect(verdicts(spark, history), *expected)


def test_a_group_that_moved_just_now_is_moving(spark: SparkSession) -> None:
    history = [seen(0), seen(1), seen(2, offsets={("t", 0): 11})]
    reason = "offsets moved 0.0 s ago; the policy requires 2.0 h without"
    expect(verdicts(spark, history), {"idle_seconds": 0.0, "verdict": "moving", "reason": reason})


@pytest.mark.parametrize(("min_idle", "verdict"), [(2 * HOUR, "stale"), (2 * HOUR + 0.001, "moving")])
def test_a_group_that_moved_exactly_the_idle_time_ago_is_stale(
    spark: SparkSession, min_idle: float, verdict: str
) -> None:
    moved = {("t", 0): 11}
    history = [seen(0), seen(1, offsets=moved), seen(2, offsets=moved), seen(3, offsets=moved)]
    policy = StalenessPolicy(min_idle_seconds=min_idle)
    expect(verdicts(spark, history, policy=policy), {"idle_seconds": 2 * HOUR, "verdict": verdict})


@pytest.mark.parametrize(("min_idle", "verdict"), [(HOUR, "stale"), (HOUR + 0.001, "settling")])
def test_a_group_idle_for_exactly_the_time_asked_for_is_stale(
    spark: SparkSession, min_idle: float, verdict: str
) -> None:
    policy = StalenessPolicy(min_idle_seconds=min_idle)
    expect(verdicts(spark, [seen(0), seen(1)], policy=policy), {"idle_seconds": HOUR, "verdict": verdict})


@pytest.mark.parametrize(("asked", "verdict"), [(3, "stale"), (4, "settling")])
def test_a_group_seen_exactly_as_often_as_asked_for_is_stale(spark: SparkSession, asked: int, verdict: str) -> None:
    policy = StalenessPolicy(min_idle_seconds=HOUR, min_observations=asked)
    expect(verdicts(spark, [seen(0), seen(1), seen(2)], policy=policy), {"observations": 3, "verdict": verdict})


def test_a_group_seen_once_is_settling(spark: SparkSession) -> None:
    reason = "idle for 0.0 s (1 snapshots); the policy requires 2.0 h and 2 snapshots"
    expect(verdicts(spark, [seen(0)]), {"verdict": "settling", "reason": reason})


def test_a_group_that_moved_long_ago_and_lost_its_members_just_now_is_settling(spark: SparkSession) -> None:
    moved = {("t", 0): 11}
    busy = [seen(number, offsets=moved, state="Stable", members=1) for number in (1, 2, 3, 4)]
    expect(verdicts(spark, [seen(0), *busy, seen(5, offsets=moved)]), {"observations": 1, "verdict": "settling"})


def test_times_are_written_for_people_and_rounded_down(spark: SparkSession) -> None:
    policy = StalenessPolicy(min_idle_seconds=90)
    expect(
        verdicts(spark, [seen(0), seen(24 * 6.99)], policy=policy),
        {"reason": "idle for 6.9 days (2 snapshots); the policy requires 90.0 s and 2 snapshots"},
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"min_idle_seconds": 0}, "--min-idle (got 0)"),
        ({"min_idle_seconds": -1}, "--min-idle (got -1)"),
        ({"min_idle_seconds": float("nan")}, "--min-idle (got nan)"),
        ({"min_idle_seconds": float("inf")}, "--min-idle (got inf)"),
        ({"min_idle_seconds": 1, "min_observations": 1}, "--min-observations (got 1)"),
        ({"min_idle_seconds": 1, "max_gap_seconds": -1}, "--max-gap (got -1)"),
    ],
)
def test_a_policy_that_could_call_everything_stale_is_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        StalenessPolicy(**arguments)
    assert str(refused.value).startswith(named)
