"""The judgement of consumer groups by their history: observations in, one verdict per group out. No I/O.

Theory of operation. ``observations.py`` has reduced each snapshot to one row for each group.

1. ``numbered`` adds each snapshot's position in the history.
2. ``present_life`` keeps each group's *life*: its observations in the complete snapshots in a row up to the newest. A
   snapshot without the group ends a life: whatever comes later is another group with the same name.
3. ``idle_runs`` compares each observation with the one before it. A *quiet* observation is read without error,
   ``Empty`` and without members. A run of quiet observations is ended by every doubt: an observation that is not quiet,
   a gap longer than allowed, a clock that went backwards, another group type or protocol type, and a sign of life in an
   incomplete snapshot (``signs_of_life.py``). What is left of a life is one row: when it began, when the present run
   began, when something last moved, and the first observations with known log ends.
4. ``replay`` adds these to the newest snapshot's observations: the *state* of each group.
5. ``with_idle_times`` measures, ``forecasts.py`` adds forecasts, and ``verdicts.py`` decides, without the forecasts, in
   the order of docs/formats.md.

Every doubt means keep. Any difference in the committed offsets of two observations is movement: offset, leader epoch or
metadata, forwards or backwards. A commit of the same offset with other metadata is a sign of life.

Only narrow rows are sorted, once, by group and position: what the windows need of an observation, and no more. Strings
and structs stay out of the aggregates, since Spark hash-aggregates only values of a fixed size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.staleness.forecasts import all_ends_known, with_forecasts
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.signs_of_life import (
    BY_GROUP,
    COMMITTED,
    KIND,
    positions,
    sign_at,
    with_glimpses,
)
from airflow_kafka_groups.spark.staleness.verdicts import with_verdicts, without_members

_EARLIER_STRETCH = 2**31  # more than any position: of two stretches the later one counts, within one the earlier row


def numbered(positions_of: Mapping[str, int]) -> Transform:
    """Keep the observations of these snapshots and add ``sequence``, the snapshot's position."""

    def number(observed: DataFrame) -> DataFrame:
        # From JSON: rows made in Python would start Python workers on the executors, for a second or two.
        rows = F.from_json(F.lit(json.dumps(list(map(list, positions_of.items())))), "array<array<string>>")
        place = F.explode(rows).alias("place")
        places = observed.sparkSession.range(1, numPartitions=1).select(place)
        named = places.select(F.col("place")[0].alias("run_id"), F.col("place")[1].cast("int").alias("sequence"))
        return observed.join(F.broadcast(named), "run_id")

    return number


def present_life(newest: int) -> Transform:
    """Keep the observations of groups in the newest snapshot since they last appeared."""
    by_group = Window.partitionBy("group_id").orderBy("sequence")
    whole = by_group.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)

    def keep(observed: DataFrame) -> DataFrame:
        counted = observed.withColumns({"nth": F.row_number().over(by_group), "total": F.count("*").over(whole)})
        # As many observations follow as there are snapshots: none of these lacks the group.
        return counted.where(F.col("total") - F.col("nth") == newest - F.col("sequence")).drop("nth", "total")

    return keep


def idle_runs(policy: StalenessPolicy) -> Transform:
    """Reduce each life to one row, see the module's description.

    :param policy: its ``max_gap_seconds`` decides which observations are consecutive.
    """
    by_group = Window.partitionBy("group_id").orderBy("sequence")
    earlier = by_group.rowsBetween(Window.unboundedPreceding, -1)
    so_far = by_group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    elapsed = F.unix_micros("observed_at") - F.unix_micros("before_at")
    watched = elapsed >= 0
    if policy.max_gap_micros:
        watched = watched & (elapsed <= policy.max_gap_micros)
    same_kind = F.lit(True)
    for name in KIND:
        same_kind = same_kind & (F.col(name) == F.col(f"before_{name}"))
    committed = F.when(F.col("readable"), F.struct(*COMMITTED))
    before = {"before_at": "observed_at", "before_quiet": "quiet", **{f"before_{name}": name for name in KIND}}

    def run(life: DataFrame) -> DataFrame:
        no_sign = F.lit(True)
        if "glimpses" in life.columns:
            # Signs are compared by time too: an incomplete snapshot may overlap a complete one that began later.
            previous = F.struct("readable", *KIND, *COMMITTED)
            life = life.withColumn("before", F.lag(previous).over(by_group)).withColumn("sign_at", sign_at("before"))
            life = life.withColumn("alive_before", F.max("sign_at").over(earlier))
            no_sign = F.col("sign_at").isNull() & F.coalesce(F.col("alive_before") < F.col("before_at"), F.lit(True))
        compared = life.withColumn("committed", committed).withColumns(
            {
                **{name: F.lag(now).over(by_group) for name, now in before.items()},
                "committed_before": F.last("committed", ignorenulls=True).over(earlier),
            }
        )
        unbroken = F.coalesce(watched & same_kind & no_sign & F.col("before_quiet"), F.lit(False))
        moved = F.col("committed").isNotNull() & F.col("committed_before").isNotNull()
        marked = compared.withColumns(
            {
                "moved": F.when(moved & (F.col("committed") != F.col("committed_before")), F.col("sequence")),
                "starts": F.when(F.col("quiet") & ~unbroken, F.col("sequence")),
            }
        )
        # A stretch is an idle time, or a single observation outside of one; it is named by its first position.
        begins = ~F.col("quiet") | F.col("starts").isNotNull() | F.col("moved").isNotNull()
        stretch = F.max(F.when(begins, F.col("sequence"))).over(so_far)
        return marked.withColumn("stretch", stretch).groupBy("group_id").agg(*_life())

    return run


