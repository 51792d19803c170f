"""Random histories: the job and a slow reference must agree on every one, and stale must mean stale."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from tests.spark.histories import HOUR, SnapshotRow, expect, hour, seen, verdicts
from tests.spark.reference import Observation, judge_slowly

pytestmark = pytest.mark.spark

SNAPSHOTS = 8
POLICIES = [
    StalenessPolicy(min_idle_seconds=2 * HOUR),
    StalenessPolicy(min_idle_seconds=HOUR, min_observations=4),
    StalenessPolicy(min_idle_seconds=3 * HOUR, max_gap_seconds=HOUR),
]
COLUMNS = ["first_seen_at", "empty_since", "last_moved_at", "idle_since", "idle_seconds", "observations", "verdict"]


def random_history(random: Random, restless: float) -> list[Observation]:
    """Make a group up: each thing that can change does so with the likelihood of ``restless``."""
    history: list[Observation] = []
    kind, protocol, offsets = "classic", "consumer", {("t", 0): (5, -1, "")}
    if random.random() < 0.1:
        kind, protocol = random.choice([("share", ""), ("streams", "streams"), ("classic", "connect")])
    for place in range(SNAPSHOTS):
        changes = {
            name: random.random() < restless for name in ("absent", "state", "error", "offsets", "kind", "clock")
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
                at=hour(place) + timedelta(seconds=random.choice([-5400, 1, 60]) if changes["clock"] else 0),
                group_type="unknown" if changes["kind"] and kind == "classic" else kind,
                protocol_type=protocol,
                state=state,
                members=random.choice([members, None]) if members == 0 else members,
                error="E" if changes["error"] else None,
                offsets=dict(offsets),
            )
        )
    return history


def rows_of(group: str, observation: Observation) -> list[SnapshotRow]:
    return seen(
        observation.place,
        group=group,
        at=observation.at,
        offsets=dict(observation.offsets),
        group_type=observation.group_type,
        protocol_type=observation.protocol_type,
        state=observation.state,
        members=observation.members,
        error=observation.error,
    )


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_random_histories_are_judged_as_the_slow_reference_judges_them(spark: SparkSession, number: int) -> None:
    random, policy = Random(f"histories {number}"), POLICIES[number]
    groups = {f"g{index}": random_history(random, random.choice([0.02, 0.1, 0.3])) for index in range(150)}
    expected: list[dict[str, Any]] = []
    for group, history in groups.items():
        slow = judge_slowly(history, SNAPSHOTS - 1, policy)
        if slow is not None:
            expected.append({"group_id": group} | slow)
    rows = [rows_of(group, observation) for group, history in groups.items() for observation in history]
    random.shuffle(rows)
    expect(verdicts(spark, rows, policy=policy, snapshots=range(SNAPSHOTS)), *expected)
    found = Counter(row["verdict"] for row in expected)
    assert set(found) == {"unreadable", "untouchable", "live", "no_offsets", "moving", "settling", "stale"}, found
