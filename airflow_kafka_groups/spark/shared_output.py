"""A check that executors see what the driver writes."""

from __future__ import annotations

import uuid

from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import StorageError, first_line
from airflow_kafka_groups.spark.errors import SPARK_ERRORS
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.session.settings import runs_locally


def require_shared(spark: SparkSession, path: str) -> None:
    """Verify that executors on other machines can access the local folder of a job's output.

    Tasks that write to their own disks leave a folder that looks complete but is empty on the driver.

    :param spark: the session; with a local master, or a path on any other storage, nothing is tested.
    :param path: the output. A small file next to it is written, read by an executor, and deleted.

    Raises ``StorageError`` if executors cannot read what the driver writes.
    """
    storage = storage_of(spark, path)
    if not storage.is_local or runs_locally(spark):
        return
    seen = storage.beside(path, f"kafka-groups-shared-{uuid.uuid4().hex}")
    storage.write_text(seen, "seen\n")
    try:
        spark.read.text(seen).collect()
    except SPARK_ERRORS as exc:
        raise StorageError(
            f"{path} is on the driver's own disk: the executors do not see what is written there ({first_line(exc)}). "
            "Give a storage that all machines reach, such as s3a:// or hdfs://, or a path that all have mounted"
        ) from exc
    finally:
        storage.delete_file(seen)
