"""Files without checksums of their pages, as of another writer, whose bytes are no text or no time any more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_kafka_groups.exceptions import SnapshotError
from tests.histories.judged import judge
from tests.histories.lake import CLUSTER, write_snapshot
from tests.histories.shorthand import seen, snapshot_id

TEXTS = ("run_id", "group_id", "group_type", "protocol_type", "state", "error", "topic", "metadata")
NO_TEXT = pa.array([b"\xff"], pa.binary()).view(pa.string())


def no_time(micros: int) -> pa.Array:
    return pa.array([micros], pa.int64()).cast(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        *((name, NO_TEXT, "it cannot be read as Parquet .*UTF8") for name in TEXTS),
        *(
            ("observed_at", no_time(micros), "column observed_at has times before 1970 or beyond the year 8999")
            for micros in (-1, 221_845_392_000_000_000, 253_402_300_800_000_000, 2**63 - 1)
        ),
    ],
)
def test_the_snapshot_and_its_file_are_named(tmp_path: Path, name: str, values: pa.Array, problem: str) -> None:
    for number in range(2):
        write_snapshot(tmp_path, number, seen(number))
    part = tmp_path / CLUSTER / "data" / snapshot_id(1) / "part-00000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.set_column(table.column_names.index(name), name, values), part)
    with pytest.raises(SnapshotError, match=f"{snapshot_id(1)} is incomplete or was changed: part-00000.*: {problem}"):
        judge(tmp_path)
    assert not (tmp_path / CLUSTER / "summaries" / "observations" / f"{snapshot_id(1)}.json").exists()
