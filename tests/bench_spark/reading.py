"""Measure the data source beside the core: ``python -m tests.bench_spark.reading BOOTSTRAP PREFIX --cores N``.

Both list the groups, fetch all committed offsets and make Arrow of them; neither asks for the ends of the logs. Spark's
start is measured apart: the session, and a first read of no groups, which starts Python on the workers. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.admin import AdminClient, ClientConfig
from airflow_kafka_groups.admin.arrow import to_arrow
from airflow_kafka_groups.spark.source import register


async def core(bootstrap: str, prefix: str) -> int:
    """Read with the core alone, connecting included, as each task of the source does; give the rows."""
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        listed = (await admin.list_groups()).require_complete()
        wanted = [group_id for group_id in listed if group_id.startswith(prefix)]
        results = await admin.list_consumer_group_offsets(wanted)
        results.raise_for_errors()
        return int(to_arrow(results.succeeded.values()).num_rows)


def frame(spark: SparkSession, bootstrap: str, include: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "include": include, "with.lag": "false"}
    return spark.read.format("kafka_groups").options(**options).load()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    size = parser.parse_args()
    asyncio.run(core(size.bootstrap, size.prefix))  # the brokers' caches are warm for both
    core_seconds, rows = [], 0
    for _ in range(size.repeat):
        began = time.monotonic()
        rows = asyncio.run(core(size.bootstrap, size.prefix))
        core_seconds.append(round(time.monotonic() - began, 3))
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
    }
    began = time.monotonic()
    spark = SparkSession.builder.master(f"local[{size.cores}]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    frame(spark, size.bootstrap, "no-group-at-all").write.format("noop").mode("overwrite").save()
    start = round(time.monotonic() - began, 3)
    spark_seconds = []
    for _ in range(size.repeat + 1):
        began = time.monotonic()
        frame(spark, size.bootstrap, f"{size.prefix}*").write.format("noop").mode("overwrite").save()
        spark_seconds.append(round(time.monotonic() - began, 3))
    read = frame(spark, size.bootstrap, f"{size.prefix}*")
    assert read.count() == rows, "the source and the core read different rows"
    spark.stop()
    print(json.dumps({"core": core_seconds, "start": start, "first": spark_seconds[0], "source": spark_seconds[1:]}))


if __name__ == "__main__":
    main()
