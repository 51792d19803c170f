"""Back up the committed offsets of a plan's groups, or of any groups."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_pattern_arguments, filter_of, say_if_fewer_are_listed
from airflow_kafka_groups.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from airflow_kafka_groups.change.backup.file import Backup
    from airflow_kafka_groups.cli.output import Progress
    from airflow_kafka_groups.hooks.guard import GuardedAdminClient
    from airflow_kafka_groups.storage.layout import Layout

COLUMNS = ("group_id", "result", "reason")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="group ids (default: all groups of the cluster)")
    add_pattern_arguments(parser)
    parser.add_argument("--plan-id", metavar="PLAN", help="the groups of this plan: the backup that apply asks for")
    parser.add_argument("--digest", metavar="SHA256", help="with --plan-id: the plan's digest, as plan showed it")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Write the backup and verify it by reading it back. A group that is not backed up makes the exit code 3."""
    if (args.plan_id is None) != (args.digest is None):
        raise ConfigurationError("--plan-id, --digest", None, "give both or none")
    if bool(args.plan_id) + bool(args.groups) + bool(args.include or args.exclude) > 1:
        raise ConfigurationError("backup", None, "give one of: --plan-id, group ids, or patterns")
    cluster = Cluster(args)
    layout = cluster.site_layout()
    with progress_bars() as progress:
        back_up = _planned if args.plan_id else _named
        backup = cluster.run(back_up(args, layout, progress, cluster.settings.protected_groups))
    rows = [(group_id, "backed_up", "") for group_id in backup.entries]
    rows += [(group_id, "left_out", reason) for group_id, reason in backup.not_backed_up.items()]
    out.write(Table("groups", COLUMNS, sorted(rows)), backup.to_json())
    if backup.failures:
        say(f"warning: {len(backup.failures)} group(s) were not backed up")
    return ExitCode.INCOMPLETE if backup.failures else ExitCode.DONE


def _planned(
    args: argparse.Namespace, layout: Layout, progress: Progress, protected: Sequence[str]
) -> Callable[[GuardedAdminClient], Awaitable[Backup]]:
    from airflow_kafka_groups.change.backup.make_backup import backup_groups
    from airflow_kafka_groups.checks import check_digest
    from airflow_kafka_groups.ledger.deletion_plan import load_plan

    digest = check_digest("--digest", args.digest)
    plan = load_plan(layout, args.plan_id)
    return lambda admin: backup_groups(admin, layout, plan, approved_digest=digest, progress=progress)


def _named(
    args: argparse.Namespace, layout: Layout, progress: Progress, protected: Sequence[str]
) -> Callable[[GuardedAdminClient], Awaitable[Backup]]:
    from airflow_kafka_groups.change.backup.make_backup import backup_named

    groups = filter_of(args)
    ids = list(dict.fromkeys(args.groups)) or None

    async def back_up(admin: GuardedAdminClient) -> Backup:
        if ids is None:
            await say_if_fewer_are_listed(admin)
        return await backup_named(admin, layout, group_ids=ids, groups=groups, protected=protected, progress=progress)

    return back_up
