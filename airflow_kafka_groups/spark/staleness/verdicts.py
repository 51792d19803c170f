"""The verdict on each group, with a reason: the table of docs/formats.md as code.

The first matching rule decides, so the order is essential for safety: groups that cannot be read, belong to another
program or are in use are recognized before anything is measured, and only a group that no rule keeps can be stale.
"""

from __future__ import annotations

from airflow_kafka_groups.contracts.group_states import GroupState
from airflow_kafka_groups.contracts.group_types import ELIGIBLE_PROTOCOL_TYPES, JUDGED_TYPES
from airflow_kafka_groups.contracts.verdicts import VerdictName
from airflow_kafka_groups.spark.frames import in_list
from airflow_kafka_groups.spark.staleness.policy import StalenessPolicy

WITHOUT_MEMBERS = f"state <=> '{GroupState.EMPTY}' AND coalesce(members, 0) = 0"
"""SQL: whether the group is certainly Empty: false for an unknown state or any member."""


def verdict_and_reason(policy: StalenessPolicy) -> dict[str, str]:
    """Return the two columns in SQL, by name, over a state with its idle times."""
    rules = _rules(policy)
    verdicts = " ".join(f"WHEN {condition} THEN '{name}'" for condition, name, _ in rules)
    reasons = " ".join(f"WHEN {condition} THEN {reason}" for condition, _, reason in rules)
    return {
        "verdict": f"CASE {verdicts} ELSE '{VerdictName.SETTLING}' END",
        "reason": f"CASE {reasons} ELSE {_idle_for(policy)} END",
    }


def _rules(policy: StalenessPolicy) -> list[tuple[str, VerdictName, str]]:
    """Return (condition, verdict, reason) in the order of evaluation; if none applies: settling."""
    enough = policy.min_idle_micros
    return [
        ("error IS NOT NULL", VerdictName.UNREADABLE, _sentence("not read in full: {}", "error")),
        (
            f"NOT coalesce(group_type IN {in_list(JUDGED_TYPES)}, false)",
            VerdictName.UNTOUCHABLE,
            _sentence("a {} group keeps state of its own", "group_type"),
        ),
        (
            f"NOT coalesce(protocol_type IN {in_list(ELIGIBLE_PROTOCOL_TYPES)}, false)",
            VerdictName.UNTOUCHABLE,
            _sentence("protocol type {}: another program keeps its own state in this group", "protocol_type"),
        ),
        ("coalesce(members, 0) != 0", VerdictName.LIVE, _sentence("it has {} member(s), state {}", "members", "state")),
        (f"NOT ({WITHOUT_MEMBERS})", VerdictName.LIVE, _sentence("its state is {}, not Empty", "state")),
        (
            "partitions = 0",
            VerdictName.NO_OFFSETS,
            _sentence("no committed offset is visible: a broker removes such a group by itself, so some may be hidden"),
        ),
        (
            f"moved_micros < {enough}",
            VerdictName.MOVING,
            _sentence(
                "offsets moved {} ago; the policy requires {} without", _duration("moved_micros"), _duration(enough)
            ),
        ),
        (
            f"idle_micros >= {enough} AND observations >= {policy.min_observations}",
            VerdictName.STALE,
            _idle_for(policy),
        ),
    ]


def _idle_for(policy: StalenessPolicy) -> str:
    return _sentence(
        f"idle for {{}} ({{}} snapshots); the policy requires {{}} and {policy.min_observations} snapshots",
        _duration("idle_micros"),
        "observations",
        _duration(policy.min_idle_micros),
    )


def _sentence(template: str, *values: str) -> str:
    """Replace ``{}`` by values; a null value becomes "unknown", so that a reason is never null."""
    first, *texts = [f"'{text}'" for text in template.split("{}")]
    shown = [
        f", coalesce(CAST({value} AS string), 'unknown'), {text}" for value, text in zip(values, texts, strict=True)
    ]
    return f"concat({first}{''.join(shown)})"


def _duration(micros: str | int) -> str:
    """Format a time, rounded down, so that it is never exaggerated."""
    steps = ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"))
    shown = " ".join(
        f"WHEN {micros} < {below * 1_000_000}L THEN {_tenths(micros, unit, name)}" for below, unit, name in steps
    )
    return f"CASE {shown} ELSE {_tenths(micros, 86_400, 'days')} END"


def _tenths(micros: str | int, unit: int, name: str) -> str:
    return f"format_string('%.1f {name}', floor({micros} / {unit * 100_000}L) / 10)"
