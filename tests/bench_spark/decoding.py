"""Measure how fast commits are decoded: ``python -m tests.bench_spark.decoding --records N --cores N``.

Made-up records lie in Parquet, and every one, or the newest of each key, is decoded in Arrow batches as commit_history
does, and thrown away. Prints seconds and processor seconds of each as JSON.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_kafka_groups.observe.offsets_topic.scan import SCAN_SCHEMA, decode
from airflow_kafka_groups.spark.kafka.offsets_topic import scan
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
        forms = {
            "arrow": records.mapInArrow(decode_every, SCAN_SCHEMA),
            "newest": records.transform(scan),
        }
        found = {}
        for name, form in forms.items():
            samples = [taken(form.write.format("noop").mode("overwrite").save) for _ in range(size.repeat + 1)]
            found[name] = samples[1:]  # in the first, code is compiled and workers start
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
