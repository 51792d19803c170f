"""Findings, and how serious they are together."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.doctor.finding import Finding, Report, Status, counted, worst


def test_findings_are_in_the_order_in_which_they_were_made() -> None:
    report = Report()
    report.ok("a", "well")
    report.warn("b", "so so", "do this")
    assert report.findings == [
        Finding(check="a", status=Status.OK, text="well"),
        Finding(check="b", status=Status.WARNING, text="so so", remedy="do this"),
    ]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([], Status.OK),
        (["ok"], Status.OK),
        (["ok", "unknown"], Status.UNKNOWN),
        (["unknown", "warn", "ok"], Status.WARNING),
        (["warn", "fail", "unknown"], Status.FAILED),
    ],
)
def test_the_worst_finding_decides(made: list[str], expected: Status) -> None:
    report = Report()
    for name in made:
        report.ok("x", "y") if name == "ok" else getattr(report, name)("x", "y", "z")
    assert worst(report.findings) is expected


def test_only_the_named_errors_are_findings() -> None:
    report = Report()
    with report.checking("files", "try again", OSError):
        raise FileNotFoundError("gone")
    assert report.findings == [
        Finding(check="files", status=Status.FAILED, text="FileNotFoundError: gone", remedy="try again")
    ]
    with pytest.raises(KeyError), report.checking("files", "try again", OSError):
        raise KeyError("a bug is no finding")


def test_counts_have_their_noun() -> None:
    assert [counted(1, "group"), counted(0, "group"), counted(1200, "group")] == ["1 group", "0 groups", "1,200 groups"]
