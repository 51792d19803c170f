"""The groups that a reading command is about: named ones, or those of the cluster that match patterns."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.connection import add_connection_arguments
from airflow_kafka_groups.cli.messages import say
from airflow_kafka_groups.cli.registry import ArgumentTarget
from airflow_kafka_groups.contracts.group_states import GroupState
from airflow_kafka_groups.contracts.group_types import keeps_progress_elsewhere
from airflow_kafka_groups.exceptions import ConfigurationError, KafkaGroupsError
from airflow_kafka_groups.maintenance.patterns import GroupFilter, check_patterns

if TYPE_CHECKING:
    from airflow_kafka_groups.admin import AdminClient
    from airflow_kafka_groups.admin.results import GroupListings

_FIRST = 20
_HELP = "group ids (default: all groups of the cluster)"


def add_pattern_arguments(parser: ArgumentTarget) -> None:
    """Add patterns of groups."""
    parser.add_argument(
        "--include", action="append", metavar="PATTERN", help="groups that match, e.g. 'team-a.*' or 're:…' (repeat)"
    )
    parser.add_argument("--exclude", action="append", metavar="PATTERN", help="leave out groups that match (repeat)")


def add_group_arguments(parser: ArgumentTarget, *, required: bool = False) -> None:
    """Add the connection and the groups.

    :param required: whether at least one group has to be named, so that there are no patterns.
    """
    add_connection_arguments(parser)
    if required:
        parser.add_argument("groups", nargs="+", metavar="GROUP", help="group ids")
        return
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=_HELP)
    add_pattern_arguments(parser)


def filter_of(args: argparse.Namespace) -> GroupFilter:
    """Return the filter of ``--include`` and ``--exclude``. Raises ``ConfigurationError`` for an invalid pattern."""
    for name in ("include", "exclude"):
        check_patterns(f"--{name}", getattr(args, name) or ())
    return GroupFilter(tuple(args.include or ("*",)), tuple(args.exclude or ()))


async def chosen_groups(admin: AdminClient, args: argparse.Namespace) -> list[str]:
    """Return the named groups, or those of the cluster that match and have offsets that brokers show.

    Raises ``IncompleteListingError`` if a broker did not answer, and ``ConfigurationError`` for names with patterns.
    """
    if args.groups:
        if args.include or args.exclude:
            raise ConfigurationError("--include, --exclude", None, "are for all groups: name groups or give patterns")
        return list(dict.fromkeys(args.groups))
    patterns = filter_of(args)
    listed: GroupListings = (await admin.list_groups()).require_complete()
    return [
        group_id
        for group_id, group in sorted(listed.items())
        if patterns.selects(group_id) and not keeps_progress_elsewhere(group.type, group.protocol_type)
    ]


async def missing_of(admin: AdminClient, group_ids: Iterable[str]) -> list[str]:
    """Return the groups that do not exist: without an offset, brokers answer for those as for any other."""
    described = (await admin.describe_consumer_groups(list(group_ids))).succeeded
    return sorted(group_id for group_id, group in described.items() if group.state is GroupState.DEAD)


def report_missing(missing: Sequence[str]) -> None:
    """Name the first of the groups that do not exist, on stderr."""
    if missing:
        say(f"warning: {len(missing)} group(s) do not exist, first {missing[0]!r}")


def report_failures(failed: Mapping[str, KafkaGroupsError]) -> None:
    """Name the first groups that could not be read, on stderr."""
    for group_id in sorted(failed)[:_FIRST]:
        say(f"error: {group_id!r}: {failed[group_id]}")
    if len(failed) > _FIRST:
        say(f"error: {len(failed) - _FIRST} more groups could not be read")
