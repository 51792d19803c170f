"""The file of a plan's groups: what is read is what was written, whole or in part."""

import pytest

from airflow_kafka_groups.ledger import plan_rows as plan_body
from airflow_kafka_groups.ledger.plan_rows import (
    KeptGroup,
    KeptGroups,
    PlannedGroup,
    PlannedGroups,
    find_rows,
    read_columns,
    read_rows,
    write_rows,
)
from airflow_kafka_groups.storage.schemas import PLAN_COLUMNS
from tests.unit.change.plan.plans import group

GROUPS = [group(f"g{number}", lag=None if number == 1 else number, partitions=number) for number in (3, 1, 2)]
KEPT = [KeptGroup(group_id=name, verdict="live", reason="in use") for name in ("a", "b", "g1")]


def found_in(data: bytes, group_id: str) -> list[PlannedGroup | KeptGroup]:
    return find_rows(read_columns(data, [each.name for each in PLAN_COLUMNS]), group_id)


@pytest.mark.parametrize("size", [1, 2, 16_384])
def test_groups_are_read_in_their_order_and_may_be_kept_and_planned(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_body, "_ROW_GROUP", size)
    data = write_rows(PlannedGroups.of(GROUPS), KeptGroups.of(KEPT))
    assert read_rows(data) == (PlannedGroups.of(GROUPS), KeptGroups.of(KEPT))
    assert found_in(data, "g1") == [GROUPS[1], KEPT[2]]
    assert found_in(data, "elsewhere") == []


def test_a_plan_may_be_of_nothing() -> None:
    data = write_rows(PlannedGroups.of([]), KeptGroups.of([]))
    assert read_rows(data) == (PlannedGroups.of([]), KeptGroups.of([]))
    assert found_in(data, "g1") == []
