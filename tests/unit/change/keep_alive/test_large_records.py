"""The records of runs with all the offsets of many groups."""

from __future__ import annotations

import json
import weakref
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_groups.ledger.life.wanted import KeepAliveRecords, last_kept
from airflow_kafka_groups.storage.file_storage import READERS
from airflow_kafka_groups.storage.json_files import read_json
from airflow_kafka_groups.storage.layout import Layout

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Groups(list[Any]):
    """The groups of a record, of which is known whether they are still there."""


def test_the_offsets_of_a_few_records_only_are_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By count: a restore of 60,000 groups with 50 partitions each takes 360 MB, and there may be many."""
    folder = tmp_path / "prod" / "changes"
    folder.mkdir(parents=True)
    head = {"format": 1, "what": "keep-alive", "kept_until": AT.isoformat()}
    for number in range(4 * READERS):
        for part, outcome in (("before", {}), ("result", {"outcome": "changed"})):
            record = {**head, "groups": [{"group_id": "a", **outcome}]}
            (folder / f"20260301T1200{number:02}Z-00000001-keep-alive-{part}.json").write_text(json.dumps(record))
    made, most = list[weakref.ref[Groups]](), 0

    def noted(*arguments: Any) -> dict[str, Any]:
        nonlocal most
        record = read_json(*arguments)
        record["groups"] = Groups(record["groups"])
        made.append(weakref.ref(record["groups"]))
        most = max(most, sum(each() is not None for each in made))
        return record

    monkeypatch.setattr("airflow_kafka_groups.ledger.life.wanted.read_json", noted)
    assert KeepAliveRecords(Layout(tmp_path, "prod")).read().keys() == {"a"}
    assert last_kept(Layout(tmp_path, "prod"), AT).keys() == {"a"}
    assert len(made) == 8 * READERS
    assert most <= READERS
