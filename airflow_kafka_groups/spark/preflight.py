"""Checks at the start of a job for problems that would make it fail, or report wrong results, later."""

from __future__ import annotations

from typing import Any

import pyspark
from py4j.java_gateway import java_import  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.requirements import (
    KAFKA_CONNECTOR,
    TESTED_SPARK,
    TESTED_WITH,
    unequal_client,
)
from airflow_kafka_groups.spark.session import SPARK_ERRORS, TIME_ZONE, jvm_of

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
    warnings += connector_warnings(versions["spark-sql-kafka-0-10"] or "", spark.version, remedy)
    return warnings


def connector_warnings(connector: str, cluster_side: str, remedy: str) -> list[str]:
    """Compare the connector's version with Spark's: another minor version is an error, another patch version a warning.

    :param connector: its version; empty if the jar has none, as one that a site has packed.
    """
    if connector in ("", cluster_side):
        return []
    says = f"the Kafka connector is of Spark {connector}, and this is Spark {cluster_side}"
    if connector.rsplit(".", 1)[0] != cluster_side.rsplit(".", 1)[0]:
        raise JobError(f"{says}: {remedy}")
    return [f"{says}: {remedy}"]


def _jar_version(spark: SparkSession, class_name: str) -> str | None:
    """Return the version of the jar with a class, empty if it has none; ``None`` if the class is missing."""
    jvm: Any = spark._jvm
    try:
        found = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(class_name)
    except SPARK_ERRORS:
        return None
    package = found.getPackage()
    return str((package.getImplementationVersion() if package is not None else None) or "")
