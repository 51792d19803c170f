"""A manifest reads back as it was written, and whatever is missing, of another kind or contradictory is refused."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_kafka_groups.storage.formats import UnknownFormatError
from airflow_kafka_groups.storage.manifest import (
    BrokerClocks,
    SnapshotFile,
    SnapshotManifest,
)

MANIFEST = SnapshotManifest(
    snapshot_id="20260301T120000Z-0123abcd",
    cluster="prod",
    kafka_cluster_id="k",
    started_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    observed_at=datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC),
    airflow_run="manual",
    complete=True,
    missing_brokers={},
    sees_all_topics=True,
    groups=3,
    failed_groups=1,
    rows=5,
    scope={"include": ["*"], "exclude": []},
    files=(SnapshotFile("a.parquet", 2, "ab" * 32), SnapshotFile("b.parquet", 3, "cd" * 32)),
    offsets_retention_minutes=10_080,
    view={"brokers": {"1": "b1:9092"}},
    clocks=BrokerClocks(at=datetime(2026, 3, 1, 12, tzinfo=UTC), ends={"0": 9}, compared=1, seconds=2),
    members=SnapshotFile("20260301T120000Z-0123abcd.parquet", 3, "ef" * 32),
    subscriptions=SnapshotFile("20260301T120000Z-0123abcd.parquet", 2, "cd" * 32),
    airflow_dag="snapshot_group_offsets",
)
NULLABLE = ("offsets_retention_minutes", "view", "clocks", "airflow_dag")
CONTENT: dict[str, Any] = json.loads(json.dumps(MANIFEST.to_json()))


def test_it_reads_back_as_it_was_written() -> None:
    assert SnapshotManifest.from_json(CONTENT) == MANIFEST
    assert SnapshotManifest.from_json({**CONTENT, "rack": "a"}) == MANIFEST, "of a version to come"
    assert list(CONTENT) == ["format", *SnapshotManifest.__slots__]
    assert CONTENT["files"][0] == {"name": "a.parquet", "rows": 2, "sha256": "ab" * 32}


def test_what_a_cluster_may_not_tell_may_be_null() -> None:
    unknown = SnapshotManifest.from_json({**CONTENT, **dict.fromkeys(NULLABLE)})
    assert (unknown.offsets_retention_minutes, unknown.view, unknown.clocks) == (None, None, None)
    assert SnapshotManifest.from_json({name: CONTENT[name] for name in CONTENT if name not in NULLABLE}) == unknown
    with pytest.raises((TypeError, ValueError)):
        SnapshotManifest.from_json({**CONTENT, "view": 7})


@pytest.mark.parametrize("table", ["members", "subscriptions"])
def test_no_field_of_a_table_beside_the_rows_may_be_missing(table: str) -> None:
    for name in SnapshotFile._fields:
        entry = {key: value for key, value in CONTENT[table].items() if key != name}
        with pytest.raises((KeyError, TypeError)):
            SnapshotManifest.from_json({**CONTENT, table: entry})


@pytest.mark.parametrize("name", [name for name in CONTENT if name not in ("format", *NULLABLE)])
def test_no_field_may_be_missing(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        SnapshotManifest.from_json({key: value for key, value in CONTENT.items() if key != name})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"snapshot_id": 1}, "snapshot_id is 1"),
        ({"kafka_cluster_id": 1}, "kafka_cluster_id is 1"),
        ({"started_at": "2026-03-01T12:00:00"}, "no zone"),
        ({"complete": 1}, "complete is 1"),
        ({"sees_all_topics": "yes"}, "sees_all_topics is 'yes'"),
        ({"groups": True}, "groups is True"),
        ({"failed_groups": "0"}, "failed_groups is '0'"),
        ({"rows": -1}, "rows is -1"),
        ({"offsets_retention_minutes": "7 days"}, "offsets_retention_minutes is '7 days'"),
        ({"rows": 6}, "5 rows by their own count, 6 in all"),
        ({"missing_brokers": {"1": "timed out"}}, "calls itself complete"),
        ({"files": None}, "not iterable"),
        ({"files": [{"name": "a/b", "rows": 5, "sha256": ""}]}, "not plain"),
        ({"files": [{"name": "..", "rows": 5, "sha256": ""}]}, "not plain"),
        ({"files": 2 * [{"name": "a", "rows": 2, "sha256": ""}]}, "different from each other"),
        ({"files": [{"name": "a", "rows": 5, "sha256": None}]}, "sha256 is None"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        SnapshotManifest.from_json({**CONTENT, **changes})


@pytest.mark.parametrize("found", [2, "1", None])
def test_another_format_is_refused(found: object) -> None:
    with pytest.raises(UnknownFormatError, match="this version reads 1"):
        SnapshotManifest.from_json({**CONTENT, "format": found})
