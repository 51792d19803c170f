"""Rows and names of groups that cannot be right: nothing is archived by them."""

from __future__ import annotations

import pytest

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.offset_values import Partition
from airflow_kafka_groups.spark.unread.request import read_groups
from tests.histories.shorthand import rows_of, seen

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("split", [False, True])
def test_a_group_with_two_commits_in_one_partition_is_refused(split: bool) -> None:
    """What is between the two would be in no archive, if the later one counted."""
    rows = [*seen(0, group="g", offsets={("t", 0): 5}), *seen(0, group="g", offsets={("t", 0): 50})]
    parts = [rows_of(rows[:1]), rows_of(rows[1:])] if split else [rows_of(rows)]
    with pytest.raises(JobError, match=r"'g' is there twice, with t\[0\] committed at 5 and 50: nothing was archived"):
        read_groups(parts, {"g"})
    assert read_groups([parts[0], parts[0]] if split else [rows_of([rows[0]] * 2)], {"g"})["g"][Partition("t", 0)]


@pytest.mark.parametrize("lacking", ["partition", "committed_offset"])
def test_a_row_that_lacks_a_partition_or_an_offset_is_no_commit(lacking: str) -> None:
    (row,) = seen(0, group="g", offsets={("t", 0): 5})
    with pytest.raises(JobError, match="'g' has a row of t without a partition or an offset: nothing was archived"):
        read_groups([rows_of([row | {lacking: None}])], {"g"})


def test_a_group_whose_name_is_no_utf8_is_not_in_the_snapshot() -> None:
    with pytest.raises(JobError, match=r"group '\\udcff' is not in the snapshot"):
        read_groups([rows_of(seen(0))], {"\udcff"})
