"""The demo's own judgement can fail: a cluster on which something wrong was deleted is not called well."""

from __future__ import annotations

from typing import Any

import pytest

from tests.demo.outcome import Truth, summarise, table, wrongs

TRUTH = Truth(
    live=frozenset({"l1"}),
    moving=frozenset({"m1"}),
    stale=frozenset({"s1", "s2"}),
    protected=frozenset({"p1"}),
    share=frozenset({"x1"}),
)
KEPT = frozenset({"l1", "m1", "p1", "x1"})
COUNTS = {"found": 6, "live": 1, "moving": 1, "stale": 3, "protected": 0, "excluded": 1, "untouchable": 1, "planned": 2}


def audit(*deleted: str) -> dict[str, Any]:
    return {"outcomes": [{"group_id": group, "outcome": "deleted"} for group in deleted]}


def test_all_is_well_when_just_the_stale_groups_are_gone() -> None:
    summary = summarise({"counts": COUNTS}, audit("s1", "s2"), TRUTH, KEPT)
    assert wrongs(summary, TRUTH) == []
    assert (summary["deleted"], summary["verified"], summary["protected"]) == (2, 2, 1)
    assert "verified" in table(summary)


@pytest.mark.parametrize(("gone", "kind"), [("l1", "live"), ("m1", "moving"), ("p1", "protected"), ("x1", "share")])
def test_a_group_that_had_to_stay_and_is_gone_is_wrong(gone: str, kind: str) -> None:
    summary = summarise({"counts": COUNTS}, audit("s1", "s2"), TRUTH, KEPT - {gone})
    assert wrongs(summary, TRUTH) == [f"1 {kind} group(s) are gone"]


def test_a_stale_group_that_is_still_there_is_wrong() -> None:
    summary = summarise({"counts": COUNTS}, audit("s1", "s2"), TRUTH, KEPT | {"s2"})
    assert len(wrongs(summary, TRUTH)) == 2


def test_a_deletion_that_is_only_claimed_is_wrong() -> None:
    summary = summarise({"counts": COUNTS}, audit("s1"), TRUTH, KEPT)
    assert "1 deleted" in wrongs(summary, TRUTH)[0]
