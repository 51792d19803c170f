"""The observations that decide: a long history is judged by few of them, as the slow reference judges it by all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.spark.ledger.snapshots import Extent
from airflow_kafka_groups.spark.staleness import judging, transforms
from airflow_kafka_groups.spark.staleness.decisive import decisive, uncertain_positions
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.storage import Storage
from tests.spark.histories import HOUR, expect, hour, snapshot_id, verdicts
from tests.spark.judged import judge, write_hour
from tests.spark.judged import verdicts as judged_verdicts
from tests.spark.reference import Observation, judge_slowly, rows_of

SNAPSHOTS, GROUPS = 40, 250
RETENTION = 90


def long_history(random: Random) -> list[Observation]:
    """Make a group up whose few changes are far apart: it dies, is used again, moves, loses its ends, is not there."""
    first = random.choice([0, 0, 0, random.randrange(SNAPSHOTS)])
    group_type, state, members, offset = "classic", "Empty", 0, 5
    moves = random.random() < 0.3
    changes = {
        random.randrange(random.choice([0, SNAPSHOTS - 4]), SNAPSHOTS) for _ in range(random.choice([0, 1, 1, 2, 3]))
    }
    blind = random.randrange(-10, SNAPSHOTS) if random.random() < 0.4 else SNAPSHOTS
    errors = {random.randrange(random.choice([0, SNAPSHOTS - 4]), SNAPSHOTS)} if random.random() < 0.3 else set()
    absent = {random.randrange(SNAPSHOTS)} if random.random() < 0.1 else set()
    history = []
    for place in range(first, SNAPSHOTS):
        if place in changes:
            change = random.choice(["state", "state", "offset", "offset", "moves", "kind"])
            state, members = random.choice([("Stable", 1), ("Empty", 0)]) if change == "state" else (state, members)
            offset += change == "offset"
            moves ^= change == "moves"
            group_type = "unknown" if change == "kind" else group_type
        error = "E" if place in errors else None
        offset += moves
        if place in absent:
            continue
        history.append(
            Observation(
                place=place,
                at=hour(place) + timedelta(seconds=random.choice([0, 0, 0, 30])),
                group_type=group_type,
                protocol_type="consumer",
                state=state,
                members=members,
                error=error,
                offsets={} if error else {("t", 0): (offset, -1, "")},
                ends={} if error else {("t", 0): (None if blind <= place < blind + 10 else place // 9, 500 + place)},
            )
        )
    return history


@pytest.mark.spark
@pytest.mark.parametrize("late", [None, 17], ids=["in time", "one snapshot late"])
def test_a_long_history_is_judged_by_few_observations_as_by_all(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, late: int | None
) -> None:
    random = Random(f"long {late}")
    policy = StalenessPolicy(min_idle_seconds=3 * HOUR, min_observations=3, max_gap_seconds=1.5 * HOUR)
    histories = {f"g{number}": long_history(random) for number in range(GROUPS)}
    if late is not None:  # longer than the policy allows after the one before it; for every other group only
        late_at = timedelta(hours=0.75)
        histories = {
            group: [
                replace(each, at=each.at + late_at) if each.place == late and index % 2 else each for each in history
            ]
            for index, (group, history) in enumerate(histories.items())
        }
    expected = [
        {"group_id": group} | slow
        for group, history in histories.items()
        if (slow := judge_slowly(history, SNAPSHOTS - 1, policy, RETENTION)) is not None
    ]
    kept: list[DataFrame] = []

    def counted(*arguments: Any) -> DataFrame:
        kept.append(decisive(*arguments).persist())
        return kept[-1]

    monkeypatch.setattr(transforms, "decisive", counted)
    rows = [rows_of(group, each) for group, history in histories.items() for each in history]
    judged = verdicts(
        spark, rows, policy=policy, snapshots=range(SNAPSHOTS), retention_minutes=RETENTION, selected=True
    )
    expect(judged, *expected)
    (selected,) = kept
    assert selected.count() < 0.5 * sum(map(len, histories.values()))
    selected.unpersist()


@pytest.mark.spark
def test_a_job_selects_where_a_long_history_is_on_a_local_disk(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        write_hour(tmp_path, number)
    assert judge(spark, tmp_path)["verdicts"]["stale"] == 2
    by_all = judged_verdicts(tmp_path, 5)
    calls: list[tuple[Any, ...]] = []

    def counted(*arguments: Any) -> DataFrame:
        calls.append(arguments)
        return decisive(*arguments)

    monkeypatch.setattr(transforms, "decisive", counted)
    monkeypatch.setattr(judging, "FEW_ROWS", 15)
    judge(spark, tmp_path)
    assert not calls  # 16 observations of 3 groups are no long history
    monkeypatch.setattr(judging, "_LONG_HISTORY", 5)
    judge(spark, tmp_path)
    ((_, _, position, uncertain),) = calls
    assert (position, uncertain) == (5, set())
    assert judged_verdicts(tmp_path, 5) == by_all
    monkeypatch.setattr(judging, "FEW_ROWS", 16)
    judge(spark, tmp_path)
    monkeypatch.setattr(judging, "FEW_ROWS", 15)
    monkeypatch.setattr(Storage, "is_local", False)
    judge(spark, tmp_path)
    assert len(calls) == 1


TIMES = [(0, 1), (60, 61), (120, 121), (180, 181), (240, 241)]
IDS = [snapshot_id(number) for number in range(len(TIMES))]


def extents_of(times: Sequence[tuple[float, float] | None]) -> dict[str, Extent]:
    return {
        name: Extent() if each is None else Extent(groups=1, oldest=minute(each[0]), newest=minute(each[1]))
        for name, each in zip(IDS, times, strict=True)
    }


def minute(number: float) -> str:
    return f"{hour(number / 60):%Y-%m-%dT%H:%M:%S.%fZ}"


@pytest.mark.parametrize(
    ("times", "gap", "uncertain"),
    [
        (TIMES, 0.0, set()),
        (TIMES, 61 * 60.0, set()),
        (TIMES, 61 * 60 - 1e-6, {0, 1, 2, 3, 4}),
        ([*TIMES[:3], (200, 260), TIMES[4]], 0.0, {3, 4}),
        ([*TIMES[:2], None, *TIMES[3:]], 0.0, {1, 2, 3}),
        ([(0, 1), (1, 61), (60, 121), (121, 181), (240, 241)], 0.0, {1, 2}),
    ],
    ids=["in time", "as far apart as allowed", "too far apart", "overlapping", "without groups", "at the same moment"],
)
def test_where_snapshots_may_not_follow_in_time_both_are_kept(
    times: list[tuple[float, float] | None], gap: float, uncertain: set[int]
) -> None:
    policy = StalenessPolicy(min_idle_seconds=HOUR, max_gap_seconds=gap)
    assert uncertain_positions(IDS, (), extents_of(times), policy) == uncertain


@pytest.mark.parametrize(
    ("after", "ends", "uncertain"),
    [
        (0.5, 31, {0, 1}),
        (0.5, 59, {0, 1}),
        (0.5, 60, {0, 1, 2}),
        (0.5, 130, {0, 1, 2, 3}),
        (-1, 0, {-1, 0, 1}),
        (3.5, 230, {3, 4}),
    ],
)
def test_around_an_incomplete_snapshot_all_is_kept_as_long_as_its_signs_may_count(
    after: float, ends: float, uncertain: set[int]
) -> None:
    name = snapshot_id(after)
    extents = extents_of(TIMES) | {name: Extent(groups=1, oldest=minute(ends), newest=minute(ends))}
    policy = StalenessPolicy(min_idle_seconds=HOUR)
    assert uncertain_positions(IDS, [name], extents, policy) == uncertain
