"""A wrong answer counts for nothing in the figures of docs/benchmarks.md."""

from typing import Any

import pytest

from tests.bench.cluster import CHECKSUM_OF_GROUP
from tests.bench.process import Answer, PeerError
from tests.bench.results import PeerResult, ratios
from tests.bench.runner import check
from tests.bench.scenarios import Scenario

RIGHT: dict[str, Any] = {"groups": 10_000, "offsets": 200_000, "checksum": 10_000 * CHECKSUM_OF_GROUP, "errors": 0}


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
    scenario = Scenario("list_offsets", "4x", 10_000)
    check(scenario, Answer(seconds=1.0, read_seconds=0.1, **RIGHT))
    with pytest.raises(PeerError, match=message):
        check(scenario, Answer(seconds=1.0, read_seconds=0.1, **(RIGHT | changed)))


def test_ratios_are_of_medians_and_who_failed_has_none() -> None:
    ours, java = PeerResult("ours", warm=[0.5, 0.6, 9.0]), PeerResult("java", warm=[2.0, 2.4, 9.0])
    failed = PeerResult("confluent", failed="3 errors", warm=[0.001])
    found = ratios({"ours": ours, "java": java, "confluent": failed})
    assert (found["java_warm"], found["best_peer_warm"]) == (0.25, 0.25)
    assert not [name for name in found if name.startswith("confluent")]
    assert ratios({"ours": PeerResult("ours", failed="wrong", warm=[1.0]), "java": java}) == {}
