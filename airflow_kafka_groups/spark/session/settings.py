"""The user's session: what needs its JVM, and settings that are put back as they were found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError

_DATASOURCES = "org.apache.spark.sql.execution.datasources"


def jvm_of(spark: SparkSession, what: str) -> Any:
    """Return the driver's JVM.

    :param what: what needs the JVM, as the subject of a sentence.

    Raises ``JobError`` for a session of Spark Connect, whose driver runs elsewhere.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise JobError(
            f"{what} needs the driver's JVM, and this is a Spark Connect session, which has none: run the job by "
            "spark-submit, or in a classic session, without SPARK_REMOTE"
        )
    return jvm


def running_session() -> SparkSession | None:
    """Return the session that somebody else has started, ``None`` if there is none.

    In a thread of the user's, a session is the default one, and not the active one.
    """
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    context = getattr(found, "_sc", None)  # a session of Spark Connect has none
    is_stopped = context is not None and context._jsc is None
    return None if is_stopped else found


def runs_locally(spark: SparkSession) -> bool:
    """Return whether the driver's process is all there is of the cluster."""
    return str(spark.sparkContext.master).startswith("local")


PARTITION_BY_PARTITION = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.sources.commitProtocolClass": f"{_DATASOURCES}.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
"""Settings for a write that replaces the partitions of its rows and no others.

The committers are Spark's defaults. Its committer for S3, which it takes as soon as spark-hadoop-cloud is there,
refuses such a write.
"""


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Change settings of the session within the block, and put them back as they were.

    :param settings: their names and values; ``None`` for one that the block may change.
    """
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            if value is not None:
                spark.conf.set(name, value)
        yield
    finally:
        for name, found in before.items():
            spark.conf.unset(name) if found is None else spark.conf.set(name, found)


_blocks: dict[tuple[str, str], tuple[int, str | None]] = {}
"""The number of blocks that keep a setting, by session and setting, and the value that it had before them."""

_COUNTS = Lock()


@contextmanager
def settings_kept(spark: SparkSession, *names: str) -> Iterator[Mapping[str, str | None]]:
    """Put settings that the block changes back, and return what they were.

    Of several blocks at once, in threads of one session, the last one to end does so: the others need what it changed.

    Raises ``JobError`` for a session of Spark Connect.
    """
    jvm_of(spark, "a job")  # which names the session
    session = str(spark._jsparkSession.sessionUUID())
    users: dict[str, str | None] = {}
    with _COUNTS:
        for name in names:
            blocks, users[name] = _blocks.get((session, name)) or (0, spark.conf.get(name, None))
            _blocks[session, name] = blocks + 1, users[name]
    try:
        yield users
    finally:
        with _COUNTS:
            for name, found in users.items():
                blocks, _ = _blocks.pop((session, name))
                if blocks > 1:
                    _blocks[session, name] = blocks - 1, found
                else:
                    spark.conf.unset(name) if found is None else spark.conf.set(name, found)


_WRITES = RLock()


@contextmanager
def settings_of_write(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Change settings as ``settings_of`` does, in one thread at a time.

    The settings are the session's. What a job in another thread puts back as it was, such as Spark's default to replace
    complete tables, would count for this one's write.
    """
    with _WRITES, settings_of(spark, settings):
        yield
