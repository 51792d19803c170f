"""What a history shows: lives, idle runs and movement, each rule with its boundary.

The cases are groups of one history, judged together: hours 0 to 4 have a snapshot each, hour 4 is judged, and stale is
who was idle for 2 hours.
"""

from typing import Any

import pytest

from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from airflow_kafka_groups.storage.schemas import VERDICT_COLUMNS
from tests.histories.shorthand import HOUR, Committed, SnapshotRow, expect, hour, seen, verdicts

Offsets = dict[tuple[str, int], Committed]
STALE = {"verdict": "stale", "idle_since": hour(2), "observations": 3}
MOVED = {("t", 0): 11}
TWO = {("t", 0): 1, ("t", 1): 2}


def changed(rows: list[SnapshotRow], index: int, **fields: Any) -> list[SnapshotRow]:
    rows[index] |= fields
    return rows


CASES: dict[str, tuple[list[list[SnapshotRow]], dict[str, Any]]] = {
    "a group that never moved is idle since it was first seen": (
        [seen(2), seen(3), seen(4)],
        {
            "group_type": "classic",
            "protocol_type": "consumer",
            "state": "Empty",
            "members": 0,
            "coordinator": 1,
            "partitions": 1,
            "lag": 90,
            "first_seen_at": hour(2),
            "empty_since": hour(2),
            "last_moved_at": None,
            "idle_since": hour(2),
            "idle_seconds": 2 * HOUR,
            "observations": 3,
            "observed_at": hour(4),
            "verdict": "stale",
        },
    ),
    "the first observation is no movement": ([seen(4)], {"last_moved_at": None, "verdict": "settling"}),
    "a removed partition is movement": (
        [seen(3, offsets=TWO), seen(4, offsets={("t", 0): 1})],
        {"last_moved_at": hour(4)},
    ),
    "there and back again is movement": (
        [seen(2), seen(3, offsets=MOVED), seen(4)],
        {"last_moved_at": hour(4), "idle_since": hour(4), "observations": 1},
    ),
    "offsets that changed places are movement": (
        [seen(3, offsets=TWO), seen(4, offsets={("t", 0): 2, ("t", 1): 1})],
        {"last_moved_at": hour(4)},
    ),
    "rows in another order are no movement": (
        [seen(3, offsets=TWO), seen(4, offsets=dict(reversed(TWO.items())))],
        {"last_moved_at": None},
    ),
    "no leader epoch and minus one are the same": (
        [seen(3, offsets={("t", 0): (10, None, "")}), seen(4, offsets={("t", 0): (10, -1, "")})],
        {"last_moved_at": None},
    ),
    "rows given twice still show movement": ([seen(3) * 2, seen(4, offsets=MOVED) * 2], {"last_moved_at": hour(4)}),
    "another log end or coordinator is no movement": (
        [seen(2), seen(3, log_end=500, coordinator=2), seen(4, log_end=900, coordinator=3)],
        STALE | {"lag": 890, "coordinator": 3},
    ),
    "the idle time starts when the last member left": (
        [seen(2, state="Stable", members=2), seen(3), seen(4)],
        {"first_seen_at": hour(2), "empty_since": hour(3), "idle_since": hour(3), "observations": 2},
    ),
    "members in between restart the idle time even when nothing moved": (
        [seen(2), seen(3, state="Stable", members=1), seen(4)],
        {"empty_since": hour(4), "last_moved_at": None, "observations": 1},
    ),
    "a state that was not known restarts the idle time": (
        [seen(2), seen(3, state="Unknown", members=None), seen(4)],
        {"empty_since": hour(4)},
    ),
    "empty with members is a contradiction and restarts the idle time": (
        [seen(2), seen(3, members=1), seen(4)],
        {"empty_since": hour(4)},
    ),
    "a member count that is not known restarts nothing when the state is Empty": (
        [seen(2), seen(3, members=None), seen(4, members=None)],
        STALE,
    ),
    "a group with members has no idle time": (
        [seen(2), seen(3, offsets=MOVED), seen(4, offsets=MOVED, state="Stable", members=1)],
        {
            "empty_since": None,
            "last_moved_at": hour(3),
            "idle_since": None,
            "idle_seconds": None,
            "observations": 0,
            "verdict": "live",
        },
    ),
    "another group type restarts the idle time": (
        [seen(2, group_type="consumer"), seen(3), seen(4)],
        {"first_seen_at": hour(2), "empty_since": hour(3)},
    ),
    "another protocol type restarts the idle time": (
        [seen(2, protocol_type=""), seen(3), seen(4)],
        {"empty_since": hour(3)},
    ),
    "a group absent from a snapshot and back again starts anew": (
        [seen(0), seen(2), seen(3, offsets=MOVED), seen(4, offsets=MOVED)],
        {"first_seen_at": hour(2), "empty_since": hour(2), "last_moved_at": hour(3), "observations": 2},
    ),
    "a new life with other offsets has not moved yet": (
        [seen(1), seen(2), seen(4, offsets=MOVED)],
        {"first_seen_at": hour(4), "last_moved_at": None, "idle_since": hour(4), "verdict": "settling"},
    ),
    "of three lives the last one counts": (
        [seen(0), seen(2), seen(4)],
        {"first_seen_at": hour(4), "empty_since": hour(4), "observations": 1},
    ),
    "an error in an older observation restarts the idle time after it": (
        [seen(1), seen(2, error="TOPIC_AUTHORIZATION_FAILED"), seen(3), seen(4)],
        {"first_seen_at": hour(1), "empty_since": hour(3), "last_moved_at": None, "observations": 2},
    ),
    "movement across an unreadable observation is seen": (
        [seen(2), seen(3, offsets={}, error="timed out"), seen(4, offsets=MOVED)],
        {"last_moved_at": hour(4)},
    ),
    "what an unreadable observation shows is no movement": (
        [seen(2), seen(3, offsets=MOVED, error="timed out"), seen(4)],
        {"last_moved_at": None, "empty_since": hour(4)},
    ),
    "an error of one partition spoils the whole observation": (
        [
            seen(2, offsets=TWO),
            changed(seen(3, offsets=TWO), 1, committed_offset=None, error="E"),
            seen(4, offsets=TWO),
        ],
        {"empty_since": hour(4), "last_moved_at": None},
    ),
    "an error of one partition now makes the group unreadable": (
        [
            seen(2, offsets=TWO),
            seen(3, offsets=TWO),
            changed(seen(4, offsets=TWO), 1, committed_offset=None, error="E"),
        ],
        {"verdict": "unreadable", "idle_since": None, "observations": 0},
    ),
    "rows that contradict one another are unreadable": (
        [seen(2, offsets=TWO), changed(seen(4, offsets=TWO), 1, state="Stable")],
        {"verdict": "unreadable", "idle_since": None},
    ),
    "a clock that went backwards restarts the idle time": (
        [seen(0), seen(1), seen(2, at=hour(0.5)), seen(3), seen(4)],
        {"empty_since": hour(0.5), "observations": 3, "idle_seconds": 3.5 * HOUR},
    ),
    "an idle time is never negative": (
        [seen(2), seen(3, at=hour(9), offsets=MOVED), seen(4, offsets=MOVED)],
        {"idle_since": hour(9), "idle_seconds": 0.0, "verdict": "moving"},
    ),
    "lag counts only ends that are known and never less than nothing": (
        [changed(seen(4, offsets={("t", 0): 10, ("t", 1): 500, ("u", 0): 7}), 2, log_end=None)],
        {"lag": 90, "partitions": 3},
    ),
    "lag is null when no end is known": ([seen(4, log_end=None)], {"lag": None}),
    "a partition without a commit is not counted": (
        [changed(seen(4, offsets={("t", 0): 10, ("t", 1): 5}), 1, committed_offset=None)],
        {"partitions": 1, "lag": 90},
    ),
}

