"""Measure how far groups are behind."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.output import Output, Table, say
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_group_arguments, read_chosen, report_failures
from airflow_kafka_groups.hooks.arguments import optional, read_integer

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.admin.lag import GroupLag

COLUMNS = ("group_id", "partitions", "lag", "lost")
OF_PARTITIONS = ("group_id", "topic", "partition", "lag", "lost", "flag")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_group_arguments(parser)
    parser.add_argument("--partitions", action="store_true", help="one row for each partition instead of each group")
    parser.add_argument(
        "--max-lag", metavar="N", help="show groups whose lag exceeds N or is not known; exit code 3 if any"
    )


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Show the groups, the largest lag first. A group whose lag is not known has none, and makes the exit code 3.

    So does one that was named and does not exist: it is not shown, since its lag is not 0.

    ``lag`` counts the records to read, and ``lost`` those that were removed unread.
    """
    most = optional(read_integer)("--max-lag", args.max_lag)
    found, refused, missing, complete = read_chosen(
        args, lambda admin, ids: admin.list_consumer_group_lag(ids), "partitions"
    )
    there = [lag for name, lag in found.succeeded.items() if name not in missing]
    lags = sorted(there, key=lambda lag: (-(lag.messages or 0), lag.group_id))
    unknown = [lag.group_id for lag in lags if lag.messages is None]
    too_much = [lag for lag in lags if most is not None and (lag.messages is None or lag.messages > most)]
    shown = lags if most is None else too_much
    if args.partitions:
        out.write(Table("partitions", OF_PARTITIONS, [row for lag in shown for row in _of_partitions(lag)]))
    else:
        out.write(Table("groups", COLUMNS, [*_of_groups(shown), *((name, None, None, None) for name in refused)]))
    report_failures(found.failed, missing)
    if unknown:
        say(f"warning: the lag of {len(unknown)} group(s) is not known, first {unknown[0]!r}: see --partitions")
    return ExitCode.INCOMPLETE if too_much or unknown or found.failed or missing or not complete else ExitCode.DONE


def _of_groups(lags: Sequence[GroupLag]) -> Iterator[tuple[Any, ...]]:
    for lag in lags:
        yield lag.group_id, lag.committed_partitions, lag.messages, lag.lost


def _of_partitions(lag: GroupLag) -> Iterator[tuple[Any, ...]]:
    for where, of_partition in lag.partitions.items():
        yield (
            lag.group_id,
            where.topic,
            where.partition,
            of_partition.messages,
            None if of_partition.messages is None else of_partition.lost,
            of_partition.flag.value,
        )
