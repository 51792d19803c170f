"""What verdicts and outcomes are called on a page."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.report.page import counted, part


@pytest.mark.parametrize(
    ("name", "words"),
    [("by_rule", "kept by a rule"), ("over_cap", "over the cap"), ("notice", "notice period"), ("live", "live")],
)
def test_a_verdict_is_said_in_words(name: str, words: str) -> None:
    page = part("not_done", [("g", name, "why")], 1, "", False)
    assert f'<span class="pill {name}">{words}</span>' in page
    assert counted({name: 1_200}) == f"{words} 1,200"
