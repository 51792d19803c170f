"""Take a snapshot of groups with their offsets, for the Spark jobs and for plans. Nothing in Kafka is changed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.connection import Cluster, actor, add_storage_arguments
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_pattern_arguments, filter_of, say_if_fewer_are_listed

if TYPE_CHECKING:
    from airflow_kafka_groups.hooks.guard import GuardedAdminClient
    from airflow_kafka_groups.observe.snapshot.collect import SnapshotSummary

COLUMNS = ("group_id", "reason")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    add_pattern_arguments(parser)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the snapshot and show the groups that could not be read. Those, or missing brokers, are exit code 3."""
    from airflow_kafka_groups.change.snapshot import SnapshotRequest, snapshot_groups

    cluster = Cluster(args)
    layout, who, protected = cluster.layout(), actor("snapshot"), cluster.settings.protected_groups
    by = f"{who['command']}, {who['user']} on {who['host']}"
    request = SnapshotRequest(groups=filter_of(args), protected=protected, taken_by=by)

    async def snapshot(admin: GuardedAdminClient) -> SnapshotSummary:
        await say_if_fewer_are_listed(admin)
        with progress_bars() as progress:
            return await snapshot_groups(admin, layout, request, notice=say, progress=progress)

    summary = cluster.run(snapshot)
    out.write(Table("failed", COLUMNS, sorted(summary.failed.items())), summary.to_json())
    if not summary.complete:
        say(f"warning: groups may be missing: {', '.join(summary.missing_brokers)}. It cannot be judged")
    if summary.failed_groups:
        say(f"warning: {summary.failed_groups} group(s) could not be read")
    return ExitCode.DONE if summary.complete and not summary.failed_groups else ExitCode.INCOMPLETE
