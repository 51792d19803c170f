"""The verdict on each group, with a reason: the table of docs/formats.md as code.

The first matching rule decides, so the order is essential for safety: groups that cannot be read, belong to another
program or are in use are recognized before anything is measured, and only a group that no rule keeps can be stale.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from airflow_kafka_groups.contracts.group_states import GroupState
from airflow_kafka_groups.contracts.group_types import ELIGIBLE_PROTOCOL_TYPES, JUDGED_TYPES
from airflow_kafka_groups.contracts.verdicts import VerdictName
from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.schemas import VERDICT_SCHEMA
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy


def without_members() -> Column:
    """Return whether the group is certainly Empty: false for an unknown state or any member."""
    return F.col("state").eqNullSafe(GroupState.EMPTY.value) & (F.coalesce("members", F.lit(0)) == 0)


def with_verdicts(policy: StalenessPolicy) -> Transform:
    """Add ``verdict`` and ``reason``; the columns become those of the specification."""
    verdict, reason = F.lit(VerdictName.SETTLING.value), _idle_for(policy)
    for condition, name, sentence in reversed(_rules(policy)):
        verdict = F.when(condition, name.value).otherwise(verdict)
        reason = F.when(condition, sentence).otherwise(reason)

    decided = {"verdict": verdict, "reason": reason, "idle_seconds": F.col("idle_micros") / 1_000_000}
    columns = [F.col(field.name).cast(field.dataType) for field in VERDICT_SCHEMA]
    return lambda groups: groups.withColumns(decided).select(*columns)


def _rules(policy: StalenessPolicy) -> list[tuple[Column, VerdictName, Column]]:
    """Return (condition, verdict, reason) in the order of evaluation; if none applies: settling."""
    state, members, protocol = F.col("state"), F.col("members"), F.col("protocol_type")
    idle, moved, observations = F.col("idle_micros"), F.col("moved_micros"), F.col("observations")
    foreign_type = ~_is_one_of("group_type", JUDGED_TYPES)
    foreign_protocol = ~_is_one_of("protocol_type", ELIGIBLE_PROTOCOL_TYPES)
    has_members = F.coalesce(members, F.lit(0)) != 0
    enough = policy.min_idle_micros
    return [
        (F.col("error").isNotNull(), VerdictName.UNREADABLE, _sentence("not read in full: {}", F.col("error"))),
        (foreign_type, VerdictName.UNTOUCHABLE, _sentence("a {} group keeps state of its own", F.col("group_type"))),
        (
            foreign_protocol,
            VerdictName.UNTOUCHABLE,
            _sentence("protocol type {}: another program keeps its own state in this group", protocol),
        ),
        (has_members, VerdictName.LIVE, _sentence("it has {} member(s), state {}", members, state)),
        (~without_members(), VerdictName.LIVE, _sentence("its state is {}, not Empty", state)),
        (
            F.col("partitions") == 0,
            VerdictName.NO_OFFSETS,
            F.lit("no committed offset is visible: a broker removes such a group by itself, so some may be hidden"),
        ),
        (
            moved < enough,
            VerdictName.MOVING,
            _sentence(
                "offsets moved {} ago; the policy requires {} without", _duration(moved), _duration(F.lit(enough))
            ),
        ),
        ((idle >= enough) & (observations >= policy.min_observations), VerdictName.STALE, _idle_for(policy)),
    ]


def _idle_for(policy: StalenessPolicy) -> Column:
    asked = _duration(F.lit(policy.min_idle_micros))
    return _sentence(
        f"idle for {{}} ({{}} snapshots); the policy requires {{}} and {policy.min_observations} snapshots",
        _duration(F.col("idle_micros")),
        F.col("observations"),
        asked,
    )


def _is_one_of(column: str, values: Iterable[str]) -> Column:
    return F.coalesce(F.col(column).isin(*sorted(map(str, values))), F.lit(False))


def _sentence(template: str, *values: Column) -> Column:
    """Replace ``{}`` by values; a null value becomes "unknown", so that a reason is never null."""
    texts = template.split("{}")
    parts = [F.lit(texts[0])]
    for value, text in zip(values, texts[1:], strict=True):
        parts += [F.coalesce(value.cast(StringType()), F.lit("unknown")), F.lit(text)]
    return F.concat(*parts)


def _duration(micros: Column) -> Column:
    """Format a time, rounded down, so that it is never exaggerated."""
    steps = ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"), (None, 86_400, "days"))
    text = F.lit("")
    for below, unit, name in reversed(steps):
        shown = F.format_string(f"%.1f {name}", F.floor(micros / (unit * 100_000)) / 10)
        text = shown if below is None else F.when(micros < below * 1_000_000, shown).otherwise(text)
    return text
