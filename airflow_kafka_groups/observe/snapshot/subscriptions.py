"""The topics that groups are subscribed to: a small table beside a snapshot's rows, by which topics are judged.

A topic is judged only by what is known completely; a part of it can only keep topics. The table of members is no
substitute: it is for people, and bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_groups.kafka.models import GroupDescription, GroupId, GroupState
from airflow_kafka_groups.storage.arrow_values import column
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotFile, SnapshotManifest
from airflow_kafka_groups.storage.schemas import SUBSCRIPTION_COLUMNS, arrow_schema
from airflow_kafka_groups.storage.sealed_table import read_sealed, write_sealed

CONSUMER_PROTOCOL = "consumer"
"""Of groups with another protocol type, brokers do not know what the members read."""


def topics_read(group: GroupDescription) -> frozenset[str] | str:
    """Return the topics that a group's members are subscribed to or were assigned, or why they are not known."""
    if group.state is not GroupState.STABLE:
        return f"its state is {group.state.value}, and brokers report subscriptions of Stable groups only"
    if not group.members:
        return "it has no members"
    found: set[str] = set()
    for member in group.members:
        if member.subscribed_pattern:
            return f"member {member.member_id!r} subscribes by the pattern {member.subscribed_pattern!r}"
        if member.subscribed_topics is None:
            return f"the subscription of member {member.member_id!r} cannot be read"
        if not member.assignment_known:
            return f"the assignment of member {member.member_id!r} cannot be read"
        topics = {*member.subscribed_topics, *(where.topic for where in member.assignment)}
        if not topics:  # as a consumer looks whose client matches topics by a pattern, and has found none yet
            return f"member {member.member_id!r} names no topic, and may subscribe by a pattern"
        found |= topics
    return frozenset(found)


def topics_seen(group: GroupDescription) -> frozenset[str]:
    """Return the topics that some member is subscribed to or was assigned, as far as that is known."""
    return frozenset(
        topic
        for member in group.members
        for topic in (*(member.subscribed_topics or ()), *(where.topic for where in member.assignment))
    )


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What a snapshot saw of the subscriptions.

    :param proven: the topics of each group of which all is known that its members read.
    :param seen: the topics of each group that some member reads, also where that is not all of them.
    """

    proven: Mapping[GroupId, frozenset[str]]
    seen: Mapping[GroupId, frozenset[str]]


SubscriptionRow = tuple[GroupId, list[str], bool]
"""A group, the topics that its members read as far as that is known, and whether these are all."""


def subscription_rows(group: GroupDescription) -> list[SubscriptionRow]:
    """Return the row of a group; none where nothing is known."""
    if not isinstance(topics := topics_read(group), str):
        return [(group.group_id, sorted(topics), True)]
    return [(group.group_id, sorted(seen), False)] if (seen := topics_seen(group)) else []


def write_subscriptions(layout: Layout, snapshot_id: str, rows: Iterable[SubscriptionRow]) -> SnapshotFile:
    """Write the table, and return what vouches for it. Raises ``StorageError``."""
    import pyarrow as pa

    schema, found = arrow_schema(SUBSCRIPTION_COLUMNS), sorted(rows)
    values = zip(*found, strict=True) if found else [()] * len(schema)
    table = pa.table([column(list(of), each.type) for of, each in zip(values, schema, strict=True)], schema=schema)
    return write_sealed(layout.subscriptions(snapshot_id), table)


def read_subscriptions(layout: Layout, manifest: SnapshotManifest) -> Subscriptions:
    """Return what a snapshot saw of the subscriptions.

    Raises ``SnapshotError`` if the table is missing or not what the manifest vouches for, and ``StorageError``.
    """
    path, sha256 = layout.subscriptions(manifest.snapshot_id), manifest.subscriptions.sha256
    table = read_sealed(path, "subscriptions", SUBSCRIPTION_COLUMNS, sha256)
    group_ids = table["group_id"].to_pylist()
    seen = dict(zip(group_ids, map(frozenset, table["topics"].to_pylist()), strict=True))
    return Subscriptions(
        proven={id_: seen[id_] for id_, all_ in zip(group_ids, table["complete"].to_pylist(), strict=True) if all_},
        seen=seen,
    )
