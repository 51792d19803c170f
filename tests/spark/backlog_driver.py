"""Drivers of ``process_group_backlog`` that kill themselves at a place, in the JVM of a session that goes on.

``python -m tests.spark.backlog_driver`` reads a driver from each line, ``["PLACE", "SINKS", "ARGUMENT", …]``, and forks
it; a line with its exit code follows what it writes. A JVM of its own for each of ten kills would cost a minute and a
half, and what drivers import a second each; the state that a restart finds is that of the files and the group.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from airflow_kafka_groups.spark.jobs.process_group_backlog import parse_arguments, run
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.unread.run import ATTEMPT, COMMIT, ENDED, PROCESSED, PROCESSING, RUN, Record

BEFORE_ENTRY, AFTER_ENTRY = "before the entry ", "after the entry "
READ, PLAIN, BOTH = "records are read", "the plain sink is written", "both sinks are written"
BEFORE_COMMIT, AFTER_COMMIT = "before the commit", "after the commit"
PLACES = (
    BEFORE_ENTRY + RUN,
    AFTER_ENTRY + RUN,
    AFTER_ENTRY + ATTEMPT,
    AFTER_ENTRY + PROCESSING,
    READ,
    PLAIN,
    BOTH,
    BEFORE_ENTRY + PROCESSED,
    BEFORE_COMMIT,
    AFTER_COMMIT,
    AFTER_ENTRY + COMMIT,
    BEFORE_ENTRY + ENDED,
)
"""In the order of a slice's life; a driver is killed at the first one after which nothing else happens."""

EXITED = "the driver ended with exit code "

place, sinks = "", Path()


def reached(here: str) -> None:
    if here == place:
        os.kill(os.getpid(), signal.SIGKILL)


def around(owner: Any, name: str, before: Callable[..., str], after: Callable[..., str]) -> None:
    """Reach a place before and after a method."""
    method = getattr(owner, name)

    def wrapped(self: Any, *given: Any, **more: Any) -> Any:
        reached(before(*given))
        found = method(self, *given, **more)
        reached(after(*given))
        return found

    setattr(owner, name, wrapped)


def sink(records: DataFrame, context: Any) -> None:
    """Write what is read twice: to a file that grows, and to a folder of the slice that is overwritten."""
    rows = [(row["topic"], row["partition"], row["offset"]) for row in records.collect()]
    reached(READ)
    with (sinks / "plain").open("a") as plain:
        plain.writelines(f"{json.dumps([context.attempt, *row])}\n" for row in rows)
    reached(PLAIN)
    records.write.mode("overwrite").parquet(f"{sinks}/once/{context.run_id}-{context.slice}")
    reached(BOTH)


def session() -> SparkSession:
    """Return a session in the JVM that ``PYSPARK_GATEWAY_PORT`` names."""
    gateway = launch_gateway()
    jvm: Any = gateway.jvm
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=jvm, _jconf=jsc.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=jsc, conf=conf))


if __name__ == "__main__":
    around(Record, "append", lambda kind: BEFORE_ENTRY + kind, lambda kind: AFTER_ENTRY + kind)
    around(KafkaAdmin, "alter", lambda *_: BEFORE_COMMIT, lambda *_: AFTER_COMMIT)
    sys.modules["backlog_driver_sink"] = sys.modules["__main__"]
    for line in sys.stdin:
        place, folder, *arguments = json.loads(line)
        sinks = Path(folder)
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(f"{EXITED}{code}", flush=True)
            continue
        try:
            summary = run(session(), parse_arguments(["--transform", "backlog_driver_sink:sink", *arguments]))
            print(json.dumps(summary), flush=True)
        except BaseException:  # noqa: BLE001  # it must not go on with the parent's lines
            traceback.print_exc()
            os._exit(1)
        os._exit(0)  # the JVM goes on
