"""Commit the offsets of sleeping groups again before brokers forget them. A dry run, unless ``--yes`` is given."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.connection import Cluster, add_storage_arguments
from airflow_kafka_groups.cli.options import add_value, flag_of
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_pattern_arguments
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import read_duration, read_integer

if TYPE_CHECKING:
    from airflow_kafka_groups.change.keep_alive import KeepAliveRequest

COLUMNS = ("group_id", "outcome", "not_forgotten_before", "partitions", "reason")
_NUMBERS = ("margin_seconds", "interval_seconds", "observe_seconds")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_storage_arguments(parser)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    add_pattern_arguments(parser)
    parser.add_argument("--allow-membership", action="store_true")
    parser.add_argument("--assignor", action="append", metavar="NAME")
    for name in ("offsets_retention_minutes", *_NUMBERS):
        add_value(parser, name)
    parser.add_argument("--yes", action="store_true", help="commit; without it, only show what would be done")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Keep groups alive, and show each of them. One that is not kept alive makes the exit code 1."""
    from airflow_kafka_groups.change.keep_alive import KeepAliveOutcome, keep_alive

    cluster = Cluster(args)
    settings, layout, request = cluster.settings, cluster.site_layout(), _request(args)
    if args.yes:
        settings.require_writable()
    with progress_bars() as progress:
        report = cluster.run(
            lambda admin: keep_alive(
                admin, layout, request, protects=settings.protects, dry_run=not args.yes, progress=progress
            )
        )
    rows = [
        (group.group_id, group.outcome.value, _shown(group.not_before), group.partitions, group.reason)
        for group in report.groups
    ]
    out.write(Table("groups", COLUMNS, rows), {"dry_run": not args.yes, **report.summary()})
    for where, why in report.missing_brokers.items():
        say(f"error: the groups of {where} could not be listed: {why}")
    if not report.groups and not report.missing_brokers:
        say("warning: no group matches, so nothing is kept alive. Check the patterns.")
    if not args.yes:
        say("Nothing was committed. To keep these groups alive, give --yes too.")
    if report.problems():
        return ExitCode.FAILED
    left = any(group.outcome is KeepAliveOutcome.LEFT_ALONE for group in report.groups)
    return ExitCode.INCOMPLETE if left else ExitCode.DONE


def _shown(at: Any) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


def _request(args: argparse.Namespace) -> KeepAliveRequest:
    from airflow_kafka_groups.change.keep_alive import KeepAliveRequest

    given: dict[str, Any] = {
        name: read_duration(flag_of(name), getattr(args, name)) for name in _NUMBERS if getattr(args, name) is not None
    }
    if args.offsets_retention_minutes is not None:
        given["offsets_retention_minutes"] = read_integer(
            "--offsets-retention-minutes", args.offsets_retention_minutes, minimum=1
        )
    if args.assignor and not args.allow_membership:
        raise ConfigurationError("--assignor", args.assignor, "is that of a member: give --allow-membership, too")
    if args.assignor:
        given["assignors"] = tuple(args.assignor)
    return KeepAliveRequest(
        group_ids=tuple(args.groups),
        include=tuple(args.include or ()),
        exclude=tuple(args.exclude or ()),
        allow_membership=args.allow_membership,
        **given,
    )
