"""Medians, spreads and ratios."""

from __future__ import annotations

import pytest

from tests.bench.stats import Spread, ratio, spread


def test_an_outlier_moves_neither_the_median_nor_the_quartiles() -> None:
    found = Spread((1.0, 2.0, 3.0, 4.0, 100.0))
    assert found.median == 3.0
    assert found.iqr == 2.0
    assert found.as_json() == {"median": 3.0, "min": 1.0, "max": 100.0, "iqr": 2.0, "samples": [1, 2, 3, 4, 100]}


def test_one_sample_has_no_spread_and_none_is_refused() -> None:
    assert Spread((2.5,)).iqr == 0.0
    assert spread([]) is None
    with pytest.raises(ValueError, match="at least one"):
        Spread(())


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [(1.0, 4.0, 0.25), (4.0, 1.0, 4.0), (None, 1.0, None), (1.0, None, None), (1.0, 0.0, None)],
)
def test_a_ratio_is_ours_divided_by_theirs(ours: float | None, theirs: float | None, expected: float | None) -> None:
    assert ratio(ours, theirs) == expected
