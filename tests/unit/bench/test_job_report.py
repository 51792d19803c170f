"""The flat file of the job's benchmark and its tables."""

from __future__ import annotations

from typing import Any

from tests.bench.job.report import flatten, growths, tables
from tests.bench.job.steps import Taken


def taken(times: float) -> dict[str, Taken]:
    return {
        "snapshot": Taken(2.0 * times, 1.0 * times, 300.4, 120.0),
        "judge": Taken(31.0, None, 1400.0),
        "delete": Taken(4.0 * times, 3.0 * times, 380.6, 121.0),
        "core_list": Taken(0.5 * times, 0.2, 60.0),
        "core_delete": Taken(1.0 * times, 0.1, 50.0),
    }


def measured() -> dict[str, Any]:
    flat = flatten(12_000, taken(1.0)) | flatten(60_000, taken(5.0))
    return flat | growths(flat)


def test_a_pass_has_its_times_its_ratios_and_the_largest_airflow_task() -> None:
    flat = flatten(60_000, taken(1.0))
    assert flat["job.60000.passed"] is True
    assert (flat["job.60000.snapshot_seconds"], flat["job.60000.snapshot_ratio_core"]) == (2.0, 4.0)
    assert (flat["job.60000.delete_cpu_seconds"], flat["job.60000.delete_ratio_core"]) == (3.0, 4.0)
    assert flat["job.60000.airflow_peak_mb"] == 381, "neither Spark nor the core's calls are Airflow tasks"
    assert flat["job.60000.airflow_before_mb"] == 121
    assert flat["job.60000.tasks_seconds"] == 6.0
    assert "job.60000.judge_cpu_seconds" not in flat


def test_growth_is_of_five_times_the_groups() -> None:
    flat = measured()
    assert (flat["job.growth"], flat["job.growth_cpu"]) == (5.0, 5.0)
    assert (flat["job.growth_delete"], flat["job.growth_judge"]) == (5.0, 1.0)
    assert growths(flatten(60_000, taken(1.0))) == {}, "of one size nothing grows"


def test_tables_show_each_step_beside_the_core_and_the_aims() -> None:
    lag = {"lag.10000.seconds": 0.75, "lag.10000.peak_mb": 150, "lag.10000.cli_seconds": 300.0}
    text = tables(measured() | lag | {"lag.10000.ratio_cli": 0.0025})
    assert (
        "| step | 12,000 groups | 60,000 groups | the core's call alone, 60,000 groups | aim for 60,000 groups |"
        in text
    )
    delete = "| delete | 4.00 s (3.00 s), 381 MB | 20.0 s (15.0 s), 381 MB | 5.00 s | 12 s |"
    assert delete in text
    assert "| judge | 31.0 s, 1400 MB | 31.0 s, 1400 MB |  |  |" in text
    assert "| plan | not measured | not measured |  | 3 s |" in text
    assert "| largest Airflow task | 381 MB | 381 MB |  | 400 MB |" in text
    assert "Five times the groups take 5.00 times the time" in text
    assert "| 10,000 | 0.75 s, 150 MB | 300.0 s | 0.0025 | 1 s |" in text


def test_what_was_not_measured_is_not_in_the_tables() -> None:
    assert tables({}) == "\n"
    assert "not measured" in tables({"lag.50.seconds": 0.1, "lag.50.peak_mb": 140})
