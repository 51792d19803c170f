"""The versions that the Spark jobs are made for."""

from __future__ import annotations

TESTED_SPARK = "4.2"
"""The minor version of Spark with which the jobs are tested."""

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""

KAFKA_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
"""The Kafka connector on Maven Central; its version must be Spark's."""
