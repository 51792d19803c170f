"""Random histories: the job and a slow reference must agree on every one, and stale must mean stale."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import ceil
from random import Random
from typing import Any

import pytest

from airflow_kafka_groups.judge.staleness.buckets import Judgement
from airflow_kafka_groups.judge.staleness.policy import StalenessPolicy
from tests.histories.reference import Observation, judge_slowly, rows_of
from tests.histories.shorthand import (
    HOUR,
    expect,
    hour,
    judged,
    judged_in_buckets,
    lives,
    reduced,
    snapshot_id,
    verdicts,
)

SNAPSHOTS = 8
INCOMPLETE = [place + 0.5 for place in range(SNAPSHOTS - 1)]
POLICIES = [
    StalenessPolicy(min_idle_seconds=2 * HOUR),
    StalenessPolicy(min_idle_seconds=HOUR, min_observations=4),
    StalenessPolicy(min_idle_seconds=3 * HOUR, max_gap_seconds=HOUR),
]
FORECASTS = ["lag_trend", "lag_trend_since", "offsets_expire_by", "data_loss_not_before"]
DECIDED = ["group_id", "idle_since", "idle_seconds", "observations", "verdict", "reason"]
RETENTION = 90


def random_history(random: Random, restless: float) -> list[Observation]:
    """Make a group up: each thing that can change does so with the likelihood of ``restless``."""
    history: list[Observation] = []
    kind, protocol, offsets = "classic", "consumer", {("t", 0): (5, -1, "")}
    if random.random() < 0.1:
        kind, protocol = random.choice([("share", ""), ("streams", "streams"), ("classic", "connect")])
    pace, produced = random.choice([1, 3, 9]), random.choice([-1, 0, 2, 1000])
    for number in sorted([*range(SNAPSHOTS), *INCOMPLETE]):
        place = ceil(number)
        changes = {
            name: random.random() < restless
            for name in ("absent", "state", "error", "offsets", "kind", "clock", "unknown")
        }
        if changes["absent"]:
            continue
        if changes["offsets"]:
            offsets = random.choice(
                [
                    {("t", 0): (random.randint(4, 6), random.choice([-1, 1]), random.choice(["", "m"]))},
                    {("t", 0): (5, -1, ""), ("t", 1): (random.randint(0, 1), -1, "")},
                    {},
                ]
            )
        state, members = (
            random.choice([("Stable", 1), ("Unknown", None), ("Empty", 2)]) if changes["state"] else ("Empty", 0)
        )
        history.append(
            Observation(
                place=place,
                at=hour(number) + timedelta(seconds=random.choice([-5400, 1, 60]) if changes["clock"] else 0),
                group_type="unknown" if changes["kind"] and kind == "classic" else kind,
                protocol_type=protocol,
                state=state,
                members=random.choice([members, None]) if members == 0 else members,
                error="E" if changes["error"] else None,
                offsets=dict(offsets),
                ends={
                    at: (None if changes["unknown"] and at[1] == 0 else place // pace, 10 + at[1] + produced * place)
                    for at in offsets
                },
                complete=number in range(SNAPSHOTS),
            )
        )
    return history


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_random_histories_are_judged_as_the_slow_reference_judges_them(number: int) -> None:
    random, policy = Random(f"histories {number}"), POLICIES[number]
    groups = {f"g{index}": random_history(random, random.choice([0.02, 0.1, 0.3])) for index in range(150)}
    expected: list[dict[str, Any]] = []
    for group, history in groups.items():
        slow = judge_slowly(history, SNAPSHOTS - 1, policy, RETENTION)
        if slow is not None:
            expected.append({"group_id": group} | slow)
    rows = [rows_of(group, observation) for group, history in groups.items() for observation in history]
    random.shuffle(rows)
    when: dict[str, Any] = {"policy": policy, "snapshots": range(SNAPSHOTS), "incomplete": INCOMPLETE}
    observed = reduced(rows)
    found = judged(lives(observed, **when), policy, RETENTION)
    expect(found, *expected)
    places = [(snapshot_id(number), number in range(SNAPSHOTS)) for number in sorted([*range(SNAPSHOTS), *INCOMPLETE])]
    judgement = Judgement(policy, places, RETENTION, ())
    for buckets, files in ((1, 1), (3, 2), (100, 3)):  # of a hundred, many have no row of a snapshot
        assert judged_in_buckets(observed, judgement, buckets, files) == found
    for name in FORECASTS:
        known = sum(row[name] is not None for row in expected)
        assert 5 < known < len(expected) - 5, (name, known)
    names = Counter(row["verdict"] for row in expected)
    assert set(names) == {"unreadable", "untouchable", "live", "no_offsets", "moving", "settling", "stale"}, names

    # Neither ends nor retention have a say in what is decided.
    without_ends = [[row | {"log_start": None, "log_end": None} for row in each] for each in rows]
    blind = verdicts(without_ends, **when)
    assert decided(blind) == decided(found)
    assert all(row[name] is None for row in blind for name in [*FORECASTS, "lag", "lost"])


def decided(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in DECIDED) for row in rows)


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_incomplete_snapshots_never_lengthen_an_idle_time(number: int) -> None:
    random, shorter = Random(f"never longer {number}"), 0
    for _ in range(400):
        history = random_history(random, random.choice([0.05, 0.1, 0.3]))
        complete = [each for each in history if each.complete]
        without = judge_slowly(complete, SNAPSHOTS - 1, POLICIES[number], RETENTION)
        found = judge_slowly(history, SNAPSHOTS - 1, POLICIES[number], RETENTION)
        assert (found is None) == (without is None)
        if found is None or without is None or without["idle_since"] is None:
            assert found is None or found["verdict"] == (without or {})["verdict"]
            continue
        assert found["idle_since"] >= without["idle_since"]
        assert found["observations"] <= without["observations"]
        assert found["verdict"] == without["verdict"] or found["verdict"] in ("settling", "moving")
        shorter += found["idle_since"] > without["idle_since"]
    assert shorter > 20
