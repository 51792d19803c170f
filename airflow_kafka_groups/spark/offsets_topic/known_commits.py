"""The last records of groups in the log of commits, as a judgement uses them. Imports no pyspark by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.judge.evidence import Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Times = tuple[int | None, int | None]
"""When a group committed last, and when its last group record was written."""
NOT_KNOWN: Times = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCommits:
    """When groups committed last, when a member joined or left last, and what that is worth as evidence.

    :param rows: ``group_id``, ``last_commit_at`` and ``last_record_at``, one row per group; ``None``: not known.
    :param warnings: what may be missing.
    """

    rows: DataFrame | None = None
    evidence: Evidence
    summary: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def times(self) -> dict[str, Times]:
        """Return the last commits and group records by group, in microseconds since 1970; ``None``: there is none."""
        if self.rows is None:
            return {}
        found = self.rows.selectExpr(
            "group_id", "unix_micros(last_commit_at) AS commit", "unix_micros(last_record_at) AS record"
        )
        times: dict[str, Times] = {}
        for group_id, *at in found.collect():  # toArrow() would hide what failed behind "thrown in awaitResult"
            # Of two rows, which there should not be, the later one counts.
            both = zip(at, times.get(group_id, NOT_KNOWN), strict=True)
            commit, record = (max((each for each in two if each is not None), default=None) for two in both)
            times[group_id] = commit, record
        return times
