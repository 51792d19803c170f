"""What the programs of this bench share: Spark in their own process, and what a piece of work takes there."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tests.bench_spark.processes import cpu_seconds


def start_session(cores: int) -> SparkSession:
    """Start Spark in this process."""
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def taken(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the processor seconds that a piece of work takes."""
    began, used = time.monotonic(), cpu_seconds()
    work()
    return round(time.monotonic() - began, 3), round(cpu_seconds() - used, 3)
