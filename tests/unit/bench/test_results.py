"""From samples to a scenario's file, to the flat summary, to what has to be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.cluster import CHECKSUM_OF_GROUP
from tests.bench.process import Answer, PeerError
from tests.bench.report import BEGIN, END, put_between_markers, tables
from tests.bench.results import PeerResult, ratios, scenario_json
from tests.bench.runner import check
from tests.bench.scenarios import Scenario
from tests.bench.summary import flatten, judge, offsets_table

SCENARIO = Scenario("list_offsets", "4x", 10_000)
ENVIRONMENT = {
    "date": "2025-01-31",
    "processors": 2,
    "memory_gib": 8,
    "system": "Linux x86_64",
    "python": "3.12.1",
    "load_before": 0.5,
    "load_after": 2.0,
}


def measured(groups: int = 10_000, ours: float = 0.5, cold: float = 0.8) -> dict[str, Any]:
    peers = {
        "ours": PeerResult("ours", cold=[cold], warm=[ours, ours + 0.1, ours - 0.1], read=[0.1], peak_mb=90.0),
        "franz_go": PeerResult("franz_go", cold=[1.6], warm=[1.0, 1.1, 0.9], read=[0.2]),
        "java": PeerResult("java", cold=[4.0], warm=[2.0, 1.0, 3.0]),
        "kafka_python": PeerResult("kafka_python", failed="3 errors", warm=[0.001]),
        "confluent": PeerResult("confluent", skipped="skipped: too slow"),
    }
    peers["ours"].traffic = {"cold": _traffic(56), "warm": _traffic(51)}
    return scenario_json(Scenario("list_offsets", "4x", groups), peers, ENVIRONMENT)


def _traffic(requests: int) -> Mapping[str, Any]:
    by_api = {"OffsetFetch": requests}
    return {"requests": requests, "by_api": by_api, "bytes_sent": 10, "bytes_received": 20, "connections": 4}


def test_ratios_compare_medians_warm_with_warm_and_cold_with_cold() -> None:
    found = measured()["ratios"]
    assert found["franz_go"] == 0.5
    assert found["java_warm"] == 0.25
    assert found["java"] == 0.2
    assert found["best_peer"] == 0.5
    assert found["best_peer_warm"] == 0.5


def test_reading_the_result_is_compared_as_well() -> None:
    assert measured()["ratios"]["franz_go_with_reading"] == 0.5


def test_who_failed_or_was_skipped_has_no_ratio_and_is_no_best_peer() -> None:
    assert not [name for name in measured()["ratios"] if name.startswith(("kafka_python", "confluent"))]
    assert (
        ratios({"ours": PeerResult("ours", failed="wrong", warm=[1.0]), "java": PeerResult("java", warm=[1.0])}) == {}
    )


def test_a_file_says_why_a_peer_has_no_figures() -> None:
    peers = measured()["peers"]
    assert peers["confluent"] == {"status": "skipped", "reason": "skipped: too slow", "version": ""}
    assert (peers["kafka_python"]["status"], peers["kafka_python"]["reason"]) == ("failed", "3 errors")


def test_the_summary_is_flat() -> None:
    flat = flatten([measured()])
    assert flat["list_offsets.4x.10000.seconds"] == 0.5
    assert flat["list_offsets.4x.10000.seconds_java"] == 2.0
    assert flat["list_offsets.4x.10000.peak_mb"] == 90.0
    assert flat["list_offsets.4x.10000.requests"] == 56
    assert flat["list_offsets.4x.10000.requests_warm"] == 51
    assert flat["list_offsets.4x.10000.ratio_franz_go"] == 0.5
    assert "list_offsets.4x.10000.seconds_kafka_python" not in flat
    assert all(isinstance(value, int | float) for value in flat.values())


def test_growth_needs_both_sizes() -> None:
    name = "list_offsets.4x.growth_10000_to_50000"
    assert name not in flatten([measured()])
    assert flatten([measured(), measured(50_000, ours=2.6)])[name] == 5.2


def test_what_has_to_be_reached_is_judged_by_the_summary() -> None:
    verdicts = {target.name: reached for target, _, reached in judge(flatten([measured()]))}
    assert verdicts["list_offsets.4x.10000.ratio_franz_go"] is True
    assert verdicts["delete.4x.10000.ratio_confluent"] is None
    slow = {target.name: reached for target, _, reached in judge(flatten([measured(cold=1.5)]))}
    assert slow["list_offsets.4x.10000.ratio_franz_go"] is False


def test_the_first_table_has_a_row_for_each_client_and_size() -> None:
    table = offsets_table([measured(1_000), measured(10_000), measured(50_000)])
    rows = {(row["groups"], row["client"]): row for row in table["rows"]}
    assert {groups for groups, _ in rows} == {1_000, 10_000}
    assert rows[10_000, "franz_go"]["times_ours"] == 2.0
    assert rows[10_000, "confluent"]["reason"] == "skipped: too slow"


def test_the_page_keeps_what_is_around_the_markers() -> None:
    page = put_between_markers(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new")
    assert page == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"
    with pytest.raises(ValueError, match="no <!-- results"):
        put_between_markers("no markers", "new")


def test_tables_show_ours_theirs_and_who_was_left_out() -> None:
    scenarios = [measured()]
    text = tables(scenarios, flatten(scenarios))
    assert "Measured on 2025-01-31: 2 processors, 8 GiB, Linux x86_64, Python 3.12.1." in text
    assert "| 4.1.0 | 10,000 | **0.50 (0.80)** | 1.00 (1.60) | 2.00 (4.00) | failed | left out |" in text
    assert "| List offsets, 4.1.0 | 10,000 | 51 (56) |  |  |  |  |" in text
    assert "- confluent-kafka, `list_offsets.4x.10000`: too slow." in text
    assert "- kafka-python, `list_offsets.4x.10000`: failed: 3 errors." in text


def _answer(**changed: Any) -> Answer:
    right = {"groups": 10_000, "offsets": 200_000, "checksum": 10_000 * CHECKSUM_OF_GROUP, "errors": 0}
    return Answer(seconds=1.0, read_seconds=0.1, **(right | changed))


def test_a_complete_answer_passes() -> None:
    check(SCENARIO, _answer())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"errors": 2, "error": "boom"}, "2 errors, the first: boom"),
        ({"groups": 9_999}, "9,999 groups of 10,000"),
        ({"offsets": 199_999}, "199,999 offsets, and 200,000 are committed"),
        ({"checksum": 1}, "other offsets"),
    ],
)
def test_a_short_or_wrong_answer_counts_for_nothing(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(PeerError, match=message):
        check(SCENARIO, _answer(**changed))
