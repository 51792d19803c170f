"""Slices take from all partitions, every offset is in one of them, and a transform is told which it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_kafka_groups.observe.offset_values import Range
from airflow_kafka_groups.spark.unread.ranges import Backlog, cut, merged, overlap, with_context
from tests.unit.spark.unread.scene import A0, A1, B0, BACKLOG

pytestmark = pytest.mark.safety


def test_slices_take_from_all_partitions_and_hold_every_offset_once() -> None:
    found = cut(BACKLOG, 4)
    assert [one.ranges for one in found] == [
        (Range(A0, 4, 7), Range(A1, 0, 1)),
        (Range(A0, 7, 9), Range(A1, 1, 3)),
        (Range(A0, 9, 10),),
    ]
    assert [one.ends for one in found] == [{A0: 7, A1: 1}, {A0: 9, A1: 3}, {A0: 10, A1: 3, B0: 9}]
    assert [one.number for one in found] == [1, 2, 3]
    assert cut(BACKLOG, 0) == cut(BACKLOG, 9) == cut(BACKLOG, 100)
    (whole,) = cut(BACKLOG, 0)
    assert (whole.ranges, whole.ends) == (BACKLOG.ranges, BACKLOG.ends)
    (nothing,) = cut(Backlog(ranges=(), ends={B0: 9}), 4)
    assert (nothing.ranges, nothing.ends) == ((), {B0: 9})


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8])
def test_no_slice_is_larger_than_asked_for(size: int) -> None:
    found = cut(BACKLOG, size)
    assert all(sum(each.offsets for each in one.ranges) <= size for one in found)
    assert merged(each for one in found for each in one.ranges) == list(BACKLOG.ranges)


def test_ranges_are_merged_and_intersected() -> None:
    assert merged([Range(A0, 4, 6), Range(A0, 0, 4), Range(A1, 1, 2)]) == [Range(A0, 0, 6), Range(A1, 1, 2)]
    assert overlap([Range(A0, 4, 10)], [Range(A0, 0, 5), Range(A0, 9, 12), Range(A1, 4, 10)]) == [
        Range(A0, 4, 5),
        Range(A0, 9, 10),
    ]


def old(records: str) -> list[str]:
    return [records]


def old_with_an_option(records: str, option: str = "mine") -> list[str]:
    return [records, option]


def new(records: str, context: Any) -> list[Any]:
    return [records, context]


def new_with_another_name(records: str, about: Any) -> list[Any]:
    return [records, about]


def new_by_name(records: str, option: str = "mine", *, context: Any = None) -> list[Any]:
    return [records, option, context]


def anything(*given: Any, **more: Any) -> list[Any]:
    return [*given, more]


@pytest.mark.parametrize(
    ("function", "gets"),
    [
        (old, ["r"]),
        (old_with_an_option, ["r", "mine"]),
        (new, ["r", "c"]),
        (new_with_another_name, ["r", "c"]),
        (new_by_name, ["r", "mine", "c"]),
        (partial(new_by_name, option="other"), ["r", "other", "c"]),
        (anything, ["r", {}]),
        (list, ["r"]),
    ],
)
def test_a_transform_gets_the_context_if_it_takes_it(function: Callable[..., Any], gets: list[Any]) -> None:
    context: Any = "c"
    assert with_context(function)("r", context) == gets
