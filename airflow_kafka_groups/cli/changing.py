"""What the commands have in common that change committed offsets: who asks, what is shown, and the exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.connection import Cluster, actor, add_storage_arguments
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode

if TYPE_CHECKING:
    from airflow_kafka_groups.change.remove_members import RemovedMembers
    from airflow_kafka_groups.change.restore.offset_requests import AnyRequest, ChangeTerms, Tries
    from airflow_kafka_groups.change.restore.recorded import RecordedChanges

COLUMNS = ("group_id", "outcome", "partitions", "skips", "rereads", "reason", "skipped")
OF_PARTITIONS = ("group_id", "topic", "partition", "offset", "new_offset")
_NOT_ASKED = ("yes", "partitions", "output", "command")
_CONTINUED = timedelta(days=1)
"""How long a command that was killed is continued when it is typed again."""


def add_change_arguments(parser: ArgumentTarget, *, partitions: bool = True) -> None:
    """Add where the files are, ``--yes`` and what is shown."""
    add_storage_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="change it; without it, only show what would be changed")
    if partitions:
        parser.add_argument("--partitions", action="store_true", help="one row for each partition, with both offsets")


def add_topics(parser: ArgumentTarget, *, required: bool = False) -> None:
    """Add ``--topic``."""
    parser.add_argument("--topic", action="append", dest="topics", metavar="TOPIC", required=required)


def distinct(values: list[str] | None) -> list[str] | None:
    """Return values without duplicates, ``None`` for none."""
    return list(dict.fromkeys(values or ())) or None


def change(args: argparse.Namespace, out: Output, command: str, request: AnyRequest) -> ExitCode:
    """Change committed offsets, and show the outcome of each group.

    A group that is kept, or a partition that is left out, makes the exit code 3.
    """
    from airflow_kafka_groups.change.restore.offset_requests import change_offsets

    cluster = Cluster(args)
    layout = cluster.site_layout()
    with terms_of(args, cluster, command) as terms:
        done = cluster.run(lambda admin: change_offsets(admin, layout, request, terms))
    return show_results(out, done, table_of(args, command, done), f"Nothing was changed. To {command}, give --yes too.")


def show_results(
    out: Output,
    done: RecordedChanges | RemovedMembers,
    table: Table,
    next_step: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> ExitCode:
    """Show what became of each group or member, and the first failure.

    :param next_step: what a dry run says at its end.
    :param more: what the summary has besides. Default: nothing.
    """
    summary = {"dry_run": done.dry_run, **done.summary(), **more}
    out.write(table, {**summary, "record": summary.pop("result_path")})
    if done.dry_run:
        say(next_step)
    failures = done.failures()
    for name, error in list(failures.items())[:1]:
        say(f"error: {name!r}: {error}")
    return ExitCode.FAILED if failures else ExitCode.DONE if done.is_complete else ExitCode.INCOMPLETE


@contextmanager
def terms_of(args: argparse.Namespace, cluster: Cluster, command: str) -> Iterator[ChangeTerms]:
    """Provide the terms of a change. Raises ``ConfigurationError`` for ``--yes`` on a read-only connection."""
    from airflow_kafka_groups.change.restore.offset_requests import ChangeTerms

    if args.yes:
        cluster.settings.require_writable()
    with progress_bars() as progress:
        protects, tries = cluster.settings.protects, _tries(args, command)
        yield ChangeTerms(dry_run=not args.yes, protects=protects, tries=tries, progress=progress)


def _tries(args: argparse.Namespace, command: str) -> Tries:
    """Return which runs are tries of the same change: the same command, by the same user, that was killed."""
    from airflow_kafka_groups.change.restore.offset_requests import Tries
    from airflow_kafka_groups.storage.layout import utc_now

    asked = {name: value for name, value in sorted(vars(args).items()) if name not in _NOT_ASKED}
    digest, who = sha256(json.dumps(asked, default=str).encode()).hexdigest(), actor(command)
    name = f"{who['user']} on {who['host']}: {command} {digest[:16]}"
    return Tries(task_run=name, since=utc_now() - _CONTINUED, interrupted=True)


def table_of(args: argparse.Namespace, command: str, done: RecordedChanges) -> Table:
    """Return one row for each group, or with ``--partitions`` for each offset."""
    rows: list[tuple[Any, ...]]
    csv = None
    if command in ("reset", "set"):  # as kafka-consumer-groups exports it, and reset --from-file reads it
        from airflow_kafka_groups.change.restore.offsets_csv import csv_rows

        named = getattr(args, "groups", None)
        after = ((each.group_id, *where, new.offset) for each in done.changes for where, new in each.after.items())
        csv = list(csv_rows(after, with_group=named is not None and len(set(named)) != 1))
    if getattr(args, "partitions", False):
        rows = [
            (change.group_id, *where, old if old is None else old.offset, new.offset)
            for change in done.changes
            for where, new in change.after.items()
            for old in [change.before.get(where)]
        ]
        return Table("partitions", OF_PARTITIONS, rows, csv)
    rows = [
        (item.group_id, item.outcome.value, item.partitions, item.skips, item.rereads, item.reason, dict(item.skipped))
        for item in done.results
    ]
    return Table("groups", COLUMNS, rows, csv)
