"""Names that somebody typed, with the planned groups of a family in place of its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from airflow_kafka_groups.change.plan.rulings import with_families
from airflow_kafka_groups.ledger.plan_rows import PlannedGroups


class Counted:
    """The columns of planned groups, of which each is counted as often as somebody takes it."""

    def __init__(self, size: int) -> None:
        self.size, self.taken = size, 0

    def column(self, name: str) -> Any:
        return self if name == "family" else [f"job-{number}" for number in range(self.size)]

    def __iter__(self) -> Iterator[str]:
        for _ in range(self.size):
            self.taken += 1
            yield "job-<number>"


def test_the_groups_of_a_plan_are_not_looked_through_for_each_name() -> None:
    """By count: who excludes the 10,000 groups of a plan one by one would wait for 100 million comparisons."""
    planned = Counted(50)
    names = [*(f"job-{number}" for number in range(40)), "x"]
    assert with_families(cast(PlannedGroups, planned), names) == names
    assert planned.taken <= 2 * 50
    members = [f"job-{number}" for number in range(50)]
    assert with_families(cast(PlannedGroups, planned), ["x", "job-<number>"]) == ["x", *members]
