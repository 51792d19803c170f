"""The lag of columns and the lag of one partition: two forms of one definition."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_groups.kafka.admin.arrow import lag_and_lost
from airflow_kafka_groups.kafka.admin.lag import PartitionLag, partition_lag

OFFSET = st.one_of(st.none(), st.integers(0, 5), st.integers(2**63 - 3, 2**63 - 1))


@given(st.lists(st.tuples(OFFSET, OFFSET, OFFSET), max_size=5))
def test_columns_have_the_lag_of_each_partition(rows: list[tuple[int | None, int | None, int | None]]) -> None:
    lag, lost = lag_and_lost(*(pa.array([row[at] for row in rows], pa.int64()) for at in range(3)))
    single: list[PartitionLag] = [
        partition_lag(committed, None if start is None or end is None else (start, end))
        for committed, start, end in rows
    ]
    assert lag.to_pylist() == [each.messages for each in single]
    assert lost.to_pylist() == [None if each.messages is None else each.lost for each in single]
