"""Last commits of groups, as a judgement finds them in the log, without a log."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_kafka_groups.judge.evidence import Evidence, LastCommits
from airflow_kafka_groups.spark.jobs import judge_staleness

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

LAST_SCHEMA = "group_id string, last_commit_at timestamp, last_record_at timestamp"

Last = tuple[str, datetime | None, datetime | None]


def know_commits(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, *rows: Last, until: datetime | None = None
) -> None:
    """Let judgements in tasks know of these last commits."""
    known = LastCommits(rows=spark.createDataFrame([*rows], LAST_SCHEMA), evidence=Evidence(commits_until=until))
    here = judge_staleness.asked_for

    def asked_for(session: SparkSession | None, *others: object) -> LastCommits:
        return known if session is not None else here(None, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(judge_staleness, "asked_for", asked_for)
