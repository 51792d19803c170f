"""Reset the committed offsets of groups without members."""

from __future__ import annotations

import argparse
from functools import partial

from airflow_kafka_groups.cli.changing import add_change_arguments, add_topics, change, distinct
from airflow_kafka_groups.cli.options import absolute_place
from airflow_kafka_groups.cli.output import Output
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_duration,
    read_integer,
    read_milliseconds,
    read_topics,
    require_one,
)

_TARGETS = ("to", "timestamp", "ago", "shift_by", "from_file")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--to", choices=("earliest", "latest"))
    for flag, metavar in (("--timestamp", "TIME"), ("--ago", "TIME"), ("--shift-by", "N"), ("--from-file", "CSV")):
        parser.add_argument(flag, metavar=metavar)
    add_topics(parser)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Reset the groups, and show the outcome of each. ``skips`` and ``rereads`` are the most records that it means."""
    from airflow_kafka_groups.change.restore.offset_requests import ResetRequest, SetRequest
    from airflow_kafka_groups.change.restore.reset import ResetTarget
    from airflow_kafka_groups.hooks.storage import read_offsets_file

    flags = {f"--{name.replace('_', '-')}": getattr(args, name) for name in _TARGETS}
    require_one(flags, "give exactly one of them")
    group_ids = distinct(args.groups)
    topics = optional(read_topics)("--topic", args.topics)
    if args.from_file is not None:
        if topics is not None:
            raise ConfigurationError("--topic", topics, "the file names the topics: leave this out")
        offsets = read_offsets_file("--from-file", absolute_place(args.from_file), group_ids)
        return change(args, out, "reset", SetRequest(offsets=offsets))
    if group_ids is None:
        raise ConfigurationError("GROUP", None, "name the groups: only a file may have them")
    target = ResetTarget(
        to=args.to,
        timestamp_ms=optional(read_milliseconds)("--timestamp", args.timestamp),
        ago_seconds=optional(read_duration)("--ago", args.ago),
        shift_by=optional(partial(read_integer, minimum=-(2**53)))("--shift-by", args.shift_by),
    )
    return change(args, out, "reset", ResetRequest(group_ids=group_ids, target=target, topics=topics))
