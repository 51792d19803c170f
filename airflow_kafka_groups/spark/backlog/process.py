"""Processing of exactly the unread records of a group, followed by a commit: the library of ``process_group_backlog``.

In a notebook or an application of your own::

    summary = process_backlog(spark, load_properties(spark, "kafka.properties"), "orders", my_function)

1. *Look*: the group must not be in use; its commits and the log ends define what to read (``unread.ranges``).
2. *Record*: what is to be read, and that this process begins (``unread.record``). A restart continues from the record.
3. *Read and process*, a slice at a time: a bounded DataFrame is passed to the function. If it raises, nothing of the
   slice is committed.
4. *Commit* the slice: only if the group was not used meanwhile (``unread.commit``).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from airflow_kafka_groups.exceptions import JobError
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.kafka.admin import KafkaAdmin
from airflow_kafka_groups.spark.kafka.properties import KafkaProperties
from airflow_kafka_groups.spark.kafka.reader import read_ranges
from airflow_kafka_groups.spark.program import warn
from airflow_kafka_groups.spark.session import SPARK_ERRORS, options_hidden
from airflow_kafka_groups.spark.unread.attempt import Attempt, resume_or_begin
from airflow_kafka_groups.spark.unread.ranges import BacklogContext, with_context
from airflow_kafka_groups.spark.unread.record import Record, open_record
from airflow_kafka_groups.spark.unread.request import BacklogRequest, look

_READ_WAIT_MS = 10_000
"""How long Spark may take to report queries that have ended."""


def process_backlog(
    spark: SparkSession,
    properties: KafkaProperties,
    request: BacklogRequest | str,
    handle: Callable[..., Any],
    *,
    options: Mapping[str, str] | None = None,
    records: str | None = None,
    into: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Pass the unread records to a function, and commit when it returns; return the summary.

    :param spark: the session; it must have the Kafka connector.
    :param request: the request; a group id means all its topics.
    :param handle: takes the records as returned by Spark's Kafka source and, if it has a parameter ``context`` or a
        second one without a default, a ``BacklogContext``.
    :param options: further options of Spark's Kafka source.
    :param records: folder in which the work is recorded, so that a restart continues it. Default: no record; a restart
        then begins at the group's commits, and does not know what was processed before.
    :param into: the dictionary of the summary; it is filled also if an error is raised. Default: a new one.

    Raises whatever the function raises, without a commit of its slice; ``NotCommittedError`` if a slice is processed
    but the group was used meanwhile; ``NotVerifiedError`` if a commit was sent and cannot be read back; ``JobError``
    for all problems noticed before.
    """
    asked = BacklogRequest(group_id=request) if isinstance(request, str) else request
    started = time.monotonic()
    found = {} if into is None else into
    with options_hidden(spark), KafkaAdmin(spark, properties) as admin:
        if asked.commit and (reason := properties.why_unchangeable(asked.group_id)):
            raise JobError(f"{reason}, so nothing can be committed: nothing was read")
        fetched_from = asked.fetched.kafka_cluster_id if asked.fetched else None
        cluster_id = admin.cluster_id(fetched_from, "the offsets were fetched from")
        record = Record()
        if records is not None:
            record = open_record(storage_of(spark, records), records, cluster_id, asked.group_id)
        observed = look(admin, asked)
        record, run = resume_or_begin(admin, asked, observed, record)
        attempt = Attempt(admin, record, run, observed, cluster_id, warn)
        function = with_context(handle)

        def process(context: BacklogContext) -> bool:
            rows, was_read = reads_of(
                read_ranges(spark, properties, context.ranges, isolation_level=asked.isolation_level, options=options)
            )
            function(rows, context)
            return was_read()

        failed = True
        try:
            attempt.do(process)
            failed = False
        finally:
            found |= {**attempt.summary(failed), "warnings": attempt.warnings}
            found["seconds"] = round(time.monotonic() - started, 1)
    return found


def reads_of(rows: DataFrame) -> tuple[DataFrame, Callable[[], bool]]:
    """Return the rows, observed, and a function that returns whether a query has read them, in any thread or job group.

    Spark reports nothing of rows that are read as an RDD; they count as unread.
    """
    observation = Observation(f"reads-{uuid.uuid4().hex[:8]}")
    observed = rows.observe(observation, F.count(F.lit(1)).alias("rows"))

    def was_read() -> bool:
        bus: Any = rows.sparkSession._jsc.sc().listenerBus()
        with suppress(*SPARK_ERRORS):  # a busy application has more to report
            bus.waitUntilEmpty(_READ_WAIT_MS)  # what a query that has ended reports is in it
        # In Python, one can only wait for a query, forever if there is none. One that failed did read.
        jvm_observation: Any = observation._jo
        return bool(jvm_observation.future().isCompleted())

    return observed, was_read
