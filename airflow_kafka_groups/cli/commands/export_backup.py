"""Write a backup as rows, without a cluster: as CSV, Kafka's own tool restores it on a day without this package."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import distinct
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError

COLUMNS = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    parser.add_argument("backup_id", metavar="BACKUP", help="the backup's id, or that of its plan")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="only these groups. Default: all in the backup")
    parser.add_argument("--storage-path", metavar="PATH", required=True, help="folder above all clusters, or its URL")
    parser.add_argument("--cluster", metavar="NAME", required=True, help="the cluster's folder")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Verify the backup, and write its offsets; the CSV of one named group has no column of groups."""
    from airflow_kafka_groups.change.backup.file import open_backup
    from airflow_kafka_groups.change.restore.offsets_csv import csv_rows
    from airflow_kafka_groups.hooks.storage import open_layout

    wanted = distinct(args.groups)
    _, saved = open_backup(open_layout(args.storage_path, args.cluster, args.cluster), args.backup_id)
    rows = [
        (group.entry.group_id, *where, value.offset, value.leader_epoch, value.metadata)
        for group in saved
        if wanted is None or group.entry.group_id in wanted
        for where, value in group.offsets.items()
        if value is not None
    ]
    if missing := set(wanted or ()).difference(row[0] for row in rows):
        raise ConfigurationError("GROUP", min(missing), f"is not in the backup {args.backup_id}")
    with_group = wanted is None or len(wanted) != 1
    csv = list(csv_rows(((row[0], row[1], row[2], row[3]) for row in rows), with_group=with_group))
    out.write(Table("offsets", COLUMNS, rows, csv))
    return ExitCode.DONE
