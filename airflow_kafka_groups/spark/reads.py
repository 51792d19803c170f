"""Whether a query of the user's code read a DataFrame, whatever thread or job group ran it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from airflow_kafka_groups.spark.errors import SPARK_ERRORS

_WAIT_S = 10.0
"""How long Spark may take to report a query that has ended."""


def reads_of(rows: DataFrame) -> tuple[DataFrame, Callable[[], bool]]:
    """Return the rows, observed, and a function that returns whether a query has read them.

    Spark reports nothing of rows that are read as an RDD; they count as unread.
    """
    observation = Observation(f"reads-{uuid.uuid4().hex[:8]}")
    observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))

    def wait() -> None:
        with suppress(*SPARK_ERRORS):  # a query that failed did read
            observation.get  # noqa: B018 - waits for the first query

    def was_read() -> bool:
        waiting = Thread(target=wait, name="reads", daemon=True)  # `get` waits forever if there is no query
        waiting.start()
        waiting.join(_WAIT_S)
        return not waiting.is_alive()

    return observed, was_read
