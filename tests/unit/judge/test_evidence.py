"""What a file says of the evidence is checked, not believed: whatever is no time is no evidence."""

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_kafka_groups.judge.evidence import NOT_REPORTED, Evidence

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "evidence", [Evidence(), Evidence(not_read="hidden"), Evidence(commits_until=AT), Evidence(commits_since=AT)]
)
def test_evidence_reads_back_as_it_was_written(evidence: Evidence) -> None:
    assert Evidence.from_json(evidence.to_json()) == evidence


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, NOT_REPORTED),
        ("all of it", NOT_REPORTED),
        ({"commits_until": "soon"}, "are not times"),
        ({"commits_until": 5}, "are not times"),
        ({"commits_until": "2026-03-01T12:00:00"}, "are not times"),
        ({"commits_until": AT.isoformat(), "commits_since": "2026"}, "are not times"),
    ],
)
def test_what_is_no_evidence_counts_as_a_log_that_was_not_read(data: Any, why: str) -> None:
    found = Evidence.from_json(data)
    assert found.commits_until is None
    assert why in found.not_read
