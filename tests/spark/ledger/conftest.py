"""A database of the session's catalogue."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE akg LOCATION '{tmp_path.as_uri()}/warehouse'")
    yield "spark_catalog.akg"
    spark.sql("DROP DATABASE akg CASCADE")
