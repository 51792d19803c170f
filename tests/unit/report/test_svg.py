from __future__ import annotations

import re

from airflow_kafka_groups.report.svg import Series, bars, columns

EVIL = '<b onclick="x">'


def heights(svg: str, kind: str) -> list[float]:
    return [float(value) for value in re.findall(rf'<rect class="{kind}"[^>]* height="([\d.]+)"><title>', svg)]


def test_columns_are_as_high_as_their_share_and_stand_on_one_another() -> None:
    svg = columns("Groups", ["a", "b"], [Series("x", "c-x", [1, 4]), Series("y", "c-y", [1, 0])])
    assert heights(svg, "c-x") == [37.0, 148.0]
    assert heights(svg, "c-y") == [37.0]
    assert re.findall(r'class="value"[^>]*>([^<]*)<', svg) == ["2", "4"]
    assert 'aria-label="Groups: 6 groups, most in b: 4"' in svg


def test_of_many_columns_some_are_labelled_and_the_highest_has_its_value() -> None:
    svg = columns("Groups", [f"l{n}" for n in range(30)], [Series("x", "c-x", [*range(1, 30), 12_345])])
    drawn = svg.partition("<details>")[0]
    assert re.findall(r">(l\d+)<", re.sub(r"<title>.*?</title>", "", drawn)) == ["l0", "l5", "l10", "l15", "l20", "l25"]
    assert re.findall(r'class="value"[^>]*>([^<]*)<', drawn) == ["12.3k"]


def test_every_number_is_in_the_table() -> None:
    svg = columns("Groups", ["a"], [Series("x", "c-x", [1_234_567]), Series("none", "c-y", [0])])
    table = svg.partition("<details>")[2]
    assert re.findall(r'<td class="num">([^<]*)<', table) == ["1,234,567", "0"]
    assert "none" not in svg.partition("<details>")[0], "what is nowhere needs no legend"


def test_bars_are_as_long_as_their_share_and_negative_parts_are_not_drawn() -> None:
    svg = bars(
        "Lag", ["a", "b"], [Series("now", "c-x", [30.0, 10.0]), Series("more", "c-y", [10.0, -5.0])], what="records"
    )
    assert re.findall(r'<rect class="(c-\w)" x="([\d.]+)%" width="([\d.]+)%"', svg.partition("<details>")[0]) == [
        ("c-x", "0.00", "75.00"),
        ("c-y", "75.00", "25.00"),
        ("c-x", "0.00", "25.00"),
    ]


def test_nothing_is_a_sentence() -> None:
    for svg in (columns("Groups", [], []), bars("Lag", ["a"], [Series("x", "c-x", [0])], what="records")):
        assert "Nothing to show." in svg
        assert "<svg" not in svg


def test_names_are_escaped_and_cut() -> None:
    label = EVIL + "x" * 5_000
    for svg in (
        columns("T", [label], [Series("x", "c-x", [1])]),
        bars("T", [label], [Series("x", "c-x", [1])], what="w"),
    ):
        assert "<b " not in svg
        assert len(svg) < 3_000
