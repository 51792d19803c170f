"""Commands that change groups and their offsets: each is a dry run, unless ``--yes`` is given."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_groups.cli.options import (
    Cluster,
    actor,
    add_pattern_arguments,
    add_storage_arguments,
    add_value,
    read_distinct,
    read_place_here,
    source_of,
)
from airflow_kafka_groups.cli.output import Output, Table, progress_bars, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import (
    read_duration,
    read_integer,
    read_milliseconds,
    read_pairs,
    read_partition_offsets,
    read_topics,
    request_of,
    require_one,
)

if TYPE_CHECKING:
    from airflow_kafka_groups.change.remove_members import RemovedMembers
    from airflow_kafka_groups.change.restore.change_offsets import ChangeRequest, OffsetRequest, RecordedChanges
    from airflow_kafka_groups.change.restore.earlier_tries import Tries

R = TypeVar("R")
CHANGE_COLUMNS = ("group_id", "outcome", "partitions", "skips", "rereads", "reason", "skipped")
OF_PARTITIONS = ("group_id", "topic", "partition", "offset", "new_offset")
_NOT_ASKED = ("yes", "partitions", "output", "command")
_CONTINUED = timedelta(days=1)
"""How long a command that was killed is continued when it is typed again."""


def _add_change_arguments(parser: ArgumentTarget, *, partitions: bool = True) -> None:
    add_storage_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="change it; without it, only show what would be changed")
    if partitions:
        parser.add_argument("--partitions", action="store_true", help="one row for each partition, with both offsets")


def _add_topics(parser: ArgumentTarget, *, required: bool = False) -> None:
    parser.add_argument("--topic", action="append", dest="topics", metavar="TOPIC", required=required, read=read_topics)


def _carry_out(args: argparse.Namespace, command: str, request: ChangeRequest[R]) -> R:
    cluster = Cluster(args)
    with progress_bars() as progress:
        return cluster.change(
            request,
            storage_path=cluster.storage_path,
            cluster=cluster.folder,
            dry_run=not args.yes,
            tries=_tries(args, command),
            progress=progress,
        )


def _change(args: argparse.Namespace, out: Output, command: str, request: OffsetRequest) -> ExitCode:
    """Change committed offsets, and show the outcome of each group.

    A group that is kept, or a partition that is left out, makes the exit code 3.
    """
    done = _carry_out(args, command, request)
    return _show_results(
        out, done, _table_of(args, command, done), f"Nothing was changed. To {command}, give --yes too."
    )


def _show_results(
    out: Output,
    done: RecordedChanges | RemovedMembers,
    table: Table,
    next_step: str,
    more: Mapping[str, Any] | None = None,
) -> ExitCode:
    """Show what became of each group or member, and the first failure.

    :param next_step: what a dry run says at its end.
    :param more: what the summary has besides. Default: nothing.
    """
    summary = {"dry_run": done.dry_run, **done.summary(), **(more or {})}
    out.write(table, {**summary, "record": summary.pop("result_path")})
    if done.dry_run:
        say(next_step)
    failures = done.failures()
    for name, error in list(failures.items())[:1]:
        say(f"error: {name!r}: {error}")
    return ExitCode.FAILED if failures else ExitCode.DONE if done.is_complete else ExitCode.INCOMPLETE


def _tries(args: argparse.Namespace, command: str) -> Tries:
    """Return which runs are tries of the same change: the same command, by the same user, that was killed."""
    from airflow_kafka_groups.change.restore.earlier_tries import Tries
    from airflow_kafka_groups.storage.layout import utc_now

    asked = {name: value for name, value in sorted(vars(args).items()) if name not in _NOT_ASKED}
    digest, who = sha256(json.dumps(asked, default=str).encode()).hexdigest(), actor(command)
    name = f"{who['user']} on {who['host']}: {command} {digest[:16]}"
    return Tries(task_run=name, killed_since=utc_now() - _CONTINUED)


def _table_of(args: argparse.Namespace, command: str, done: RecordedChanges) -> Table:
    """Return one row for each group, or with ``--partitions`` for each offset."""
    csv = None
    if command in ("reset", "set"):  # as kafka-consumer-groups exports it, and --from-file reads it
        from airflow_kafka_groups.change.restore.offsets_csv import csv_rows

        is_of_several = command == "reset" and len(args.group_ids or ()) != 1
        after = ((each.group_id, *where, new.offset) for each in done.changes for where, new in each.after.items())
        csv = list(csv_rows(after, with_group=is_of_several))
    if getattr(args, "partitions", False):
        rows = [
            (change.group_id, *where, old if old is None else old.offset, new.offset)
            for change in done.changes
            for where, new in change.after.items()
            for old in [change.before.get(where)]
        ]
        return Table("partitions", OF_PARTITIONS, rows, csv)
    return Table.of("groups", CHANGE_COLUMNS, done.results, csv)


_TARGETS = ("to", "timestamp", "ago", "shift_by", "from_file")


def add_reset(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser)
    parser.add_argument("group_ids", nargs="*", metavar="GROUP", read=read_distinct)
    parser.add_argument("--to", choices=("earliest", "latest"))
    parser.add_argument("--timestamp", metavar="TIME", read=read_milliseconds)
    parser.add_argument("--ago", metavar="TIME", read=read_duration)
    parser.add_argument("--shift-by", metavar="N", read=partial(read_integer, minimum=-(2**53)))
    parser.add_argument("--from-file", metavar="CSV", read=read_place_here)
    _add_topics(parser)


def reset(args: argparse.Namespace, out: Output) -> ExitCode:
    """Reset the groups, and show the outcome of each. ``skips`` and ``rereads`` are the most records that it means."""
    from airflow_kafka_groups.change.restore.reset import ResetRequest, SetRequest
    from airflow_kafka_groups.hooks.storage import read_offsets_file

    flags = {f"--{name.replace('_', '-')}": getattr(args, name) for name in _TARGETS}
    require_one(flags, "give exactly one of them")
    if args.from_file is not None:
        if args.topics is not None:
            raise ConfigurationError("--topic", args.topics, "the file names the topics: leave this out")
        offsets = read_offsets_file("--from-file", args.from_file, args.group_ids)
        return _change(args, out, "reset", SetRequest(offsets=offsets))
    if args.group_ids is None:
        raise ConfigurationError("GROUP", None, "name the groups: only a file may have them")
    request = request_of(ResetRequest, args, timestamp_ms=args.timestamp, ago_seconds=args.ago)
    return _change(args, out, "reset", request)


def add_set_offsets(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser)
    parser.add_argument("group_id", metavar="GROUP", help="group id")
    parser.add_argument("offsets", nargs="+", metavar="TOPIC:PARTITION=OFFSET", help="the offsets, e.g. orders:0=1200")
    parser.add_argument("--create", action="store_true")


def set_offsets(args: argparse.Namespace, out: Output) -> ExitCode:
    """Set the offsets, each limited to its log, and show the outcome."""
    from airflow_kafka_groups.change.restore.reset import SetRequest

    topics: dict[str, dict[str, str]] = {}
    for text in args.offsets:
        where, equals, offset = text.partition("=")
        topic, colon, partition = where.partition(":")
        if not (equals and colon) or partition in topics.setdefault(topic, {}):
            raise ConfigurationError("offsets", text, "write each partition once, as orders:0=1200")
        topics[topic][partition] = offset
    offsets = read_partition_offsets("offsets", {args.group_id: topics})
    return _change(args, out, "set", SetRequest(offsets=offsets, create=args.create))


def add_copy(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser)
    parser.add_argument("source", metavar="SOURCE", help="the group whose offsets are copied; it may have members")
    parser.add_argument("target", metavar="TARGET", help="the group that gets them: without members, or a new one")
    _add_topics(parser)
    parser.add_argument("--existing", choices=("keep", "replace", "lower"), default="keep")


def copy(args: argparse.Namespace, out: Output) -> ExitCode:
    """Copy the offsets, and show the outcome."""
    from airflow_kafka_groups.change.restore.reset import CopyRequest

    request = request_of(CopyRequest, args, groups={args.source: args.target})
    return _change(args, out, "copy", request)


PARTITIONS = (
    "group_id",
    "source_topic",
    "source_partition",
    "source_offset",
    "topic",
    "partition",
    "offset",
    "distance",
    "refused",
)
_METHODS = ("header", "offset-syncs", "checkpoints", "payload", "timestamp")


def add_migrate(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser)
    add = parser.add_argument
    add("group_ids", nargs="*", metavar="GROUP", read=read_distinct)
    add("--source-conn-id", metavar="ID")
    add("--source-config", metavar="FILE", help="or the source's file of librdkafka properties")
    add("--source-bootstrap-servers", metavar="HOST:PORT,…", help="or its brokers that need no login and no TLS")
    add("--backup-id", metavar="ID")
    add("--source-cluster", metavar="NAME")
    _add_topics(parser)
    add("--method", choices=_METHODS)
    add("--position", choices=("at-or-before", "exact", "at-or-after"), default="at-or-before")
    add("--existing", choices=("keep", "replace", "lower"), default="keep")
    add("--topic-pattern", metavar="PATTERN", default="{topic}")
    add("--mapping", action="append", metavar="A=B", read=_read_mapping)
    add("--header", metavar="NAME", default="redpanda-migrator-offset")
    add("--mirror-topic", metavar="TOPIC")
    add("--plan-id", metavar="ID")
    add("--digest", dest="plan_digest", metavar="SHA256")


def _read_mapping(field: str, texts: list[str]) -> dict[str, str]:
    return read_pairs(field, {name: other for name, _, other in (text.partition("=") for text in texts)})


def migrate(args: argparse.Namespace, out: Output) -> ExitCode:
    """Migrate the offsets, and show the outcome; a dry run shows how its plan is applied."""
    from airflow_kafka_groups.change.migrate import MigrateRequest

    with progress_bars() as progress:
        request = request_of(MigrateRequest, args, source=source_of(args), progress=progress, on_spark=None)
        done = _carry_out(args, "migrate", request)
    plan = request.made
    table = Table("partitions", PARTITIONS, list(plan.rows())) if args.partitions else _table_of(args, "migrate", done)
    apply = Cluster(args).command("migrate", "--plan-id", plan.plan_id, "--digest", plan.digest, "--yes")
    return _show_results(out, done, table, f"Nothing was changed. To do exactly this: {apply}", plan.summary())


def add_delete_offsets(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser, partitions=False)
    parser.add_argument("group_ids", nargs="+", metavar="GROUP", read=read_distinct)
    _add_topics(parser, required=True)


def delete_offsets(args: argparse.Namespace, out: Output) -> ExitCode:
    """Delete the offsets, and show the outcome of each group. One of which a member reads the topic is kept."""
    from airflow_kafka_groups.change.restore.forget import DeleteOffsetsRequest

    return _change(args, out, "delete-offsets", request_of(DeleteOffsetsRequest, args))


REMOVE_MEMBERS_COLUMNS = ("member_id", "group_instance_id", "client_id", "host", "partitions", "outcome", "reason")

_NEXT = "Nobody was removed. To remove these members, give --yes too: those that are alive join again at once."


def add_remove_members(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser, partitions=False)
    parser.add_argument("group_id", metavar="GROUP")
    parser.add_argument("--member-id", action="append", dest="member_ids", metavar="ID")
    parser.add_argument("--instance-id", action="append", dest="instance_ids", metavar="ID")
    parser.add_argument("--all-members", action="store_true")
    parser.add_argument("--reason", metavar="TEXT", default="removed by airflow-kafka-groups")


def remove_members(args: argparse.Namespace, out: Output) -> ExitCode:
    """Remove the members, and show the outcome of each. One that is kept makes the exit code 3."""
    from airflow_kafka_groups.change.remove_members import RemoveMembersRequest

    done = _carry_out(args, "remove-members", request_of(RemoveMembersRequest, args))
    return _show_results(out, done, Table.of("members", REMOVE_MEMBERS_COLUMNS, done.results), _NEXT)


KEEP_ALIVE_COLUMNS = ("group_id", "outcome", "not_forgotten_before", "partitions", "reason")


def add_keep_alive(parser: ArgumentTarget) -> None:
    add_storage_arguments(parser)
    parser.add_argument("group_ids", nargs="*", metavar="GROUP", read=read_distinct)
    add_pattern_arguments(parser)
    parser.add_argument("--allow-membership", action="store_true")
    parser.add_argument("--assignor", action="append", dest="assignors", metavar="NAME")
    add_value(parser, "offsets_retention_minutes", read=partial(read_integer, minimum=1))
    for name in ("margin_seconds", "interval_seconds", "observe_seconds"):
        add_value(parser, name)
    parser.add_argument("--yes", action="store_true", help="commit; without it, only show what would be done")


def keep_alive(args: argparse.Namespace, out: Output) -> ExitCode:
    """Keep groups alive, and show each of them. One that is not kept alive makes the exit code 1."""
    from airflow_kafka_groups.change.keep_alive import KeepAliveOutcome, KeepAliveRequest

    if args.assignors and not args.allow_membership:
        raise ConfigurationError("--assignor", args.assignors, "is that of a member: give --allow-membership, too")
    patterns = {name: tuple(getattr(args, name) or ()) for name in ("group_ids", "include", "exclude")}
    report = _carry_out(args, "keep-alive", request_of(KeepAliveRequest, args, **patterns))
    rows = [
        (
            group.group_id,
            group.outcome.value,
            group.not_before and group.not_before.isoformat(timespec="seconds"),
            group.partitions,
            group.reason,
        )
        for group in report.groups
    ]
    out.write(Table("groups", KEEP_ALIVE_COLUMNS, rows), {"dry_run": not args.yes, **report.summary()})
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


def add_restore(parser: ArgumentTarget) -> None:
    _add_change_arguments(parser)
    parser.add_argument("plan_id", metavar="PLAN")
    parser.add_argument("group_ids", nargs="*", metavar="GROUP", read=read_distinct)
    parser.add_argument("--overwrite", action="store_true")


def restore(args: argparse.Namespace, out: Output) -> ExitCode:
    """Restore the groups, and show the outcome of each."""
    from airflow_kafka_groups.change.restore.from_backup import RestoreRequest

    return _change(args, out, "restore", request_of(RestoreRequest, args))
