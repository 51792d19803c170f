"""The last records of groups in the log of commits, as a judgement uses them. Imports no pyspark by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.judge.evidence import Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
