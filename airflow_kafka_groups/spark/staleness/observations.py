"""The reduction of a snapshot to observations: one row for each group, with what later judgements need of it.

What a group has committed becomes a digest over all its partitions: their number, and the exclusive-or and the sum of
their 64-bit hashes. It does not depend on the order of the rows, so nothing has to be sorted or collected. Equal
commits have equal digests; unequal ones differ, unless both the exclusive-or and the sum of the hashes collide.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.schemas import OBSERVATION_SCHEMA, SNAPSHOT_SCHEMA

_CONTRADICTION = "its rows in this snapshot contradict one another"
_DIGEST_BITS_DROPPED = 24  # of 64: the remaining 40 bits allow a sum over 8 million partitions in an int64


def observations(partitions: int = 1) -> Transform:
    """Reduce snapshot rows to one row for each (snapshot, group), with the columns of ``OBSERVATION_SCHEMA``.

    ``rows`` counts the rows read and ``invalid`` those without a required column, for the reader's checks.

    :param partitions: the number of partitions of the result; all observations of a snapshot are in one. 0 for rows
        that are in one already. Default 1.
    """
    required = [field.name for field in SNAPSHOT_SCHEMA if not field.nullable]
    invalid = F.lit(False)
    for name in required:
        invalid = invalid | F.col(name).isNull()
    committed = F.col("topic").isNotNull() & (F.col("committed_offset") >= 0)
    digest = F.xxhash64(
        "topic", "partition", "committed_offset", F.coalesce("leader_epoch", F.lit(-1)).alias("epoch"), "metadata"
    )
    behind = F.greatest(F.col("log_end") - F.col("committed_offset"), F.lit(0))
    ends_known = F.col("log_start").isNotNull() & F.col("log_end").isNotNull()
    above_start = F.col("committed_offset") - F.col("log_start")

    def reduce(rows: DataFrame) -> DataFrame:
        marked = rows.select(
            *("run_id", "group_id", "group_type", "protocol_type", "state", "error"),
            *("observed_at", "members", "coordinator"),
            invalid.alias("invalid"),
            F.when(committed, digest).alias("digest"),
            F.when(committed & F.col("log_end").isNotNull(), behind).alias("lag"),
            (committed & ~ends_known).alias("unknown"),
            F.when(committed & ends_known, F.greatest(-above_start, F.lit(0))).alias("lost"),
            F.when(committed, F.col("log_start")).alias("log_start"),
            F.when(committed, above_start).alias("nearest"),
        )
        # Strings are keys, not aggregates: Spark hash-aggregates only numbers, and would sort millions of rows
        # otherwise.
        keys = ["run_id", "group_id", "group_type", "protocol_type", "state", "error"]
        partial = marked.groupBy(*keys).agg(
            F.max("observed_at").alias("observed_at"),
            F.max("members").alias("members"),
            F.max("coordinator").alias("coordinator"),
            F.count("digest").alias("partitions"),
            F.coalesce(F.bit_xor("digest"), F.lit(0)).alias("digest_xor"),
            F.coalesce(F.sum(F.shiftrightunsigned("digest", _DIGEST_BITS_DROPPED)), F.lit(0)).alias("digest_sum"),
            *(F.try_sum(name).alias(name) for name in ("lag", "lost", "log_start")),
            F.min("nearest").alias("nearest"),
            F.count_if("unknown").alias("lag_unknown"),
            F.count("*").alias("rows"),
            F.count_if("invalid").alias("invalid"),
        )
        contradiction = F.lit(False)
        for name in ("group_type", "protocol_type", "state"):
            contradiction = contradiction | (F.min(name) != F.max(name))
        gathered = partial.repartition(partitions, "run_id") if partitions else partial
        observed = gathered.groupBy("run_id", "group_id").agg(
            *(F.max(name).alias(name) for name in ("observed_at", "group_type", "protocol_type", "state")),
            *(F.max(name).alias(name) for name in ("members", "coordinator")),
            *(F.sum(name).alias(name) for name in ("partitions", "digest_sum", "rows", "invalid", "lag_unknown")),
            F.bit_xor("digest_xor").alias("digest_xor"),
            *(F.try_sum(name).alias(name) for name in ("lag", "lost", "log_start")),
            F.min("nearest").alias("nearest"),
            F.coalesce(F.min("error"), F.when(contradiction, _CONTRADICTION)).alias("error"),
        )
        return observed.select(*OBSERVATION_SCHEMA.names)

    return reduce
