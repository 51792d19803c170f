"""The lag of columns of partitions: the definition of ``kafka.admin.lag.partition_lag``, for many rows at once."""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.storage.arrow_values import literal


def lag_and_lost(committed: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """Return the records that are left to read, and those that were removed unread.

    Both are null where an offset is null, or the commit is beyond the end.

    :param committed: the committed offsets.
    :param start: the log starts. Retention may have moved one beyond ``end``, which was read before.
    :param end: the end offsets.
    """
    import pyarrow.compute as pc

    first = pc.max_element_wise(committed, start, skip_nulls=False)
    first = pc.min_element_wise(first, end, skip_nulls=False)
    is_within, none = pc.less_equal(committed, end), literal(None, first.type)
    return tuple(pc.if_else(is_within, pc.subtract(*pair), none) for pair in ((end, first), (first, committed)))
