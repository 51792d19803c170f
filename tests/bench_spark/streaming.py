"""Measure the stream of changes: ``python -m tests.bench_spark.streaming BOOTSTRAP PREFIX --groups N``.

The groups are committed to in three partitions each. Prints JSON: the seconds of the first micro-batch, in which all
commits are new and Python starts; of triggers that find no change; and of the largest batch each time that all commits
have moved, for while they do, several batches find some of them.
With ``--idle``: of the first micro-batch of a source that does nothing. With ``--session-up``: in a session that has
read ``kafka_groups`` once, as it is measured by ``reading.py``, so that Spark's start is not part of it.
"""

import argparse
import json
import tempfile
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_kafka_groups.spark.source import register
from tests.bench_spark.idle import IdleSource
from tests.bench_spark.processes import cpu_seconds
from tests.bench_spark.reading import consume, frame
from tests.bench_spark.session import start_session
from tests.lab.workload.groups import seed_groups
from tests.lab.workload.topics import create_topics

_PARTITIONS = 3
_EMPTY = 5
_PATIENCE_SECONDS = 300


class Triggers:
    """The triggers of a query as they come: rows and seconds.

    :param query: the query.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen: set[tuple[int, str]] = set()

    def next(self) -> tuple[int, float]:
        """Wait for the next trigger, which may be without a batch."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if (failed := self._query.exception()) is not None:
                raise RuntimeError(str(failed))
            for progress in self._query.recentProgress:
                key = (progress["batchId"], progress["timestamp"])
                if key not in self._seen:
                    self._seen.add(key)
                    return int(progress["numInputRows"]), progress["durationMs"]["triggerExecution"] / 1000
            time.sleep(0.05)
        raise TimeoutError("no trigger")

    def of(self, rows: int) -> float:
        """Wait for the batches that have these rows between them, and return the seconds of the largest."""
        batches = []
        while rows > 0:
            batches.append(self.next())
            rows -= batches[-1][0]
        assert rows == 0, "a change came twice"
        return max(batches)[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--session-up", action="store_true")
    size = parser.parse_args()
    spark = start_session(2)
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100ms")  # by default, one in ten seconds is told
    found = idle(spark) if size.idle else changes(spark, size)
    spark.stop()
    print(json.dumps(found))


def idle(spark: SparkSession) -> dict[str, list[float]]:
    """Measure the first micro-batch of a source that does nothing: Spark's own part of each first one."""
    spark.dataSource.register(IdleSource)
    with tempfile.TemporaryDirectory() as folder:
        query = _started(spark.readStream.format("idle").load(), folder)
        _, seconds = Triggers(query).next()
        query.stop()
    return {"first": [round(seconds, 3)]}


def changes(spark: SparkSession, size: argparse.Namespace) -> dict[str, list[float]]:
    """Measure the stream of changes."""
    topic = f"{size.prefix}topic"
    names = [f"{size.prefix}{number:06d}" for number in range(size.groups)]
    create_topics(size.bootstrap, {topic: _PARTITIONS})

    def commit(offset: int) -> None:
        seed_groups(size.bootstrap, names, {(topic, partition): offset for partition in range(_PARTITIONS)})

    commit(1)
    register(spark)
    if size.session_up:
        consume(frame(spark, size.bootstrap, "no-group-at-all"))
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "kafka.bootstrap.servers": size.bootstrap,
            "include": f"{size.prefix}*",
            "with.lag": "false",
            "state.path": f"{folder}/state",
            "min.interval.seconds": "0",
        }
        changed = spark.readStream.format("kafka_groups").options(**options).load()
        used = cpu_seconds()
        query = _started(changed, folder)
        triggers, rows = Triggers(query), size.groups * _PARTITIONS
        found: dict[str, list[float]] = {"first": [triggers.of(rows)], "empty": [], "moved": []}
        found["first_cpu"] = [round(cpu_seconds() - used, 3)]
        for number in range(size.repeat):
            for _ in range(_EMPTY):
                none, seconds = triggers.next()
                assert none == 0
                found["empty"].append(seconds)
            commit(number + 2)
            found["moved"].append(triggers.of(rows))
        query.stop()
    return found


def _started(rows: DataFrame, folder: str) -> StreamingQuery:
    writer = rows.writeStream.format("parquet").option("path", f"{folder}/changes")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


if __name__ == "__main__":
    main()
