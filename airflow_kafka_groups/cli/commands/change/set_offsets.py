"""Set committed offsets of a group without members to given values."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import add_change_arguments, change
from airflow_kafka_groups.cli.output import Output
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.arguments import read_partition_offsets


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser)
    parser.add_argument("group", metavar="GROUP", help="group id")
    parser.add_argument("offsets", nargs="+", metavar="TOPIC:PARTITION=OFFSET", help="the offsets, e.g. orders:0=1200")
    parser.add_argument("--create", action="store_true")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Set the offsets, each limited to its log, and show the outcome."""
    from airflow_kafka_groups.change.restore.offset_requests import SetRequest

    topics: dict[str, dict[str, str]] = {}
    for text in args.offsets:
        where, equals, offset = text.partition("=")
        topic, colon, partition = where.partition(":")
        if not (equals and colon) or partition in topics.setdefault(topic, {}):
            raise ConfigurationError("offsets", text, "write each partition once, as orders:0=1200")
        topics[topic][partition] = offset
    offsets = read_partition_offsets("offsets", {args.group: topics})
    return change(args, out, "set", SetRequest(offsets=offsets, create=args.create))
