"""Spark's own errors, and what helps."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

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
