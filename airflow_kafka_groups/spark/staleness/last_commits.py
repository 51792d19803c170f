"""Last commits from the job ``commit_history`` as signs of life that snapshots cannot show.

A consumer that commits the same offset repeatedly is alive, but no snapshot shows it; the log of commits does. The last
commit counts as movement, and never as proof of idleness: no group becomes older by it.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import SPARK_ERRORS, JobError, StorageError, first_line
from airflow_kafka_groups.spark.frames import Transform
from airflow_kafka_groups.spark.storage import Storage


def read_last_commits(spark: SparkSession, folder: str, kafka_cluster_id: str | None) -> DataFrame:
    """Read the result of the job ``commit_history``: ``group_id`` and ``last_commit_at``.

    :param spark: the session.
    :param folder: its ``--output``.
    :param kafka_cluster_id: the cluster whose groups are judged.

    Raises ``JobError`` if it is missing, incomplete, or of another cluster.
    """
    remedy = "run the job commit_history first, or leave --commit-history out"
    try:
        summary = json.loads(Storage(spark, folder).read_text(f"{folder}/summary.json"))
        found = summary["kafka_cluster_id"]
        rows = spark.read.parquet(f"{folder}/groups").select("group_id", "last_commit_at")
    except StorageError as exc:
        raise JobError(
            f"{folder} has no summary of commit_history, so it is incomplete or not there: {remedy}"
        ) from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise JobError(
            f"the summary in {folder} is not one of commit_history ({type(exc).__name__}): {remedy}"
        ) from exc
    except SPARK_ERRORS as exc:
        raise JobError(f"the groups in {folder} cannot be read ({first_line(exc)}): {remedy}") from exc
    if found != kafka_cluster_id:
        raise JobError(f"{folder} is of the Kafka cluster {found}, the snapshots are of {kafka_cluster_id}: {remedy}")
    return rows


def with_last_commits(last_commits: DataFrame) -> Transform:
    """Move ``last_moved_at`` of a state forward to the last commit, if that is later.

    :param last_commits: ``group_id`` and ``last_commit_at``, one row per group.
    """

    def add(state: DataFrame) -> DataFrame:
        joined = state.join(last_commits.select("group_id", "last_commit_at"), "group_id", "left")
        return joined.withColumn("last_moved_at", F.greatest("last_moved_at", "last_commit_at")).drop("last_commit_at")

    return add
