"""Writing verdicts; their counts come from the write and the files' footers, not from a read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.contracts.paths import is_data_file
from airflow_kafka_groups.contracts.verdicts import VerdictName
from airflow_kafka_groups.spark.session import exact_timestamps
from airflow_kafka_groups.spark.storage import Storage

_GROUPS_PER_FILE = 500_000
_NAMES = [name.value for name in VerdictName]


def write_verdicts(verdicts: DataFrame, output: str, groups: int, *, few: bool) -> dict[str, dict[str, int]]:
    """Write verdicts sorted by group, and return ``groups`` and ``lag`` by verdict.

    :param output: the folder, which is replaced.
    :param groups: the approximate number of groups.
    :param few: whether one task computes them all, so that another shuffle would only take time.
    """
    files = 1 + groups // _GROUPS_PER_FILE
    if files > 1:
        spread = verdicts.repartitionByRange(files, "group_id")
    else:
        spread = verdicts.coalesce(1) if few else verdicts.repartition(1)
    # Observed after the last shuffle, where Spark counts each task once, even if it is repeated.
    counts = Observation()
    observed = spread.observe(counts, *(count for name in _NAMES for count in _counts(name)))
    with exact_timestamps(verdicts.sparkSession):
        observed.sortWithinPartitions("group_id").write.mode("overwrite").parquet(output)
    found = counts.get
    return {name: {"groups": found[f"{name}_groups"], "lag": found[f"{name}_lag"] or 0} for name in _NAMES}


def rows_on_storage(spark: SparkSession, folder: str) -> int:
    """Return the number of rows of the Parquet files in a folder from their footers, without a Spark job."""
    storage = Storage(spark, folder)
    return storage.count_rows(f"{folder}/{name}" for name in storage.files(folder) if is_data_file(name))


def _counts(name: str) -> tuple[Column, Column]:
    of_it = F.col("verdict") == name
    return F.count_if(of_it).alias(f"{name}_groups"), F.sum(F.when(of_it, F.col("lag"))).alias(f"{name}_lag")