DIFFERENCES: dict[str, Offsets] = {
    "forwards": {("t", 0): 11},
    "backwards, a reset": {("t", 0): 9},
    "one more partition": {("t", 0): 10, ("t", 1): 0},
    "another partition": {("t", 1): 10},
    "another topic": {("u", 0): 10},
    "nothing left": {},
    "another leader epoch": {("t", 0): (10, 4, "")},
    "other metadata": {("t", 0): (10, None, "x")},
    "no metadata where there was an empty one": {("t", 0): (10, None, None)},
}
for name, after in DIFFERENCES.items():
    CASES[f"movement: {name}"] = (
        [seen(2), seen(3, offsets=after), seen(4, offsets=after)],
        {"empty_since": hour(2), "last_moved_at": hour(3), "idle_since": hour(3), "observations": 2},
    )


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, Any]]:
    observations = [
        [row | {"group_id": name} for row in rows] for name, (history, _) in CASES.items() for rows in history
    ]
    return {row["group_id"]: row for row in verdicts(observations)}


@pytest.mark.parametrize("case", CASES)
def test_history(judged: dict[str, dict[str, Any]], case: str) -> None:
    expect([judged[case]], CASES[case][1])


def test_verdicts_have_the_columns_of_the_contract() -> None:
    (row,) = verdicts([seen(0)])
    assert {column.name for column in VERDICT_COLUMNS} <= row.keys()


def test_a_group_absent_from_the_newest_snapshot_is_not_judged() -> None:
    history = [seen(0), seen(1), seen(2, group="h"), seen(3, group="h"), seen(4, group="h")]
    expect(verdicts(history), {"group_id": "h"} | STALE)


def test_observations_of_snapshots_that_are_not_listed_do_not_count() -> None:
    history = [seen(0), seen(1, offsets=MOVED), seen(2)]
    expect(verdicts(history, snapshots=[0, 2]), {"last_moved_at": None, "observations": 2, "verdict": "stale"})


def test_a_snapshot_in_which_the_cluster_had_no_group_ends_every_life() -> None:
    expect(verdicts([seen(0), seen(2)], snapshots=[0, 1, 2]), {"first_seen_at": hour(2), "verdict": "settling"})


def test_a_gap_as_long_as_allowed_is_watched() -> None:
    policy = StalenessPolicy(min_idle_seconds=HOUR, max_gap_seconds=2 * HOUR)
    expect(verdicts([seen(0), seen(1), seen(3)], policy=policy), {"idle_since": hour(0), "observations": 3})


def test_a_longer_gap_restarts_the_idle_time() -> None:
    policy = StalenessPolicy(min_idle_seconds=HOUR, max_gap_seconds=2 * HOUR - 0.000001)
    expect(
        verdicts([seen(0), seen(1), seen(3)], policy=policy),
        {"first_seen_at": hour(0), "empty_since": hour(3), "observations": 1, "verdict": "settling"},
    )


def test_without_a_limit_no_gap_is_too_long() -> None:
    expect(verdicts([seen(0), seen(5000)]), {"idle_since": hour(0), "verdict": "stale"})
