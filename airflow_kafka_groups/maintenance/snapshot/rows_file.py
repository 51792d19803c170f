"""The Parquet file of a snapshot: its columns are docs/formats.md, which the Spark job reads too."""

from __future__ import annotations

from typing import Any

from airflow_kafka_groups.maintenance.snapshot.offset_columns import OffsetColumns
from airflow_kafka_groups.maintenance.storage import StoragePath

FILE = "part-00000.parquet"


def write_rows(folder: StoragePath, columns: OffsetColumns, cluster: str, snapshot_id: str) -> int:
    """Write all rows into the folder, a bounded chunk at a time; give how many they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    schema = snapshot_schema(pa)
    rows = 0
    with (
        (folder / FILE).open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=True) as writer,
    ):
        for table in columns.tables():
            whole = table.add_column(0, "cluster", pa.repeat(cluster, len(table)))
            whole = whole.add_column(1, "run_id", pa.repeat(snapshot_id, len(table)))
            writer.write_table(whole.select(schema.names).cast(schema))
            rows += len(table)
    return rows


def snapshot_schema(pa: Any) -> Any:
    """Give the columns of docs/formats.md."""
    text, number, large = pa.string(), pa.int32(), pa.int64()
    return pa.schema(
        [
            pa.field("cluster", text, nullable=False),
            pa.field("run_id", text, nullable=False),
            pa.field("observed_at", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("group_id", text, nullable=False),
            pa.field("group_type", text, nullable=False),
            pa.field("protocol_type", text, nullable=False),
            pa.field("state", text, nullable=False),
            pa.field("members", number),
            pa.field("coordinator", number),
            pa.field("topic", text),
            pa.field("partition", number),
            pa.field("committed_offset", large),
            pa.field("leader_epoch", number),
            pa.field("metadata", text),
            pa.field("log_start", large),
            pa.field("log_end", large),
            pa.field("error", text),
        ]
    )
