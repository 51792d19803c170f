"""Translate committed offsets into those of mirrors in another cluster, by comparing payloads.

MigrateGroupOffsetsOperator submits it and plans by its output. A task reads the records around some thousand offsets in
both clusters, so Python on the executors needs the packages of the data source kafka_groups, and Kafka's client.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from airflow_kafka_groups.exceptions import ConfigurationError, JobError
from airflow_kafka_groups.spark.bundle import ship
from airflow_kafka_groups.spark.frames import read_stored, write_own
from airflow_kafka_groups.spark.hadoop_storage import require_shared, storage_of
from airflow_kafka_groups.spark.options import folder_path
from airflow_kafka_groups.spark.preflight import prepare, require_arrow
from airflow_kafka_groups.spark.program import Program, logged
from airflow_kafka_groups.storage.job_outputs import require_replaceable

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_kafka_groups.spark.source.options import SourceOptions

JOB = "translate_offsets"
_OF_A_TASK = 2_000
"""Offsets: enough to be worth two connections, and few enough that the records around them are a few ten megabytes."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--places", required=True, metavar="PATH", help="Parquet of the offsets and of their partitions' counterparts")
    for cluster in ("source", "target"):
        words = f"librdkafka settings of the {cluster}: the bare name of a file of --files, or its path on all machines"
        add(f"--{cluster}-settings", required=True, metavar="FILE", help=words)
    positions = ("at-or-before", "exact", "at-or-after")
    add("--position", choices=positions, default=positions[0], help="which bound to take (default at-or-before)")
    add("--output", required=True, type=folder_path, help="folder of the translations")


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the translations, and return the summary."""
    # The clients of the core, which no other job needs.
    from airflow_kafka_groups.observe.mirrors.batches import PLACES, TRANSLATIONS
    from airflow_kafka_groups.spark.source.options import SourceOptions

    started = time.monotonic()
    warnings = logged(prepare(spark))
    require_shared(spark, arguments.output)
    require_replaceable(storage_of(spark, arguments.output), arguments.output, TRANSLATIONS.names)
    ship(spark)
    require_arrow(spark)
    try:
        source = SourceOptions.parse({"config.file": arguments.source_settings})
        target = SourceOptions.parse({"config.file": arguments.target_settings})
        for each in (source, target):
            each.client_config()
    except ConfigurationError as exc:
        raise JobError(str(exc)) from exc
    places = read_stored(spark, from_arrow_schema(PLACES)).parquet(arguments.places)
    by = ("topic", "partition", "offset")
    parts = max(1, -(-places.count() // _OF_A_TASK))
    # A task gets offsets that follow one another, whose records are read in one go.
    in_order = places.repartitionByRange(parts, *by).sortWithinPartitions(*by)
    found = in_order.mapInArrow(
        partial(_translated, source, target, arguments.position), from_arrow_schema(TRANSLATIONS)
    )
    written = write_own(found, arguments.output, "translated")
    return {
        "job": JOB,
        "places": written,
        "tasks": parts,
        "output": arguments.output,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }


def _translated(
    source: SourceOptions, target: SourceOptions, position: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.observe.mirrors.batches import translate_batch
    from airflow_kafka_groups.spark.source.reader import run as run_here

    here, there = (partial(MaintenanceClient, each.client_config()) for each in (source, target))
    for batch in batches:
        if batch.num_rows:
            yield run_here(translate_batch(here, there, position, batch), "executor", "records")


_program = Program(JOB, __doc__, _add_arguments, lambda _: None, run, "Nothing was translated")
parse_arguments, main = _program.parse_arguments, _program.main
