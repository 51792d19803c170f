"""Measure the data source beside the core: ``python -m tests.bench_spark.reading BOOTSTRAP PREFIX --cores N``.

Both list the groups, fetch all committed offsets and make Arrow of them; neither asks for the ends of the logs. They
take turns, so that other work on the machine slows both. Spark's start is measured apart: the session with a first
read, which starts Python on the workers, and what a query of as many tasks takes that does nothing. Prints JSON:
for each, samples of (seconds, processor seconds of this process and all it started, so of no broker).
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.kafka import AdminClient, ClientConfig
from airflow_kafka_groups.kafka.admin.arrow import to_arrow
from airflow_kafka_groups.spark.source import register
from tests.bench_spark.idle import IdleSource
from tests.bench_spark.session import start_session, taken

CORE_COLUMNS = "group_id,topic,partition,committed_offset,leader_epoch,metadata"
"""The columns that the core's Arrow table has, too."""


async def core(bootstrap: str, prefix: str) -> int:
    """Read with the core alone, connecting included, as each task of the source does; give the rows."""
    async with AdminClient(ClientConfig.from_librdkafka({"bootstrap.servers": bootstrap})) as admin:
        listed = (await admin.list_groups()).require_complete()
        wanted = [group_id for group_id in listed if group_id.startswith(prefix)]
        results = await admin.list_consumer_group_offsets(wanted)
        results.raise_for_errors()
        return int(to_arrow(results.succeeded.values()).num_rows)


def frame(spark: SparkSession, bootstrap: str, include: str, columns: str | None = None) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "include": include, "with.lag": "false"}
    options |= {} if columns is None else {"columns": columns}
    return spark.read.format("kafka_groups").options(**options).load()


def consume(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    size = parser.parse_args()
    began = time.monotonic()
    spark = start_session(size.cores)
    register(spark)
    consume(frame(spark, size.bootstrap, "no-group-at-all"))
    start = round(time.monotonic() - began, 3)
    spark.dataSource.register(IdleSource)
    read = frame(spark, size.bootstrap, f"{size.prefix}*")
    tasks = read.rdd.getNumPartitions()
    rows = asyncio.run(core(size.bootstrap, size.prefix))
    began = time.monotonic()
    assert read.count() == rows, "the source and the core read different rows"
    first = round(time.monotonic() - began, 3)
    work: dict[str, Callable[[], object]] = {
        "core": lambda: asyncio.run(core(size.bootstrap, size.prefix)),
        "source": lambda: consume(frame(spark, size.bootstrap, f"{size.prefix}*")),
        "same": lambda: consume(frame(spark, size.bootstrap, f"{size.prefix}*", CORE_COLUMNS)),
        "idle": lambda: consume(spark.read.format("idle").option("tasks", str(tasks)).load()),
    }
    turns = [{name: taken(once) for name, once in work.items()} for _ in range(size.repeat + 1)]
    spark.stop()
    samples = {name: [turn[name] for turn in turns[1:]] for name in work}  # in the first, code is compiled
    print(json.dumps({"start": start, "first": first, "tasks": tasks, **samples}))


if __name__ == "__main__":
    main()
