"""The Parquet file of a snapshot."""

from __future__ import annotations

from airflow_kafka_groups.contracts.columns import SNAPSHOT_COLUMNS
from airflow_kafka_groups.contracts.paths import SNAPSHOT_FILE
from airflow_kafka_groups.maintenance.arrow_schema import arrow_schema
from airflow_kafka_groups.maintenance.snapshot.offset_columns import OffsetColumns
from airflow_kafka_groups.maintenance.storage import StoragePath


def write_rows(folder: StoragePath, columns: OffsetColumns, cluster: str, snapshot_id: str) -> int:
    """Write all rows into the folder, a bounded chunk at a time, and return their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    schema = arrow_schema(SNAPSHOT_COLUMNS)
    rows = 0
    with (
        (folder / SNAPSHOT_FILE).open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=True) as writer,
    ):
        for table in columns.tables():
            whole = table.add_column(0, "cluster", pa.repeat(cluster, len(table)))
            whole = whole.add_column(1, "run_id", pa.repeat(snapshot_id, len(table)))
            writer.write_table(whole.select(schema.names).cast(schema))
            rows += len(table)
    return rows
