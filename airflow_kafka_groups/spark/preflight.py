"""Say at the start of a job what would make it fail, or lie, later."""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from airflow_kafka_groups.spark.errors import JobError

TESTED_SPARK = "4.2"
"""Minor version of pyspark with which the jobs are tested."""

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_ROWS_PER_SHUFFLE_PARTITION = 1_000_000


def version_warnings(python_side: str, cluster_side: str) -> list[str]:
    """Compare the versions of Spark on both sides of the bridge with the one tested.

    :param python_side: version of the Python package ``pyspark``.
    :param cluster_side: version of Spark that runs the session.
    """
    warnings = []
    if python_side != cluster_side:
        warnings.append(
            f"pyspark {python_side} drives Spark {cluster_side}: install the same version on both sides "
            "(pyspark and pyspark-client overwrite each other's files when their versions differ)"
        )
    if cluster_side.rsplit(".", 1)[0] != TESTED_SPARK:
        warnings.append(f"this job is tested with Spark {TESTED_SPARK}.x and runs on {cluster_side}: check its output")
    return warnings


def prepare(spark: SparkSession) -> list[str]:
    """Set the session to UTC and give the warnings about its versions.

    :param spark: the session the job runs in; one of Spark Connect is refused, since it cannot list a storage.
    """
    if is_remote():
        raise JobError("this is a Spark Connect session: run the job by spark-submit, without SPARK_REMOTE")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return version_warnings(pyspark.__version__, spark.version)


def fit_shuffles(spark: SparkSession, rows: int) -> None:
    """Cut shuffles to the size of the data, unless the user has: the default 200 costs a small history half its time.

    :param spark: the session the job runs in.
    :param rows: snapshot rows that will be read.
    """
    if not spark.sparkContext.getConf().contains(_SHUFFLE_PARTITIONS):
        parts = max(spark.sparkContext.defaultParallelism, 1 + rows // _ROWS_PER_SHUFFLE_PARTITION)
        spark.conf.set(_SHUFFLE_PARTITIONS, parts)
