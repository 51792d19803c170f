"""The record of a restore by an earlier version, read while it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_kafka_groups.maintenance.keep_alive.records import KeepAliveRecords
from airflow_kafka_groups.maintenance.storage import Layout

RUN = "20260301T120000Z-00000001"
RECORD = f'{{"format": 1, "run_id": "{RUN}", "what": "restore", "groups": [{{"group_id": "a"}}, {{"group_id": "b"}}]}}'


@pytest.mark.safety
def test_what_was_half_there_is_read_once_more(tmp_path: Path) -> None:
    """By SFTP, a file is there before all of it is: the older command line then goes on, and restores the groups."""
    records = KeepAliveRecords(Layout(tmp_path, "prod"))
    assert records.read() == {}
    path = tmp_path / "prod" / "changes" / f"{RUN}-before.json"
    path.parent.mkdir(parents=True)
    path.write_text(RECORD[:-4])
    assert records.read_new() == {}
    path.write_text(RECORD)
    assert records.read_new().keys() == {"a", "b"}
    assert records.read_new() == {}
