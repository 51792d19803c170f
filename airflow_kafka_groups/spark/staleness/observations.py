"""The reduction of a snapshot to observations: one row for each group, with what later judgements need of it.

What a group has committed becomes a digest over all its partitions: their number, and the exclusive-or and the sum of
their 64-bit hashes. It does not depend on the order of the rows, so nothing has to be sorted or collected. Equal
commits have equal digests; unequal ones differ, unless both the exclusive-or and the sum of the hashes collide.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_kafka_groups.spark.frames import OBSERVATION_SCHEMA, SNAPSHOT_SCHEMA, query

_CONTRADICTION = "its rows in this snapshot contradict one another"
_DIGEST_BITS_DROPPED = 24  # of 64: the remaining 40 bits allow a sum over 8 million partitions in an int64
_INVALID = " OR ".join(f"{field.name} IS NULL" for field in SNAPSHOT_SCHEMA if not field.nullable)

# Strings are keys, not aggregates: Spark hash-aggregates only numbers, and would sort millions of rows otherwise.
_PARTIAL = f"""
WITH known AS (
    SELECT *, topic IS NOT NULL AND committed_offset >= 0 AS committed,
        log_start IS NOT NULL AND log_end IS NOT NULL AS ends_known
    FROM {{rows}}
), marked AS (
    SELECT run_id, group_id, group_type, protocol_type, state, error, observed_at, members, coordinator,
        {_INVALID} AS invalid,
        IF(committed, xxhash64(topic, partition, committed_offset, coalesce(leader_epoch, -1), metadata), NULL)
            AS digest,
        IF(committed AND log_end IS NOT NULL, greatest(log_end - committed_offset, 0), NULL) AS lag,
        committed AND NOT ends_known AS no_end,
        IF(committed AND ends_known, greatest(log_start - committed_offset, 0), NULL) AS lost,
        IF(committed, log_start, NULL) AS log_start,
        IF(committed, committed_offset - log_start, NULL) AS nearest
    FROM known
)
SELECT run_id, group_id, group_type, protocol_type, state, error,
    max(observed_at) AS observed_at, max(members) AS members, max(coordinator) AS coordinator,
    count(digest) AS partitions,
    coalesce(bit_xor(digest), 0) AS digest_xor,
    coalesce(sum(shiftrightunsigned(digest, {_DIGEST_BITS_DROPPED})), 0) AS digest_sum,
    try_sum(lag) AS lag, try_sum(lost) AS lost, try_sum(log_start) AS log_start,
    min(nearest) AS nearest, count_if(no_end) AS lag_unknown,
    count(*) AS rows, count_if(invalid) AS invalid
FROM marked
GROUP BY run_id, group_id, group_type, protocol_type, state, error
"""

_OBSERVED = f"""
WITH observed AS (
    SELECT run_id, group_id,
        max(observed_at) AS observed_at, max(group_type) AS group_type, max(protocol_type) AS protocol_type,
        max(state) AS state, max(members) AS members, max(coordinator) AS coordinator,
        sum(partitions) AS partitions, bit_xor(digest_xor) AS digest_xor, sum(digest_sum) AS digest_sum,
        try_sum(lag) AS lag, try_sum(lost) AS lost, try_sum(log_start) AS log_start,
        min(nearest) AS nearest, sum(lag_unknown) AS lag_unknown, sum(rows) AS rows, sum(invalid) AS invalid,
        coalesce(min(error), IF(
            min(group_type) != max(group_type) OR min(protocol_type) != max(protocol_type) OR min(state) != max(state),
            '{_CONTRADICTION}', NULL
        )) AS error
    FROM {{gathered}}
    GROUP BY run_id, group_id
)
SELECT {", ".join(OBSERVATION_SCHEMA.names)} FROM observed
"""


def observations(rows: DataFrame, partitions: int = 1) -> DataFrame:
    """Reduce snapshot rows to one row for each (snapshot, group), with the columns of ``OBSERVATION_SCHEMA``.

    ``rows`` counts the rows read and ``invalid`` those without a required column, for the reader's checks.

    :param partitions: the number of partitions of the result; all observations of a snapshot are in one. 0 for rows
        that are in one already. Default 1.
    """
    partial = query(_PARTIAL, rows=rows)
    return query(_OBSERVED, gathered=partial.repartition(partitions, "run_id") if partitions else partial)
