"""Delete the committed offsets that groups have of some topics; the groups are kept."""

from __future__ import annotations

import argparse

from airflow_kafka_groups.cli.changing import add_change_arguments, add_topics, change, distinct
from airflow_kafka_groups.cli.output import Output
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.hooks.arguments import read_topics


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_change_arguments(parser, partitions=False)
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    add_topics(parser, required=True)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Delete the offsets, and show the outcome of each group. One of which a member reads the topic is kept."""
    from airflow_kafka_groups.change.restore.offset_requests import DeleteOffsetsRequest

    topics = read_topics("--topic", args.topics)
    return change(
        args, out, "delete-offsets", DeleteOffsetsRequest(group_ids=distinct(args.groups) or [], topics=topics)
    )
