from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_groups.ledger.plan_rows import PlannedGroup
from airflow_kafka_groups.report.groups import forecast_columns, lag_cell


def group(forecast: dict[str, Any] | None = None, lag: int | None = 7) -> PlannedGroup:
    return PlannedGroup(
        group_id="g",
        group_type="classic",
        protocol_type="consumer",
        state="Empty",
        partitions=1,
        lag=lag,
        idle_since=None,
        idle_seconds=None,
        reason="idle",
        fingerprint="f",
        forecast=forecast,
    )


def test_only_columns_that_some_group_has_are_shown_and_the_others_have_a_dash() -> None:
    heads, cells = forecast_columns([group({"lost": 1234.4}), group(), group({"lag_trend": 5.0})])
    assert heads == ["Lag a day", "Lost unread"]
    assert cells == [["-", "1,234"], ["-", "-"], ["+5", "-"]]
    assert forecast_columns([group(), group({})]) == ([], [[], []])


@pytest.mark.parametrize(
    ("name", "value", "cell"),
    [
        ("lag_trend", 1500.6, "+1,501"),
        ("lag_trend", -3.0, "-3"),
        ("lag_trend", 0.2, "0"),
        ("lost", 3.0, "3"),
        ("lost", 0, "0"),
        ("lost", None, "-"),
    ],
)
def test_only_a_trend_has_a_sign(name: str, value: Any, cell: str) -> None:
    assert forecast_columns([group({name: value})])[1] == [[cell]]


@pytest.mark.parametrize("name", ["offsets_expire_by", "data_loss_not_before"])
def test_times_are_shown_in_utc_and_escaped(name: str) -> None:
    ((cell,),) = forecast_columns([group({name: "2026-03-01T01:30:00+02:00"})])[1]
    assert cell == '<time datetime="2026-02-28T23:30:00+00:00">2026-02-28 23:30</time>'


@pytest.mark.parametrize(
    ("lag", "forecast", "cell"),
    [
        (None, None, "-"),
        (None, {"lag_unknown": 2}, "-"),
        (12_345, None, "12,345"),
        (12_345, {"lag_unknown": 0}, "12,345"),
        (12_345, {"lag_unknown": 2}, "at least 12,345"),
    ],
)
def test_a_lag_with_unknown_ends_is_at_least_so_much(
    lag: int | None, forecast: dict[str, Any] | None, cell: str
) -> None:
    assert lag_cell(group(forecast, lag)) == cell
