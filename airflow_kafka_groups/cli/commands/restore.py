"""Restore the offsets of a backup. A dry run, unless ``--yes`` is given."""

from __future__ import annotations

import argparse
from functools import partial

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode

COLUMNS = ("group_id", "outcome", "partitions", "reason", "skipped")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN", help="the plan of the backup, or the id of a backup without a plan")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="only these groups (default: all in the backup)")
    parser.add_argument("--overwrite", action="store_true", help="also groups that have committed other offsets since")
    parser.add_argument("--yes", action="store_true", help="restore; without it, only show what would be restored")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Restore the groups, and show the outcome of each. A group that is kept makes the exit code 3."""
    from airflow_kafka_groups.change.restore.from_backup import propose_restore
    from airflow_kafka_groups.change.restore.recorded import change_recorded
    from airflow_kafka_groups.ledger.proposed_changes import ChangeOutcome

    cluster = Cluster(args)
    settings, layout = cluster.settings, cluster.site_layout()
    if args.yes:
        settings.require_writable()
    ids = list(dict.fromkeys(args.groups)) or None
    with progress_bars() as progress:
        done = cluster.run(
            lambda admin: change_recorded(
                admin,
                layout,
                "restore",
                partial(propose_restore, admin, layout, args.plan_id, group_ids=ids, overwrite=args.overwrite),
                protects=settings.protects,
                dry_run=not args.yes,
                may_be_absent=True,
                progress=progress,
            )
        )
    rows = [
        (item.group_id, item.outcome.value, item.partitions, item.reason, dict(item.skipped)) for item in done.results
    ]
    summary = {"plan_id": args.plan_id, "dry_run": not args.yes, "counts": done.counts, "record": str(done.path)}
    out.write(Table("groups", COLUMNS, rows), summary)
    if not args.yes:
        say("Nothing was changed. To restore, give --yes too.")
    outcomes = {item.outcome for item in done.results}
    if outcomes & {ChangeOutcome.FAILED, ChangeOutcome.UNKNOWN}:
        return ExitCode.FAILED
    left_out = ChangeOutcome.KEPT in outcomes or any(item.skipped for item in done.results)
    return ExitCode.INCOMPLETE if left_out else ExitCode.DONE
