"""The tables of the job ``commit_history``, made from a scan of ``__consumer_offsets``. DataFrames only, no I/O."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.schemas import COMMIT_GROUP_SCHEMA, COMMIT_SCHEMA

_METADATA = "group_type, protocol_type, protocol, generation, leader, members, state_changed_at"
_OF_GROUP = (
    "count_if(kind = 'commit') AS partitions",
    "min(committed_at) AS first_commit_at",
    "max(committed_at) AS last_commit_at",
    # A group may have changed its protocol: the record written last counts.
    f"max(struct(recorded_at, {_METADATA})) FILTER (WHERE kind = 'group') AS own",
)
_QUIET = """
CASE WHEN group_type IS NULL OR (group_type = 'classic' AND members = 0)
     THEN greatest(last_commit_at, state_changed_at) END AS quiet_since
"""


def commits(scanned: DataFrame) -> DataFrame:
    """Keep the commits of a scan."""
    return scanned.where("kind = 'commit'").select(*COMMIT_SCHEMA.names)


def groups(scanned: DataFrame) -> DataFrame:
    """Build one row for each group in a scan, from its own record and its commits.

    ``quiet_since`` is the later of the last commit and the last state change; null unless the log proves that the group
    has no members: a classic group without members, or one that never had any.
    """
    by_group = scanned.where("kind IN ('commit', 'group')").groupBy("group_id").agg(*map(F.expr, _OF_GROUP))
    return by_group.selectExpr("*", "own.*").selectExpr("*", _QUIET).select(*COMMIT_GROUP_SCHEMA.names)
