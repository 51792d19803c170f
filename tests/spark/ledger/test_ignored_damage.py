"""A session may be told to pass over damaged or missing files. What the jobs rely on must not be among them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.session import SPARK_ERRORS, settings_of
from airflow_kafka_groups.spark.snapshots import read_snapshot, rows_of_groups
from tests.histories.lake import CLUSTER, write_manifest
from tests.histories.shorthand import ARROW_SCHEMA, seen, snapshot_id

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

IGNORING = {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"}


@pytest.fixture
def ignoring(spark: SparkSession) -> Iterator[SparkSession]:
    with settings_of(spark, IGNORING):
        yield spark


def test_a_damaged_snapshot_does_not_cut_what_is_archived(ignoring: SparkSession, tmp_path: Path) -> None:
    rows = seen(1, offsets={("t", number): number for number in range(2_000)})
    name = snapshot_id(1)
    folder = tmp_path / CLUSTER / "data" / name
    folder.mkdir(parents=True)
    part = folder / "part-00000.parquet"
    # The footer is whole, so that its rows can be counted; the second half cannot be read.
    table = pa.Table.from_pylist(rows, ARROW_SCHEMA)
    pq.write_table(
        table, part, compression="zstd", write_page_checksum=True, row_group_size=1_000, use_dictionary=False
    )
    write_manifest(tmp_path, name, len(rows))
    column = pq.read_metadata(part).row_group(1).column(ARROW_SCHEMA.get_field_index("committed_offset"))
    content = bytearray(part.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 0x10
    part.write_bytes(content)
    history = find_history(storage_of(ignoring, tmp_path.as_uri()), tmp_path.as_uri(), CLUSTER)
    stored, _ = read_snapshot(ignoring, history)
    with pytest.raises(SPARK_ERRORS):
        rows_of_groups(stored, {"g"})
