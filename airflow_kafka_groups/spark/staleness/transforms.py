"""The judgement of consumer groups by their history: snapshot rows in, one verdict per group out. No I/O.

Theory of operation. A snapshot is large (groups x partitions) and a history has many, so the rows are reduced first:

1. ``observations`` reduces them to one row per (snapshot, group). The commits become a digest that is independent of
   the order of the rows, so that nothing has to be sorted or collected.
2. ``numbered`` adds each snapshot's position in the history. A position without the group ends its *life*: whatever
   comes later is another group with the same name.
3. ``with_idle_runs`` processes each life in order. A *quiet* observation is read without error, ``Empty`` and without
   members. A run of quiet observations is ended by every doubt: an observation that is not quiet, a gap longer than
   allowed, a clock that went backwards, another group type or protocol type, and a sign of life in an incomplete
   snapshot (``signs_of_life.py``).
4. ``newest`` keeps the last observation of each group: the *state*, which is everything that later snapshots need.
   ``advance.py`` updates a state by one snapshot, without the history.
5. ``with_idle_times`` measures, ``forecasts.py`` adds forecasts, and ``verdicts.py`` decides, without the forecasts, in
   the order of docs/formats.md.

Every doubt means keep. Any difference in the committed offsets of two observations is movement: offset, leader epoch or
metadata, forwards or backwards. A commit of the same offset with other metadata is a sign of life.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.schemas import SNAPSHOT_SCHEMA, STATE_SCHEMA
from airflow_kafka_groups.spark.staleness.forecasts import all_ends_known, with_forecasts
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.signs_of_life import COMMITTED, KIND, positions, sign_at, with_glimpses
from airflow_kafka_groups.spark.staleness.verdicts import with_verdicts, without_members

_CONTRADICTION = "its rows in this snapshot contradict one another"
_DIGEST_BITS_DROPPED = 24  # of 64: the remaining 40 bits allow a sum over 8 million partitions in an int64


def observations() -> Transform:
    """Reduce snapshot rows to one row for each (snapshot, group).

    ``rows`` counts the rows read and ``invalid`` those without a required column, for the reader's checks.
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
        return partial.groupBy("run_id", "group_id").agg(
            *(F.max(name).alias(name) for name in ("observed_at", "group_type", "protocol_type", "state")),
            *(F.max(name).alias(name) for name in ("members", "coordinator")),
            *(F.sum(name).alias(name) for name in ("partitions", "digest_sum", "rows", "invalid", "lag_unknown")),
            F.bit_xor("digest_xor").alias("digest_xor"),
            *(F.try_sum(name).alias(name) for name in ("lag", "lost", "log_start")),
            F.min("nearest").alias("nearest"),
            F.coalesce(F.min("error"), F.when(contradiction, _CONTRADICTION)).alias("error"),
        )

    return reduce


def numbered(positions_of: Mapping[str, int]) -> Transform:
    """Keep the observations of these snapshots and add ``sequence``, the snapshot's position.

    :param positions_of: the position of each snapshot in the history.
    """

    def number(observed: DataFrame) -> DataFrame:
        places = observed.sparkSession.createDataFrame(list(positions_of.items()), "run_id string, sequence int")
        return observed.join(F.broadcast(places), "run_id")

    return number


def with_lives() -> Transform:
    """Add ``life``, which increases whenever a group returns after a snapshot without it."""

    def live(observed: DataFrame) -> DataFrame:
        by_group = Window.partitionBy("group_id").orderBy("sequence")
        absent = F.col("sequence") - F.lag("sequence").over(by_group) > 1
        births = observed.withColumn("birth", F.when(absent, 1).otherwise(0))
        return births.withColumn("life", F.sum("birth").over(by_group)).drop("birth")

    return live


