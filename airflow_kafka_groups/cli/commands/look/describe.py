"""Describe groups with their members."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.cli.connection import Cluster
from airflow_kafka_groups.cli.output import Output, Table
from airflow_kafka_groups.cli.registry import ArgumentTarget, ExitCode
from airflow_kafka_groups.cli.selection import add_group_arguments, report_failures
from airflow_kafka_groups.kafka.models import GroupState, GroupType

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka.models import GroupDescription, MemberDescription

MEMBER = ("member_id", "group_instance_id", "client_id", "host")
COLUMNS = ("group_id", "state", "type", "protocol", "coordinator", *MEMBER, "assignment")


def add_arguments(parser: ArgumentTarget) -> None:
    """Add the arguments."""
    add_group_arguments(parser, required=True)


def run(args: argparse.Namespace, out: Output) -> ExitCode:
    """Describe the groups: one row for each member, and one for a group without members.

    A group that does not exist has the state ``Dead``; the exit code is then 3, as for one that cannot be read.
    """
    found = Cluster(args).run(lambda admin: admin.describe_consumer_groups(args.groups))
    described = found.succeeded
    out.write(Table("groups", COLUMNS, [row for group in described.values() for row in _rows(group)]))
    report_failures(found.failed)
    missing = any(group.state is GroupState.DEAD for group in described.values())
    return ExitCode.INCOMPLETE if missing or found.failed else ExitCode.DONE


def _rows(group: GroupDescription) -> Iterator[tuple[Any, ...]]:
    kind = None if group.type is GroupType.UNKNOWN else group.type.value
    facts = (group.group_id, group.state.value, kind, group.protocol, group.coordinator)
    if not group.members:
        yield (*facts, *[None] * len(MEMBER), [])
    for member in group.members:
        yield (*facts, *(getattr(member, name) for name in MEMBER), _assignment(member))


def _assignment(member: MemberDescription) -> list[str]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for where in member.assignment:
        by_topic[where.topic].append(where.partition)
    return [f"{topic}[{','.join(map(str, sorted(numbers)))}]" for topic, numbers in sorted(by_topic.items())]
