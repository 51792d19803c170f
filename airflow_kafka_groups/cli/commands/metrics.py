"""Write the OpenMetrics file of a judged snapshot, for a scraper. No cluster is accessed."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.options import absolute_place
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_pattern_arguments, filter_of
from airflow_kafka_groups.hooks.arguments import read_integer

COLUMNS = ("group_or_family", "groups", "lag", "since_movement_seconds", "expiry_days")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    add_pattern_arguments(parser)
    parser.add_argument("--snapshot-id", metavar="ID")
    parser.add_argument("--max-groups", metavar="N", default=500)
    parser.add_argument("--openmetrics-path", metavar="FILE")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the file, if one is named, and show what is in it. A group that is left out makes the exit code 3."""
    from airflow_kafka_groups.hooks.storage import open_path
    from airflow_kafka_groups.report.metrics import MAX_SERIES_GROUPS, metrics_of_snapshot, write_openmetrics

    most = read_integer("--max-groups", args.max_groups, minimum=1, maximum=MAX_SERIES_GROUPS)
    selected = filter_of(args)
    cluster = Cluster(args)
    _ = cluster.settings  # an option that is wrong is an error, although no broker is asked
    layout = cluster.layout()
    snapshot_id, metrics = metrics_of_snapshot(layout, args.snapshot_id, selected, most)
    place = args.openmetrics_path
    if place is not None:
        path = open_path("--openmetrics-path", absolute_place(place))
        place = str(write_openmetrics(path, layout.cluster, metrics))
    rows = [(name, 1, *numbers) for name, numbers in metrics.groups.items()]
    rows += [(name, count, *numbers) for name, (count, numbers) in metrics.families.items()]
    summary = {"snapshot_id": snapshot_id, "omitted": metrics.omitted, "openmetrics_path": place}
    out.write(Table("metrics", COLUMNS, rows), summary)
    return ExitCode.INCOMPLETE if metrics.omitted else ExitCode.DONE