def with_idle_runs(policy: StalenessPolicy) -> Transform:
    """Add the values of each life up to each observation: first seen, empty since, last moved, and their positions.

    :param policy: its ``max_gap_seconds`` decides which observations are consecutive.
    """
    by_life = Window.partitionBy("group_id", "life").orderBy("sequence")
    earlier = by_life.rowsBetween(Window.unboundedPreceding, -1)
    so_far = by_life.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    readable = F.col("error").isNull()
    elapsed = F.unix_micros("observed_at") - F.unix_micros(F.lag("observed_at").over(by_life))
    watched = elapsed >= 0
    if policy.max_gap_micros:
        watched = watched & (elapsed <= policy.max_gap_micros)
    same_kind = F.lit(True)
    for name in KIND:
        same_kind = same_kind & (F.col(name) == F.lag(name).over(by_life))
    alive_before, seen_before = F.max("sign_at").over(earlier), F.lag("observed_at").over(by_life)
    no_sign = F.col("sign_at").isNull() & F.coalesce(alive_before < seen_before, F.lit(True))
    committed = F.struct("partitions", "digest_xor", "digest_sum")
    committed_before = F.last(F.when(readable, committed), ignorenulls=True).over(earlier)

    previous = F.struct("error", *KIND, *(F.col(now).alias(name) for name, now in COMMITTED.items()))

    def run(observed: DataFrame) -> DataFrame:
        signs = observed.withColumn("before", F.lag(previous).over(by_life)).withColumn("sign_at", sign_at("before"))
        marked = signs.withColumn("quiet", readable & without_members()).withColumns(
            {
                "moved": readable & committed_before.isNotNull() & (committed != committed_before),
                "unbroken": F.coalesce(watched & same_kind & no_sign & F.lag("quiet").over(by_life), F.lit(False)),
            }
        )
        starts, moved = F.col("quiet") & ~F.col("unbroken"), F.col("moved")

        def latest(column: str, when: Column) -> Column:
            return F.last(F.when(when, F.col(column)), ignorenulls=True).over(so_far)

        # A stretch is an idle time, or a single observation outside of one.
        begins = ~F.col("quiet") | starts | moved
        stretches = marked.withColumn("stretch", F.sum(F.when(begins, 1).otherwise(0)).over(so_far))
        ends = ("observed_at", "lag", "log_start")
        first = F.first(F.when(all_ends_known(), F.struct(*ends)), ignorenulls=True).over(so_far)
        earliest = (-F.col("sequence")).alias("earliest")
        first_of_newest = F.max(F.when(all_ends_known(), F.struct("stretch", earliest, *ends))).over(so_far)
        return stretches.withColumns(
            {
                "first_seen_at": F.first("observed_at").over(so_far),
                "empty_since": F.when(F.col("quiet"), latest("observed_at", starts)),
                "last_moved_at": latest("observed_at", moved),
                "idle_from": F.when(F.col("quiet"), F.greatest(latest("sequence", starts), latest("sequence", moved))),
                "committed": F.last(F.when(readable, committed), ignorenulls=True).over(so_far),
                "alive_at": F.max("sign_at").over(so_far),
                "first_ends": first,
                "idle_ends": first_of_newest,
            }
        )

    return run


def newest(sequence: int) -> Transform:
    """Keep the groups of the newest snapshot, with the columns of a state.

    :param sequence: position of the newest snapshot.
    """

    def keep(runs: DataFrame) -> DataFrame:
        of_this_time = F.col("quiet") & (F.col("idle_ends.stretch") == F.col("stretch"))
        idle_ends = {
            name: F.when(of_this_time, F.col(f"idle_ends.{now}"))
            for name, now in (("idle_lag_at", "observed_at"), ("idle_lag", "lag"), ("idle_log_start", "log_start"))
        }
        last = runs.where(F.col("sequence") == sequence).withColumns(
            {
                **idle_ends,
                "life_lag_at": F.col("first_ends.observed_at"),
                "life_lag": F.col("first_ends.lag"),
                "observations": F.coalesce(F.col("sequence") - F.col("idle_from") + 1, F.lit(0)),
                "committed_partitions": F.col("committed.partitions"),
                "committed_xor": F.col("committed.digest_xor"),
                "committed_sum": F.col("committed.digest_sum"),
            }
        )
        return last.select(*(F.col(field.name).cast(field.dataType) for field in STATE_SCHEMA))

    return keep


def with_idle_times() -> Transform:
    """Add since when, and how long, each group of a state is idle."""
    idle = F.when(F.col("empty_since").isNotNull(), F.greatest("empty_since", "last_moved_at"))
    idle_micros = F.unix_micros("observed_at") - F.unix_micros("idle_since")

    def measure(state: DataFrame) -> DataFrame:
        return state.withColumn("idle_since", idle).withColumns(
            {
                "idle_micros": F.when(F.col("idle_since").isNotNull(), F.greatest(idle_micros, F.lit(0))),
                "moved_micros": F.unix_micros("observed_at") - F.unix_micros("last_moved_at"),
            }
        )

    return measure


def replay(policy: StalenessPolicy, snapshot_ids: Sequence[str], incomplete_ids: Sequence[str] = ()) -> Transform:
    """Convert the observations of a complete history to the state after its last snapshot.

    :param policy: its ``max_gap_seconds`` decides which observations are consecutive.
    :param snapshot_ids: complete snapshots, oldest first.
    :param incomplete_ids: incomplete snapshots, whose signs of life count. Default: none.
    """
    followed_by = positions(snapshot_ids, incomplete_ids)

    def run(observed: DataFrame) -> DataFrame:
        glimpsed = observed.transform(numbered(followed_by)) if followed_by else None
        complete = observed.transform(numbered({name: place for place, name in enumerate(snapshot_ids)}))
        places = with_glimpses(complete, glimpsed, ["group_id", "sequence"]).transform(with_lives())
        return places.transform(with_idle_runs(policy)).transform(newest(len(snapshot_ids) - 1))

    return run


def judge(policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> Transform:
    """Convert a state to verdicts, with forecasts that decide nothing.

    :param policy: the staleness policy.
    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``. Default 0, unknown.
    """
    measure, forecast, decide = with_idle_times(), with_forecasts(offsets_retention_minutes), with_verdicts(policy)
    return lambda state: state.transform(measure).transform(forecast).transform(decide)
