"""The session of a job: the user's or one of its own, what it needs, its settings, which are put back, and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from threading import RLock, Thread
from typing import Any

import pyspark
from py4j.java_gateway import java_import  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.shown import first_line
from airflow_kafka_groups.spark.requirements import KAFKA_CONNECTOR, TESTED_SPARK, TESTED_WITH, unequal_client

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""Translated ones, and raw ones from the JVM."""

_REMEDIES = {
    ("maxResultSize",): "give the driver more by spark.driver.maxResultSize",
    ("Java heap space", "GC overhead limit", "OutOfMemoryError"): (
        "give the executors more by spark.executor.memory (with a local master, spark.driver.memory), or each of them "
        "fewer tasks by spark.executor.cores"
    ),
    ("MemoryError", "malloc of size", "Python worker exited unexpectedly", "memory limits", "exit code 137"): (
        "give Python on the executors more by spark.executor.memoryOverhead, or each of them fewer tasks by "
        "spark.executor.cores"
    ),
    ("ModuleNotFoundError", "PACKAGE_NOT_INSTALLED", "Cannot run program", "PYTHON_VERSION_MISMATCH"): (
        "give Python on the executors what it lacks, in the driver's version (jobs need pyarrow and numpy, on the "
        "driver also pandas), or name one that has it by PYSPARK_PYTHON (a packed one: --archives)"
    ),
    ("failed to map segment",): "give Python on the executors more by spark.executor.pyspark.memory, or leave it out",
    ("ExecutorLostFailure", "executor lost", "Executor heartbeat timed out", "MetadataFetchFailed"): (
        "if the executors had too little memory, give them more by spark.executor.memory and "
        "spark.executor.memoryOverhead; if their machines are taken away, allow more tries by spark.task.maxFailures"
    ),
}
"""Parts of messages, and the setting that helps; the first that fits."""


def remedy_of(exc: Exception) -> str:
    """Return the setting that helps against an error of Spark's, as a sentence to append; empty if none is known."""
    text = str(exc)
    found = (what for signs, what in _REMEDIES.items() if any(sign in text for sign in signs))
    return next((f". {what[0].upper()}{what[1:]}" for what in found), "")


TIME_ZONE = "spark.sql.session.timeZone"
_REDACTED = "spark.sql.redaction.options.regex"
HIDDEN_OPTIONS = "(?i)url|secret|password|token|jaas|credential|[.]key|certificate"

_CALL_SITES = "spark.python.sql.dataFrameDebugging.enabled"


@contextmanager
def session_of(job: str, imports: Sequence[str] = ()) -> Iterator[SparkSession]:
    """Return the session until the end of the block, and put the settings back that the job changes.

    Jobs in several threads of one session run one after the other: the settings are the session's.

    :param imports: modules to import while the JVM starts a session, which takes as long. None of them imports pyspark.

    Raises ``JobError`` if Spark does not start.
    """
    with ExitStack() as ends:
        spark = running_session()
        if spark is None:
            Thread(target=_import, args=(imports,), daemon=True).start()
            spark = _start(job)
            ends.callback(spark.stop)
        ends.enter_context(options_hidden(spark))
        ends.enter_context(settings_of(spark, {TIME_ZONE: None}))
        yield spark


def _import(modules: Sequence[str]) -> None:
    with suppress(ImportError):  # reported by what needs it
        for name in modules:
            import_module(name)


def _start(job: str) -> SparkSession:
    # Recording the Python call site of each column is useful only in notebooks, and doubles the calls to the JVM.
    try:
        return SparkSession.builder.appName(job).config(_CALL_SITES, "false").getOrCreate()
    except (OSError, *SPARK_ERRORS) as exc:  # also where SPARK_HOME has no spark-submit
        print(exc, file=sys.stderr)
        remedy = "Check what it wrote above, that Java 17 or newer is there (JAVA_HOME, or java on the PATH), and that "
        remedy += f"the master ({SparkConf().get('spark.master', 'local')}) runs and can be reached"
        raise JobError(f"Spark does not start: {first_line(exc)} {remedy}") from exc


def jvm_of(spark: SparkSession, what: str) -> Any:
    """Return the driver's JVM. Raises ``JobError`` for a session of Spark Connect, whose driver runs elsewhere.

    :param what: what needs the JVM, as the subject of a sentence.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise JobError(
            f"{what} needs the driver's JVM, and this is a Spark Connect session, which has none: run the job by "
            "spark-submit, or in a classic session, without SPARK_REMOTE"
        )
    return jvm


def running_session() -> SparkSession | None:
    """Return the session that somebody else has started, ``None`` if there is none."""
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


_DATASOURCES = "org.apache.spark.sql.execution.datasources"
PARTITION_BY_PARTITION = {
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.sources.commitProtocolClass": f"{_DATASOURCES}.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
"""Settings for a write that replaces the partitions of its rows and no others.

