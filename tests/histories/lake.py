"""Write snapshots to disk as the package does: with pyarrow, data first and the manifest last."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_kafka_groups.storage.formats import plain
from tests.fakes.snapshot_groups import NO_TABLE
from tests.histories.shorthand import ARROW_SCHEMA, SnapshotRow, hour, parquet, snapshot_id

CLUSTER = "c"


def write_data(
    base: Path,
    name: str,
    rows: Sequence[SnapshotRow],
    *,
    schema: pa.Schema = ARROW_SCHEMA,
    part: str = "part-00000.parquet",
) -> Path:
    path = base / CLUSTER / "data" / name / part
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parquet(rows, schema))
    return path


def flip_a_bit(path: Path, column: str) -> None:
    """Flip a bit in the middle of what a Parquet file has of a column; its footer stays as it is."""
    group = pq.read_metadata(path).row_group(0)
    chunk = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column)
    content = bytearray(path.read_bytes())
    content[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size // 2] ^= 0x10
    path.write_bytes(content)


def file_of(base: Path, name: str, rows: int, part: str = "part-00000.parquet") -> dict[str, Any]:
    """Return a manifest's entry for a file of a snapshot."""
    path = base / CLUSTER / "data" / name / part
    content = path.read_bytes() if path.is_file() else b""
    return {"name": part, "rows": rows, "sha256": sha256(content).hexdigest()}


def write_manifest(base: Path, name: str, rows: int, /, **changes: Any) -> Path:
    manifest: dict[str, Any] = {
        "format": 1,
        "snapshot_id": name,
        "cluster": CLUSTER,
        "kafka_cluster_id": "kafka-1",
        "started_at": "2026-01-01T00:00:00+00:00",
        "observed_at": "2026-01-01T00:00:01+00:00",
        "airflow_run": "manual__2026-01-01T00:00:00+00:00",
        "complete": True,
        "missing_brokers": {},
        "sees_all_topics": True,
        "groups": 1,
        "failed_groups": 0,
        "rows": rows,
        "scope": {"include": ["*"], "exclude": []},
        "files": [file_of(base, name, rows)],
        "offsets_retention_minutes": None,
        "view": None,
        "members": plain(NO_TABLE),
        "subscriptions": plain(NO_TABLE),
    }
    path = base / CLUSTER / "manifests" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest | changes))
    return path


def write_snapshot(base: Path, number: float, rows: Sequence[SnapshotRow], **changes: Any) -> str:
    """Write the snapshot of an hour; its rows must be of that hour. Changes are to the manifest."""
    assert all(row["observed_at"] >= hour(number) for row in rows)
    name = snapshot_id(number)
    write_data(base, name, rows)
    write_manifest(base, name, len(rows), **changes)
    return name
