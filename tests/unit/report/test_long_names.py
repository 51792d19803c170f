"""Families in the trend whose names differ only beyond what is shown of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_kafka_groups.report.trend_points import point_of
from tests.fakes.groups import NOW


def test_families_of_one_shown_name_are_counted_together() -> None:
    """The smallest took the place of the others: a family of 9,000 groups was shown with 2."""
    families = [
        {"name": f"{'x' * 100}{letter}-<uuid>", "groups": groups} for letter, groups in (("a", 9_000), ("b", 2))
    ]
    plan: Any = SimpleNamespace(plan_id="p", created_at=NOW, counts={}, families=families)
    (groups,) = point_of(plan, {}).families.values()
    assert groups == 9_002
