"""A share of all groups is rounded down, as docs/formats.md says: never one group more than it allows."""

from __future__ import annotations

import math
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.change.plan.caps import capped
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy, share_of
from airflow_kafka_groups.ledger.floors import SiteFloors


@pytest.mark.safety
@pytest.mark.parametrize(("share", "groups", "allowed"), [(0.9999999999, 3, 2), (0.333333333, 3, 0), (1e-10, 9, 0)])
def test_a_share_that_is_a_little_less_than_a_group_allows_none_more(share: float, groups: int, allowed: int) -> None:
    assert share_of(groups, share) == allowed


@given(st.integers(0, 300_000), st.decimals("0.000001", 1, places=6))
def test_a_share_counts_as_it_is_written(groups: int, share: Decimal) -> None:
    assert share_of(groups, float(share)) == math.floor(groups * share)


@pytest.mark.parametrize(("share", "shown"), [(0.9999999999, "0.9999999999"), (0.29, "0.29"), (1e-7, "1e-07")])
def test_a_share_is_shown_as_it_is_written(share: float, shown: str) -> None:
    """A message said of 3 of 3 groups that they are more than a max_share of 1 allows."""
    groups = [SimpleNamespace(group_id=f"g{n}", idle_seconds=1.0, rule=None, undecided=()) for n in range(3)]
    (warning,) = capped(groups, 3, PlanPolicy(max_share=share))[2]
    assert f"more than max_share {shown} allows" in warning
    with pytest.raises(PlanError, match=f"limits.refuse_share of {shown} allows"):
        capped(groups, 3, PlanPolicy(max_share=1.0, refuse_share=share))
    with pytest.raises(PlanError, match=f"the site's max_share is {shown}:"):
        SiteFloors(max_share=share).require_share(3, 3, dry_run=False)
