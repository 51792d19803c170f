"""The last commits of groups, as a judgement uses them, and what they prove. Imports no pyspark by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.judge.evidence import Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommits:
    """When groups committed last, and what that is worth as evidence.

    :param rows: ``group_id`` and ``last_commit_at``, one row per group; ``None``: not known.
    :param warnings: what may be missing.
    """

    rows: DataFrame | None = None
    evidence: Evidence
    summary: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def times(self) -> dict[str, int]:
        """Return the last commits by group, in microseconds since 1970."""
        if self.rows is None:
            return {}
        found = self.rows.where("last_commit_at IS NOT NULL").selectExpr(
            "group_id", "unix_micros(last_commit_at) AS at"
        )
        times: dict[str, int] = {}
        for group_id, at in found.collect():  # toArrow() would hide what failed behind "thrown in awaitResult"
            times[group_id] = max(times.get(group_id, at), at)  # of two rows, which there should not be, the later one
        return times
