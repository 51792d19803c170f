"""The tables of the job ``commit_history``, made from a scan of ``__consumer_offsets``. DataFrames only, no I/O."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.schemas import COMMIT_GROUP_SCHEMA, COMMIT_SCHEMA

_METADATA = ("group_type", "protocol_type", "protocol", "generation", "leader", "members", "state_changed_at")


def commits() -> Transform:
    """Keep the commits of a scan."""

    def keep(scanned: DataFrame) -> DataFrame:
        return scanned.where("kind = 'commit'").select(*COMMIT_SCHEMA.names)

    return keep


def groups() -> Transform:
    """Build one row for each group in a scan, from its own record and its commits.

    ``quiet_since`` is the later of the last commit and the last state change; null unless the log proves that the group
    has no members: a classic group without members, or one that never had any.
    """

    def combine(scanned: DataFrame) -> DataFrame:
        committed = (
            scanned.where("kind = 'commit'")
            .groupBy("group_id")
            .agg(
                F.count("*").alias("partitions"),
                F.min("committed_at").alias("first_commit_at"),
                F.max("committed_at").alias("last_commit_at"),
            )
        )
        # A group may have changed its protocol: the record written last counts.
        own = (
            scanned.where("kind = 'group'")
            .groupBy("group_id")
            .agg(F.max(F.struct("recorded_at", *_METADATA)).alias("own"))
            .select("group_id", *(F.col(f"own.{name}").alias(name) for name in _METADATA))
        )
        without_members = F.col("group_type").isNull() | ((F.col("group_type") == "classic") & (F.col("members") == 0))
        quiet = F.when(without_members, F.greatest("last_commit_at", "state_changed_at"))
        joined = committed.join(own, "group_id", "full_outer").withColumns(
            {"partitions": F.coalesce("partitions", F.lit(0)), "quiet_since": quiet}
        )
        return joined.select(*(F.col(field.name).cast(field.dataType) for field in COMMIT_GROUP_SCHEMA))

    return combine
