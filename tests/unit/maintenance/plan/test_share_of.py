"""A share of all groups is rounded down, as docs/formats.md says: never one group more than it allows."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.maintenance.plan.caps import share_of


@pytest.mark.safety
@pytest.mark.parametrize(("share", "groups", "allowed"), [(0.9999999999, 3, 2), (0.333333333, 3, 0), (1e-10, 9, 0)])
def test_a_share_that_is_a_little_less_than_a_group_allows_none_more(share: float, groups: int, allowed: int) -> None:
    assert share_of(groups, share) == allowed


@given(st.integers(0, 300_000), st.decimals("0.000001", 1, places=6))
def test_a_share_counts_as_it_is_written(groups: int, share: Decimal) -> None:
    assert share_of(groups, float(share)) == math.floor(groups * share)
