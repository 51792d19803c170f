"""List the groups of the cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_kafka_groups.cli.connection import Cluster, add_connection_arguments
from airflow_kafka_groups.cli.options import add_view_arguments
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import (
    add_pattern_arguments,
    filter_of,
    say_if_fewer_are_listed,
    say_what_is_missing,
)
from airflow_kafka_groups.hooks.arguments import read_state_names, read_type_names
from airflow_kafka_groups.kafka.models import GroupState, GroupType

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient
    from airflow_kafka_groups.kafka.admin.results import GroupListings

COLUMNS = ("group_id", "state", "type", "protocol_type", "coordinator")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_connection_arguments(parser)
    add_pattern_arguments(parser)
    add_view_arguments(parser)
    states, types = (", ".join(member.value for member in kind) for kind in (GroupState, GroupType))
    parser.add_argument("--state", action="append", help=f"groups in this state (repeat): {states}")
    parser.add_argument("--type", action="append", help=f"groups of this type (repeat): {types}")


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """List the groups. If a broker does not answer, the list is printed and the exit code is 3."""
    patterns = filter_of(args)
    states = read_state_names("--state", args.state or [])
    types = read_type_names("--type", args.type or [])

    async def listed(admin: AdminClient) -> GroupListings:
        found = await admin.list_groups(states=states, types=types)
        await say_if_fewer_are_listed(admin)
        return found

    found = Cluster(args).run(listed)
    rows = [
        (group_id, group.state.value, group.type.value, group.protocol_type, group.coordinator)
        for group_id, group in sorted(found.items())
        if patterns.selects(group_id)
    ]
    out.write(Table("groups", COLUMNS, rows))
    say_what_is_missing(found)
    return ExitCode.DONE if found.complete else ExitCode.INCOMPLETE
