"""Signs of life in incomplete snapshots: they end an idle time, and never make one longer.

A snapshot is incomplete when a broker did not answer the listing. What it lacks means nothing; what it shows counts: a
group with members, in a state other than Empty, of another kind, or with other offsets than the complete snapshot
before it had is alive. The next complete snapshot then begins a new idle time, as after a complete snapshot that shows
the same. An incomplete snapshot is no observation itself: groups without a sign of life are judged as if it did not
exist. An error in it is no sign, since the groups of a broker that is down have one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts.group_states import GroupState

COMMITTED = ("partitions", "digest_xor", "digest_sum")
"""What a group had committed, over all its partitions."""

KIND = ("group_type", "protocol_type")
"""What a group is: another value means another group of the same name."""

BY_GROUP = ("group_id", "sequence")
"""What identifies an observation; the position of an incomplete snapshot is that of the complete one after it."""

_GLIMPSE = ("observed_at", "error", "state", "members", *KIND, *COMMITTED)
_NO_SIGNS = (GroupState.EMPTY.value, GroupState.UNKNOWN.value)


def positions(snapshot_ids: Sequence[str], incomplete_ids: Sequence[str]) -> dict[str, int]:
    """Return the position of the complete snapshot that follows each incomplete one."""
    return {name: bisect(snapshot_ids, name) for name in incomplete_ids}


def with_glimpses(observed: DataFrame, glimpsed: DataFrame) -> DataFrame:
    """Add ``glimpses``: what incomplete snapshots show of each group; null for a group that none of them shows.

    :param observed: observations in complete snapshots.
    :param glimpsed: observations in incomplete snapshots before them.
    """
    shown = F.collect_list(F.struct(*_GLIMPSE))
    return observed.join(glimpsed.groupBy(*BY_GROUP).agg(shown.alias("glimpses")), [*BY_GROUP], "left")


def sign_at(before: str) -> Column:
    """Return when ``glimpses`` last show the group alive, null if they never do.

    :param before: a struct column with what the complete snapshot before them shows: ``readable``, ``KIND`` and
        ``COMMITTED``; null for a group that it lacks.
    """
    alive = F.filter("glimpses", lambda glimpse: _is_alive(glimpse, F.col(before)))
    return F.array_max(F.transform(alive, lambda glimpse: glimpse["observed_at"]))


def _is_alive(glimpse: Column, before: Column) -> Column:
    read = glimpse["error"].isNull()
    in_use = (F.coalesce(glimpse["members"], F.lit(0)) != 0) | ~glimpse["state"].isin(*_NO_SIGNS)
    differs = glimpse["state"] != GroupState.EMPTY.value
    for name in KIND:
        differs = differs | (glimpse[name] != before[name])
    for name in COMMITTED:
        differs = differs | (before["readable"] & (glimpse[name] != before[name]))
    return in_use | F.coalesce(read & differs, F.lit(False))
