"""The update of a state by one snapshot: the result of the previous history, plus the snapshot's observations.

The rules are those of ``transforms.py``, implemented as a step instead of windows over a history, so that the two can
be compared: ``--mode check`` and a test over random histories do this. A group that the snapshot lacks is dropped; if
it comes back, it starts again.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.schemas import STATE_SCHEMA
from airflow_kafka_groups.spark.staleness.forecasts import all_ends_known
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy
from airflow_kafka_groups.spark.staleness.signs_of_life import COMMITTED, KIND, sign_at, with_glimpses
from airflow_kafka_groups.spark.staleness.verdicts import without_members


def advance(policy: StalenessPolicy, observed: DataFrame, glimpsed: DataFrame | None = None) -> Transform:
    """Convert the state before a snapshot to the state after it.

    :param policy: its ``max_gap_seconds`` decides whether the two are consecutive.
    :param observed: the result of ``observations`` for the rows of this snapshot.
    :param glimpsed: the same for the incomplete snapshots between the two, if there are any. Default: none.
    """

    def step(state: DataFrame) -> DataFrame:
        before = state.select(F.col("group_id"), F.struct(*STATE_SCHEMA.names).alias("before"))
        readable = F.col("error").isNull()
        seen = with_glimpses(observed, glimpsed, ["group_id"])
        joined = seen.join(before, "group_id", "left").withColumns(
            {"quiet": readable & without_members(), "readable": readable, "sign_at": sign_at("before")}
        )
        steps = joined.withColumns({"moved": _moved(), "unbroken": _unbroken(policy)}).withColumns(
            {
                "first_seen_at": F.coalesce("before.first_seen_at", "observed_at"),
                "empty_since": F.when(
                    F.col("quiet"),
                    F.when(F.col("unbroken"), F.col("before.empty_since")).otherwise(F.col("observed_at")),
                ),
                "last_moved_at": F.when(F.col("moved"), F.col("observed_at")).otherwise(F.col("before.last_moved_at")),
                "observations": _observations(),
                "alive_at": F.greatest("before.alive_at", "sign_at"),
                **_first_ends(),
                **{
                    name: F.when(F.col("readable"), F.col(now)).otherwise(F.col(f"before.{name}"))
                    for name, now in COMMITTED.items()
                },
            }
        )
        return steps.select(*(F.col(field.name).cast(field.dataType) for field in STATE_SCHEMA))

    return step


def _moved() -> Column:
    """Compare with the commits in the last readable observation; without one there is no movement."""
    differs = F.lit(False)
    for name, now in COMMITTED.items():
        differs = differs | (F.col(now) != F.col(f"before.{name}"))
    return F.coalesce(F.col("readable") & differs, F.lit(False))


def _unbroken(policy: StalenessPolicy) -> Column:
    elapsed = F.unix_micros("observed_at") - F.unix_micros("before.observed_at")
    watched = elapsed >= 0
    if policy.max_gap_micros:
        watched = watched & (elapsed <= policy.max_gap_micros)
    same_kind = F.lit(True)
    for name in KIND:
        same_kind = same_kind & (F.col(name) == F.col(f"before.{name}"))
    # Signs are compared by time too: an incomplete snapshot may overlap a complete one that began later.
    seen_later = F.coalesce(F.col("before.alive_at") < F.col("before.observed_at"), F.lit(True))
    no_sign = F.col("sign_at").isNull() & seen_later
    return F.coalesce(watched & same_kind & no_sign & F.col("before.quiet"), F.lit(False))


def _first_ends() -> dict[str, Column]:
    """Return the values of the first observation with all log ends known, for the life and for the idle time."""
    columns = {}
    for name, now in (("lag_at", "observed_at"), ("lag", "lag"), ("log_start", "log_start")):
        seen = F.when(all_ends_known(), F.col(now))
        idle = F.when(_goes_on(), F.coalesce(F.col(f"before.idle_{name}"), seen)).otherwise(seen)
        columns[f"idle_{name}"] = F.when(F.col("quiet"), idle)
        if name != "log_start":
            columns[f"life_{name}"] = F.coalesce(F.col(f"before.life_{name}"), seen)
    return columns


def _goes_on() -> Column:
    return F.col("unbroken") & ~F.col("moved")


def _observations() -> Column:
    count = F.when(_goes_on(), F.col("before.observations") + 1).otherwise(F.lit(1))
    return F.when(F.col("quiet"), count).otherwise(F.lit(0))
