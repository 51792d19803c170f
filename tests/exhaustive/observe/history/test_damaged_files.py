"""A damaged file of a snapshot is refused, wherever the damage is, and the snapshot and its file are named."""

from pathlib import Path

import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from tests.histories.judged import judge
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen, snapshot_id


def test_any_flipped_bit_is_noticed_and_nothing_is_judged(tmp_path: Path) -> None:
    for number in range(2):
        write_snapshot(tmp_path, number, seen(number))
    part = tmp_path / CLUSTER / "data" / snapshot_id(1) / "part-00000.parquet"
    content = part.read_bytes()
    problem = f"{snapshot_id(1)} is incomplete or was changed: part-00000.*: it has other bytes than its manifest"
    for place in range(0, len(content), 97):
        part.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(SnapshotError, match=problem):
            judge(tmp_path)
    assert not (tmp_path / CLUSTER / "summaries" / "observations" / f"{snapshot_id(1)}.json").exists()
