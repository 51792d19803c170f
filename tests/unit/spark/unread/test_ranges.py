"""What to read of a group's backlog, on literal offsets; every case that is not plain is decided by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_kafka_groups.exceptions import ArgumentError, JobError
from airflow_kafka_groups.observe.offset_values import Commit, LogEnds, Partition, Range
from airflow_kafka_groups.spark.unread.ranges import (
    Backlog,
    BacklogPolicy,
    cut,
    merged,
    overlap,
    plan_backlog,
    with_context,
)
from tests.unit.spark.unread.scene import A0, A1, B0, BACKLOG


def plan(committed: dict[Partition, int], logs: dict[Partition, tuple[int, int]], **given: Any) -> Backlog:
    policy = BacklogPolicy(**{name: given.pop(name) for name in list(given) if name.startswith("on_")})
    return plan_backlog(
        {where: Commit(offset) for where, offset in committed.items()},
        {where: LogEnds(*ends) for where, ends in logs.items()},
        policy,
        **given,
    )


def test_what_lies_between_commit_and_end_is_read_and_nothing_else() -> None:
    found = plan({A0: 4, A1: 9, B0: 0}, {A0: (0, 10), A1: (2, 9), B0: (0, 0)})
    assert found.ranges == (Range(A0, 4, 10),)
    assert found.ends == {A0: 10, A1: 9, B0: 0}
    assert (found.counts()["offsets"], found.counts()["partitions_with_backlog"], found.decided) == (6, 1, ())


def test_the_ends_of_before_bound_the_read_but_never_take_a_commit_back() -> None:
    found = plan({A0: 4, A1: 9}, {A0: (0, 10), A1: (2, 12)}, until={A0: 7, A1: 3})
    assert found.ranges == (Range(A0, 4, 7),)
    assert found.ends == {A0: 7, A1: 9}


CASES = {
    "no commit": ({A0: 4}, {A0: (0, 5), A1: (1, 9)}, "on_no_commit", r"a\[1\] has no commit"),
    "data lost": ({A0: 4}, {A0: (6, 9)}, "on_data_loss", r"a\[0\] is committed at 4, and its log starts at 6"),
    "beyond the end": ({A0: 40}, {A0: (6, 9)}, "on_beyond_end", r"a\[0\] is committed at 40, beyond its end 9"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_plain_stops_the_job_and_names_the_option(case: str) -> None:
    committed, logs, name, said = CASES[case]
    with pytest.raises(JobError, match=rf"{said}.*Decide by --{name.replace('_', '-')} "):
        plan(committed, logs)


@pytest.mark.parametrize(
    ("case", "decision", "ranges", "ends"),
    [
        ("no commit", "from-start", (Range(A0, 4, 5), Range(A1, 1, 9)), {A0: 5, A1: 9}),
        ("no commit", "from-end", (Range(A0, 4, 5),), {A0: 5, A1: 9}),
        ("data lost", "skip-to-start", (Range(A0, 6, 9),), {A0: 9}),
        ("beyond the end", "from-start", (Range(A0, 6, 9),), {A0: 9}),
        ("beyond the end", "skip", (), {}),
    ],
)
def test_a_decision_is_followed_and_told(
    case: str, decision: str, ranges: tuple[Range, ...], ends: dict[Partition, int]
) -> None:
    committed, logs, name, _ = CASES[case]
    found = plan(committed, logs, **{name: decision})
    assert (found.ranges, found.ends) == (ranges, ends)
    assert decision in found.decided[0]
    assert found.lost == ({A0: 2} if decision == "skip-to-start" else {})


def test_a_topic_that_is_gone_stops_the_job_or_is_left_out() -> None:
    with pytest.raises(JobError, match=r"b\[0\] does not exist any more. Decide by --on-missing-topic skip"):
        plan({A0: 4, B0: 1}, {A0: (0, 5)}, missing={B0})
    assert plan({A0: 4, B0: 1}, {A0: (0, 5)}, missing={B0}, on_missing_topic="skip").ends == {A0: 5}


def test_a_partition_without_known_ends_is_never_guessed() -> None:
    with pytest.raises(JobError, match=r"the ends of b\[0\] are not known"):
        plan({A0: 4, B0: 1}, {A0: (0, 5)})


def test_all_objections_come_at_once() -> None:
    with pytest.raises(JobError, match=r"on-data-loss.*on-no-commit"):
        plan({A0: 4}, {A0: (6, 9), A1: (0, 1)})


def test_a_decision_that_is_not_known_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"--on-data-loss \(got 'ignore'\): give one of fail, skip-to-start"):
        BacklogPolicy(on_data_loss="ignore")


@pytest.mark.safety
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


@pytest.mark.safety
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8])
def test_no_slice_is_larger_than_asked_for(size: int) -> None:
    found = cut(BACKLOG, size)
    assert all(sum(each.offsets for each in one.ranges) <= size for one in found)
    assert merged(each for one in found for each in one.ranges) == list(BACKLOG.ranges)


@pytest.mark.safety
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


def new_by_name(records: str, option: str = "mine", *, context: Any = None) -> list[Any]:
    return [records, option, context]


def anything(*given: Any, **more: Any) -> list[Any]:
    return [*given, more]


@pytest.mark.safety
@pytest.mark.parametrize(
    ("function", "gets"),
    [
        (old, ["r"]),
        (old_with_an_option, ["r", "mine"]),
        (new, ["r", "c"]),
        (new_by_name, ["r", "mine", "c"]),
        (partial(new_by_name, option="other"), ["r", "other", "c"]),
        (anything, ["r", {}]),
    ],
)
def test_a_transform_gets_the_context_if_it_takes_it(function: Callable[..., Any], gets: list[Any]) -> None:
    context: Any = "c"
    assert with_context(function)("r", context) == gets
