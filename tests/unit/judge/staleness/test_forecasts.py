"""Where a group's lag and offsets are heading: groups of one history, judged together, hour 4 being the newest."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.histories.judged import judge
from tests.histories.judged import verdicts as stored_verdicts
from tests.histories.lake import write_snapshot
from tests.histories.shorthand import SnapshotRow, expect, hour, seen, verdicts

Ends = tuple[int | None, int | None]


def logs(number: float, first: Ends, second: Ends | None = None, **fields: Any) -> list[SnapshotRow]:
    """Return a group with offset 10 in each partition of which start and end of the log are given."""
    ends = {("t", place): each for place, each in enumerate((first, second)) if each is not None}
    chosen: dict[str, Any] = {"offsets": dict.fromkeys(ends, 10), "ends": ends} | fields
    return seen(number, **chosen)


NO_FORECAST: dict[str, Any] = {"lag_trend": None, "lag_trend_since": None, "data_loss_not_before": None}
BUSY: dict[str, Any] = {"state": "Stable", "members": 1}

CASES: dict[str, tuple[list[list[SnapshotRow]], dict[str, Any]]] = {
    "lag grows while the group is idle": (
        [logs(2, (0, 100)), logs(3, (0, 100)), logs(4, (0, 200))],
        NO_FORECAST | {"lag": 190, "lag_unknown": 0, "lost": 0, "lag_trend": 1200.0, "lag_trend_since": hour(2)},
    ),
    "lag that stays is steady": ([logs(3, (0, 100)), logs(4, (0, 100))], {"lag_trend": 0.0}),
    "lag of a group in use is measured over its life": (
        [logs(3, (0, 100), **BUSY), logs(4, (0, 100), offsets={("t", 0): 50}, **BUSY)],
        NO_FORECAST | {"lag_trend": -960.0, "lag_trend_since": hour(3)},
    ),
    "lag of a group that moved just now is measured over its life": (
        [logs(2, (0, 100)), logs(3, (0, 100)), logs(4, (0, 100), offsets={("t", 0): 50})],
        {"lag_trend": -480.0, "lag_trend_since": hour(2)},
    ),
    "lag is measured from where the idle time began": (
        [logs(2, (0, 5000), **BUSY), logs(3, (0, 100)), logs(4, (0, 101))],
        {"lag_trend": 24.0, "lag_trend_since": hour(3)},
    ),
    "an end that is not known now leaves nothing to tell": (
        [logs(2, (0, 100), (0, 100)), logs(3, (1, 150), (1, 150)), logs(4, (2, None), (2, 200))],
        NO_FORECAST | {"lag": 190, "lag_unknown": 1},
    ),
    "a log start that is not known now leaves nothing to tell": (
        [logs(3, (0, 100)), logs(4, (None, 200))],
        NO_FORECAST | {"lag": None, "lag_unknown": 1, "lost": None},
    ),
    "an observation with an end that is not known is passed over": (
        [logs(2, (0, None)), logs(3, (0, 100)), logs(4, (0, 101))],
        {"lag_trend": 24.0, "lag_trend_since": hour(3)},
    ),
    "an observation with an error is passed over": (
        [logs(2, (0, 100), error="E"), logs(3, (0, 100)), logs(4, (0, 101))],
        {"lag_trend": 24.0, "lag_trend_since": hour(3)},
    ),
    "less than an hour is no trend": ([logs(3, (0, 100), at=hour(3.001)), logs(4, (1, 200))], NO_FORECAST),
    "data of one partition is lost when its start comes to the committed offset": (
        [logs(2, (0, 100)), logs(3, (1, 100)), logs(4, (4, 100))],
        {"lost": 0, "data_loss_not_before": hour(7), "lag_trend": 0.0},
    ),
    "with two partitions the forecast is cautious": (
        [logs(2, (0, 100), (0, 100)), logs(3, (0, 100), (0, 100)), logs(4, (2, 100), (2, 100))],
        {"data_loss_not_before": hour(8)},
    ),
    "what is lost already is counted and not foretold": (
        [logs(3, (0, 100)), logs(4, (12, 100))],
        {"lost": 2, "data_loss_not_before": None},
    ),
    "a start that moves too slowly is no forecast": (
        [logs(3, (0, 10**9), offsets={("t", 0): 10**8}), logs(4, (1, 10**9), offsets={("t", 0): 10**8})],
        {"data_loss_not_before": None, "lag_trend": 0.0},
    ),
    "a log start that went backwards is no forecast": (
        [logs(3, (5, 100)), logs(4, (0, 100))],
        {"data_loss_not_before": None},
    ),
    "without offsets there is nothing to foretell": (
        [seen(3, offsets={}), seen(4, offsets={})],
        NO_FORECAST | {"lag_unknown": 0, "lost": None, "offsets_expire_by": None},
    ),
    "offsets expire after the idle time began": (
        [seen(2, **BUSY), seen(3), seen(4)],
        {"idle_since": hour(3), "offsets_expire_by": hour(13)},
    ),
    "offsets of a group in use do not expire": ([seen(3), seen(4, **BUSY)], {"offsets_expire_by": None}),
}


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, Any]]:
    observations = [
        [row | {"group_id": name} for row in rows] for name, (history, _) in CASES.items() for rows in history
    ]
    found = verdicts(observations, snapshots=range(5), retention_minutes=600)
    return {row["group_id"]: row for row in found}


@pytest.mark.parametrize("case", CASES)
def test_forecast(judged: dict[str, dict[str, Any]], case: str) -> None:
    expect([judged[case]], CASES[case][1])


def test_without_the_retention_nobody_guesses_when_offsets_expire() -> None:
    expect(verdicts([seen(0), seen(1)]), {"offsets_expire_by": None})


@pytest.mark.parametrize(
    ("of_snapshot", "given", "expires"),
    [
        (600, (), hour(10)),
        (600, ("--offsets-retention-minutes", "1200"), hour(20)),
        (None, (), None),
        (2**31 - 1, (), None),
    ],
)
def test_the_retention_is_the_judged_snapshot_s_unless_it_is_given(
    tmp_path: Path, of_snapshot: int | None, given: tuple[str, ...], expires: datetime | None
) -> None:
    for number, minutes in ((0, 60), (1, of_snapshot)):
        write_snapshot(tmp_path, number, seen(number), offsets_retention_minutes=minutes)
    summary = judge(tmp_path, *given)
    assert summary["offsets_retention_minutes"] == (int(given[1]) if given else of_snapshot or 0)
    expect(stored_verdicts(tmp_path, 1), {"offsets_expire_by": expires})