The committers are Spark's defaults. Its committer for S3, which it takes as soon as spark-hadoop-cloud is there,
refuses such a write.
"""

_ONE_AT_A_TIME = RLock()


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Change settings of the session within the block, in one thread at a time, and put them back as they were.

    :param settings: their names and values; ``None`` for one that the block may change.
    """
    with _ONE_AT_A_TIME:
        before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                if value is not None:
                    spark.conf.set(name, value)
            yield
        finally:
            for name, found in before.items():
                spark.conf.unset(name) if found is None else spark.conf.set(name, found)


@contextmanager
def options_hidden(spark: SparkSession) -> Iterator[None]:
    """Redact the options of data sources in plans and logs within the block, besides what the user's session redacts.

    Raises ``JobError`` for a session of Spark Connect.
    """
    jvm_of(spark, "a job")  # which names the session
    with _ONE_AT_A_TIME:
        users = spark.conf.get(_REDACTED, None)
        with settings_of(spark, {_REDACTED: f"(?:{users})|(?:{HIDDEN_OPTIONS})" if users else HIDDEN_OPTIONS}):
            yield


_CONNECTOR_CLASSES = {
    "spark-sql-kafka-0-10": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "spark-token-provider-kafka-0-10": "org.apache.spark.kafka010.KafkaTokenUtil",
    "kafka-clients": "org.apache.kafka.clients.admin.AdminClient",
    "commons-pool2": "org.apache.commons.pool2.impl.GenericKeyedObjectPool",
}
_ASKED_FOR_BARELY = ("org.apache.spark.sql.functions", "org.apache.spark.api.python.PythonUtils")


def version_warnings(python_side: str, cluster_side: str) -> list[str]:
    """Compare the Spark versions of both sides with each other and with the tested one."""
    warnings = []
    if python_side != cluster_side:
        warnings.append(f"pyspark {python_side} drives Spark {cluster_side}: install the same version on both sides")
    if cluster_side.rsplit(".", 1)[0] not in TESTED_SPARK:
        warnings.append(f"this job is tested with Spark {TESTED_WITH} and runs on {cluster_side}: check its output")
    return warnings


def prepare(spark: SparkSession) -> list[str]:
    """Set the session to UTC and return the warnings about its versions. Spark Connect is refused."""
    jvm = jvm_of(spark, "a job")
    spark.conf.set(TIME_ZONE, "UTC")
    # PySpark refers to these by their simple names for nearly every column, and the JVM then searches package after
    # package, each time through all jars. Imported by full name, they are found immediately.
    for name in _ASKED_FOR_BARELY:
        java_import(jvm, name)
    problem = unequal_client()
    return [*([problem] if problem else []), *version_warnings(pyspark.__version__, spark.version)]


def prepare_kafka(spark: SparkSession) -> list[str]:
    """Prepare a session that reads Kafka: as ``prepare`` does, and check the connector.

    Raises ``JobError`` naming a missing jar or a wrong version.
    """
    warnings = prepare(spark)
    versions = {jar: _jar_version(spark, name) for jar, name in _CONNECTOR_CLASSES.items()}
    missing = [jar for jar, version in versions.items() if version is None]
    remedy = f"submit with --packages {KAFKA_CONNECTOR}:{spark.version}, or with its jars in --jars (without "
    remedy += "spark-submit: in PYSPARK_SUBMIT_ARGS, with pyspark-shell after it)"
    if missing:
        jars = "Kafka connector" if len(missing) == len(versions) else " and no ".join(missing)
        raise JobError(f"Spark has no {jars} on its class path, so it cannot read Kafka: {remedy}")
    connector = versions["spark-sql-kafka-0-10"]  # empty in a jar that a site has packed
    if connector and connector.rpartition(".")[0] != spark.version.rpartition(".")[0]:
        raise JobError(f"the Kafka connector is of Spark {connector}, and this is Spark {spark.version}: {remedy}")
    return warnings


def _jar_version(spark: SparkSession, class_name: str) -> str | None:
    """Return the version of the jar with a class, empty if it has none; ``None`` if the class is missing."""
    jvm: Any = spark._jvm
    try:
        found = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(class_name)
    except SPARK_ERRORS:
        return None
    package = found.getPackage()
    return str((package.getImplementationVersion() if package is not None else None) or "")
