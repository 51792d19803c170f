"""Show the committed offsets of groups."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_group_arguments, read_chosen, report_failures

COLUMNS = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_group_arguments(parser)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show one row for each partition with a commit. CSV is as ``kafka-consumer-groups --export`` writes it.

    A group that cannot be read, or that was named and does not exist, makes the exit code 3.
    """
    from airflow_kafka_groups.change.restore.offsets_csv import csv_rows

    found, refused, missing, complete = read_chosen(
        args, lambda admin, ids: admin.list_consumer_group_offsets(ids), "topics"
    )
    rows = [
        (group_id, topic.topic, partition, offset, None if epoch < 0 else epoch, metadata)
        for group_id, offsets in found.succeeded.items()
        for topic in offsets.topics
        for partition, offset, epoch, metadata in topic.rows()
        if offset >= 0
    ]
    csv = list(csv_rows((row[:4] for row in rows), with_group=len(set(args.groups)) != 1))
    out.write(Table("offsets", COLUMNS, [*rows, *((name, *[None] * 5) for name in refused)], csv))
    report_failures(found.failed, missing)
    return ExitCode.INCOMPLETE if found.failed or missing or not complete else ExitCode.DONE