def _life() -> list[Column]:
    """Return the aggregates of a life."""
    known = F.when(F.col("ends_known"), F.col("sequence"))
    of_newest = F.when(
        F.col("ends_known"), F.col("stretch").cast("bigint") * _EARLIER_STRETCH - F.col("sequence").cast("bigint")
    )
    return [
        F.min_by("observed_at", "sequence").alias("first_seen_at"),
        F.max_by("observed_at", "starts").alias("empty_since"),
        F.max_by("observed_at", "moved").alias("last_moved_at"),
        F.greatest(F.max("starts"), F.max("moved")).alias("idle_from"),
        F.min_by("observed_at", known).alias("life_lag_at"),
        F.min_by("lag", known).alias("life_lag"),
        F.max_by("observed_at", of_newest).alias("idle_lag_at"),
        F.max_by("lag", of_newest).alias("idle_lag"),
        F.max_by("log_start", of_newest).alias("idle_log_start"),
        (F.max(F.when(F.col("ends_known"), F.col("stretch"))) == F.max("stretch")).alias("idle_ends_known"),
    ]


def replay(
    read: Callable[[Sequence[str]], DataFrame],
    policy: StalenessPolicy,
    snapshot_ids: Sequence[str],
    incomplete_ids: Sequence[str] = (),
) -> DataFrame:
    """Return the state of each group in the last snapshot.

    :param read: returns the observations of snapshots.
    :param policy: its ``max_gap_seconds`` decides which observations are consecutive.
    :param snapshot_ids: complete snapshots, oldest first.
    :param incomplete_ids: incomplete snapshots, whose signs of life count. Default: none.
    """
    newest = len(snapshot_ids) - 1
    observed = read(snapshot_ids).transform(numbered({name: place for place, name in enumerate(snapshot_ids)}))
    narrow = observed.withColumns(_marks()).select(
        *BY_GROUP, "observed_at", *KIND, *COMMITTED, "lag", "log_start", *_marks()
    )
    if followed_by := positions(snapshot_ids, incomplete_ids):
        narrow = with_glimpses(narrow, read(incomplete_ids).transform(numbered(followed_by)))
    lives = narrow.transform(present_life(newest)).transform(idle_runs(policy))
    state = read(snapshot_ids[-1:]).withColumns(_marks()).join(lives, "group_id")
    quiet, idle = F.col("quiet"), F.col("quiet") & F.col("idle_ends_known")
    return state.withColumns(
        {
            "empty_since": F.when(quiet, F.col("empty_since")),
            "observations": F.when(quiet, newest - F.col("idle_from") + 1).otherwise(0),
            **{name: F.when(idle, F.col(name)) for name in ("idle_lag_at", "idle_lag", "idle_log_start")},
        }
    )


def _marks() -> dict[str, Column]:
    readable = F.col("error").isNull()
    return {"readable": readable, "quiet": readable & without_members(), "ends_known": all_ends_known()}


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


def judge(policy: StalenessPolicy, offsets_retention_minutes: int = 0) -> Transform:
    """Convert a state to verdicts, with forecasts that decide nothing.

    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``. Default 0, unknown.
    """
    measure, forecast, decide = with_idle_times(), with_forecasts(offsets_retention_minutes), with_verdicts(policy)
    return lambda state: state.transform(measure).transform(forecast).transform(decide)
