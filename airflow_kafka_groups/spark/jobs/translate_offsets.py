"""Translate committed offsets into those of mirrors in another cluster, by comparing payloads.

MigrateGroupOffsetsOperator submits it and plans by its output. A task reads the records around some thousand offsets in
both clusters, so Python on the executors needs the packages of the data source kafka_groups, and Kafka's client.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from airflow_kafka_groups.exceptions import ConfigurationError, JobError
from airflow_kafka_groups.spark.bundle import ship
from airflow_kafka_groups.spark.hadoop_storage import storage_of
from airflow_kafka_groups.spark.program import Program, logged
from airflow_kafka_groups.spark.session import prepare
from airflow_kafka_groups.storage.formats import FORMAT

if TYPE_CHECKING:
    from airflow_kafka_groups.observe.mirrors.batches import PlaceRow, TranslatedRow
    from airflow_kafka_groups.spark.source.options import SourceOptions

JOB = "translate_offsets"
_OF_A_TASK = 2_000
"""Offsets: enough to be worth two connections, and few enough that the records around them are a few ten megabytes."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--places", required=True, metavar="PATH", help="JSON of the offsets and of their partitions' counterparts")
    for cluster in ("source", "target"):
        words = f"librdkafka settings of the {cluster}: the bare name of a file of --files, or its path on all machines"
        add(f"--{cluster}-settings", required=True, metavar="FILE", help=words)
    positions = ("at-or-before", "exact", "at-or-after")
    add("--position", choices=positions, default=positions[0], help="which bound to take (default at-or-before)")
    add("--output", required=True, metavar="PATH", help="JSON file of the translations")


def run(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the translations, and return the summary."""
    # The clients of the core, which no other job needs.
    from airflow_kafka_groups.spark.source.options import SourceOptions

    started = time.monotonic()
    warnings = logged(prepare(spark))
    ship(spark)
    try:
        source = SourceOptions.parse({"config.file": arguments.source_settings})
        target = SourceOptions.parse({"config.file": arguments.target_settings})
        for each in (source, target):
            each.client_config()
    except ConfigurationError as exc:
        raise JobError(str(exc)) from exc
    storage = storage_of(spark, arguments.places)
    if (content := storage.read(arguments.places)) is None:
        raise JobError(f"there is no {arguments.places}")
    places = json.loads(content)["places"]
    # A task gets offsets that follow one another, whose records are read in one go.
    tasks = [places[start : start + _OF_A_TASK] for start in range(0, len(places), _OF_A_TASK)]
    translate = partial(_translated, source, target, arguments.position)
    found = spark.sparkContext.parallelize(tasks, max(len(tasks), 1)).flatMap(translate).collect()
    storage.create(arguments.output, json.dumps({"format": FORMAT, "translated": found}).encode())
    return {
        "job": JOB,
        "places": len(found),
        "tasks": len(tasks),
        "output": arguments.output,
        "warnings": warnings,
        "seconds": round(time.monotonic() - started, 1),
    }


def _translated(
    source: SourceOptions, target: SourceOptions, position: str, rows: Sequence[PlaceRow]
) -> list[TranslatedRow]:
    from airflow_kafka_groups.kafka.maintenance_client import MaintenanceClient
    from airflow_kafka_groups.observe.mirrors.batches import translate_rows
    from airflow_kafka_groups.spark.source.reader import run as run_here

    here, there = (partial(MaintenanceClient, each.client_config()) for each in (source, target))
    return run_here(translate_rows(here, there, position, rows), "executor", "records")


_program = Program(JOB, __doc__, _add_arguments, lambda _: None, run, "Nothing was translated")
parse_arguments, main = _program.parse_arguments, _program.main
