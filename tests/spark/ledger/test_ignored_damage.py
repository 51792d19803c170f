"""A session may be told to pass over damaged or missing files. What the jobs rely on must not be among them."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.observe.history.snapshots import find_history
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.frames import COMMIT_GROUP_SCHEMA
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.session.settings import settings_of
from airflow_kafka_groups.spark.snapshots import read_snapshot, rows_of_groups
from tests.histories.commits import describe_commits
from tests.histories.judged import judge
from tests.histories.lake import CLUSTER, flip_a_bit, write_manifest, write_snapshot
from tests.histories.shorthand import ARROW_SCHEMA, hour, seen, snapshot_id

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

IGNORING = {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"}


@pytest.fixture
def ignoring(spark: SparkSession) -> Iterator[SparkSession]:
    with settings_of(spark, IGNORING):
        yield spark


@pytest.mark.safety
def test_a_damaged_commit_history_proves_no_group_idle(ignoring: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write_snapshot(tmp_path, number, seen(number, group="alive"))
    known = {"group_id": "alive", "partitions": 1, "first_commit_at": hour(1), "last_commit_at": hour(2.9)}
    row = tuple(known.get(name) for name in COMMIT_GROUP_SCHEMA.names)
    history = tmp_path / "history"
    ignoring.createDataFrame([row], COMMIT_GROUP_SCHEMA).write.parquet(str(history / "groups" / "run_id=r"))
    describe_commits(history, read_until=(hour(3) + timedelta(hours=1)).isoformat())
    assert judge(tmp_path, "--commit-history", str(history), spark=ignoring)["verdicts"]["moving"] == 1
    (damaged,) = (history / "groups").rglob("*.parquet")
    next((history / "groups").rglob(".part*.crc")).unlink()  # an object store has none
    flip_a_bit(damaged, "last_commit_at")
    with pytest.raises((JobError, *SPARK_ERRORS)):
        judge(tmp_path, "--commit-history", str(history), spark=ignoring)


@pytest.mark.safety
def test_a_flipped_bit_in_a_commit_history_is_not_read_as_another_time(spark: SparkSession, tmp_path: Path) -> None:
    ids = [f"alive-{number:03d}" for number in range(500)]
    for number in (1, 2, 3):
        write_snapshot(tmp_path, number, [row for group in ids for row in seen(number, group=group)])
    rows = [(*[None] * 9, hour(1), hour(2.9) + timedelta(milliseconds=number), None, None) for number in range(500)]
    named = [(group, *row[1:8], 1, *row[9:]) for group, row in zip(ids, rows, strict=True)]
    history = tmp_path / "history"
    made = spark.createDataFrame(named, COMMIT_GROUP_SCHEMA).coalesce(1).write.option("compression", "none")
    made.parquet(str(history / "groups" / "run_id=r"))
    describe_commits(history, read_until=(hour(3) + timedelta(hours=1)).isoformat())
    (damaged,) = (history / "groups").rglob("*.parquet")
    next((history / "groups").rglob(".part*.crc")).unlink()  # an object store has none
    flip_a_bit(damaged, "last_commit_at")
    with pytest.raises((JobError, *SPARK_ERRORS)):
        judge(tmp_path, "--commit-history", str(history), spark=spark)


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
