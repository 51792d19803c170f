"""Measure how fast commits are decoded: ``python -m tests.bench_spark.decoding --records N --cores N``.

Made-up records lie in Parquet, and every one is decoded and thrown away: in Arrow batches as commit_history does, and
by SQL functions alone, which need no Python on executors. Prints seconds and processor seconds of each as JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_kafka_groups.observe.offsets_topic.scan import CARRIED, SCAN_SCHEMA, decode
from airflow_kafka_groups.spark.frames import by_value
from airflow_kafka_groups.spark.offsets_topic.reading import scan
from tests.bench_spark.session import start_session, taken
from tests.histories.offset_records import commit_key, commit_value

_FILES = 8


def write_records(folder: Path, records: int) -> None:
    """Write commits of groups of 20 partitions, as Spark's Kafka source gives them; versions 1, 3 and 4."""
    for file in range(_FILES):
        numbers = range(file * records // _FILES, (file + 1) * records // _FILES)
        table = pa.table(
            {
                "key": pa.array(
                    [commit_key(f"service-{n // 20:06d}", f"topic-{n // 20 % 100:03d}", n % 20) for n in numbers],
                    pa.binary(),
                ),
                "value": pa.array([commit_value((1, 3, 4, 4)[n % 4], n * 7, epoch=5) for n in numbers], pa.binary()),
                "partition": pa.array([file] * len(numbers), pa.int32()),
                "offset": pa.array(list(numbers), pa.int64()),
                "timestamp": pa.array([0] * len(numbers), pa.timestamp("us", tz="UTC")),
            }
        )
        pq.write_table(table, folder / f"part-{file}.parquet")


def decode_every(batches: Iterable[Any]) -> Iterator[Any]:
    """Decode all records of a task, the outdated ones too."""
    for batch in batches:
        yield from decode(pa.Table.from_batches([batch]), Counter())


def integer(column: str, at: str, size: int) -> str:
    """Read a big-endian integer by SQL functions; ``at`` counts from 1."""
    base = "-10" if size == 8 else "10"
    return f"cast(conv(hex(substring({column}, {at}, {size})), 16, {base}) as {'bigint' if size == 8 else 'int'})"


def by_sql(records: DataFrame) -> DataFrame:
    """Decode commits by SQL functions; metadata of up to 16,000 bytes."""
    steps = records.withColumn("gl", F.expr(integer("key", "3", 2))).withColumn("tl", F.expr(integer("key", "5+gl", 2)))
    steps = steps.withColumn("v", F.expr(integer("value", "1", 2)))
    steps = steps.withColumn("mp", F.expr("case when v >= 3 then 15 else 11 end"))
    steps = steps.withColumn("b0", F.expr(integer("value", "mp", 1))).withColumn(
        "b1", F.expr(integer("value", "mp+1", 1))
    )
    compact = "when b0 < 128 then b0-1 else (b0-128)+b1*128-1 end"
    steps = steps.withColumn("ml", F.expr(f"case when v < 4 then b0*256+b1 {compact}"))
    steps = steps.withColumn("mh", F.expr("case when v >= 4 and b0 < 128 then 1 else 2 end"))
    return steps.selectExpr(
        "decode(substring(key, 5, gl), 'UTF-8') as group_id",
        "decode(substring(key, 7+gl, tl), 'UTF-8') as topic",
        f"{integer('key', '7+gl+tl', 4)} as partition",
        f"{integer('value', '3', 8)} as committed_offset",
        "decode(substring(value, mp+mh, ml), 'UTF-8') as metadata",
        f"timestamp_millis({integer('value', 'mp+mh+ml', 8)}) as committed_at",
    )


def newest_by_sql(records: DataFrame) -> DataFrame:
    """Keep the newest record of each key, as ``scan`` does, by a shuffle."""
    last = F.max_by(F.struct("value", "offset", "timestamp"), "offset").alias("last")
    return records.groupBy("partition", "key").agg(last).select("partition", "key", "last.*")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_200_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    size = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_records(Path(folder), size.records)
        spark = start_session(size.cores)
        records = spark.read.parquet(folder)
        every, newest = records.mapInArrow(by_value(decode_every, *CARRIED), SCAN_SCHEMA), records.transform(scan)
        assert (
            every.where("kind = 'commit'").agg(F.sum("committed_offset")).collect()
            == by_sql(records).agg(F.sum("committed_offset")).collect()
        ), "the two ways decode differently"
        by_key = by_sql(records.transform(newest_by_sql))
        forms = {"arrow": every, "newest": newest, "sql": by_sql(records), "sql_newest": by_key}
        found = {}
        for name, form in forms.items():
            samples = [taken(form.write.format("noop").mode("overwrite").save) for _ in range(size.repeat + 1)]
            found[name] = samples[1:]  # in the first, code is compiled and workers start
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
