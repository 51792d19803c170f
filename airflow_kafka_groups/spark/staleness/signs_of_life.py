"""Signs of life in incomplete snapshots: they end an idle time, and never make one longer.

A snapshot is incomplete when a broker did not answer the listing. What it lacks means nothing; what it shows counts,
as docs/spark/judge-staleness.md says: the next complete snapshot then begins a new idle time. An error in it is no
sign, since the groups of a broker that is down have one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from pyspark.sql import DataFrame

from airflow_kafka_groups.contracts.group_states import GroupState
from airflow_kafka_groups.spark.frames import in_list, query

COMMITTED = ("partitions", "digest_xor", "digest_sum")
"""What a group had committed, over all its partitions."""

KIND = ("group_type", "protocol_type")
"""What a group is: another value means another group of the same name."""

_GLIMPSE = ("observed_at", "error", "state", "members", *KIND, *COMMITTED)


def positions(snapshot_ids: Sequence[str], incomplete_ids: Sequence[str]) -> dict[str, int]:
    """Return the position of the complete snapshot that follows each incomplete one."""
    return {name: bisect(snapshot_ids, name) for name in incomplete_ids}


def with_glimpses(observed: DataFrame, glimpsed: DataFrame) -> DataFrame:
    """Add ``glimpses``: what incomplete snapshots show of each group; null for a group that none of them shows.

    :param observed: observations in complete snapshots.
    :param glimpsed: observations in incomplete snapshots before them, with the position of the complete one after it.
    """
    return query(
        f"""
        SELECT * FROM {{observed}} LEFT JOIN (
            SELECT group_id, sequence, collect_list(struct({", ".join(_GLIMPSE)})) AS glimpses
            FROM {{glimpsed}} GROUP BY group_id, sequence
        ) USING (group_id, sequence)
        """,
        observed=observed,
        glimpsed=glimpsed,
    )


def sign_at(before: str) -> str:
    """Return in SQL when ``glimpses`` last show the group alive, null if they never do.

    :param before: a struct column with what the complete snapshot before them shows: ``readable``, ``KIND`` and
        ``COMMITTED``; null for a group that it lacks.
    """
    other = [f"g.{name} != {before}.{name}" for name in KIND]
    other += [f"({before}.readable AND g.{name} != {before}.{name})" for name in COMMITTED]
    alive = f"""
        coalesce(g.members, 0) != 0
        OR g.state NOT IN {in_list((GroupState.EMPTY, GroupState.UNKNOWN))}
        OR coalesce(g.error IS NULL AND (g.state != '{GroupState.EMPTY}' OR {" OR ".join(other)}), false)
    """
    return f"array_max(transform(filter(glimpses, g -> {alive}), g -> g.observed_at))"
