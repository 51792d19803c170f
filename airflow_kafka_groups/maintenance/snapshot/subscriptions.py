"""The topics that groups are subscribed to: a small table beside a snapshot's rows, by which topics are judged.

A group is in the table only if all that its members read is known. The table of members is no substitute: it is for
people, and bounded.
"""

from __future__ import annotations

import hashlib
from typing import Any

from airflow_kafka_groups.admin.arrow_values import column
from airflow_kafka_groups.contracts.columns import SUBSCRIPTION_COLUMNS
from airflow_kafka_groups.contracts.manifest import SnapshotManifest, SubscriptionsFile
from airflow_kafka_groups.maintenance.arrow_schema import arrow_schema
from airflow_kafka_groups.maintenance.durable_files import create_file
from airflow_kafka_groups.maintenance.snapshot.sealed_table import read_sealed, table_bytes
from airflow_kafka_groups.maintenance.storage import Layout
from airflow_kafka_groups.models import GroupDescription, GroupId, GroupState


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


class SeenSubscriptions:
    """The subscriptions that a snapshot sees, gathered as descriptions arrive."""

    def __init__(self, snapshot_id: str) -> None:
        self.snapshot_id = snapshot_id
        self.topics: dict[GroupId, frozenset[str]] = {}

    def add(self, group: GroupDescription) -> None:
        """Add a group, if all that its members read is known."""
        topics = topics_read(group)
        if not isinstance(topics, str):
            self.topics[group.group_id] = topics


def write_subscriptions(layout: Layout, seen: SeenSubscriptions) -> SubscriptionsFile:
    """Write the table, and return what vouches for it. Raises ``StorageError``."""
    import pyarrow as pa

    schema = arrow_schema(SUBSCRIPTION_COLUMNS)
    ids = sorted(seen.topics)
    values: dict[str, list[Any]] = {"group_id": ids, "topics": [sorted(seen.topics[group_id]) for group_id in ids]}
    table = pa.table([column(values[each.name], each.type) for each in schema], schema=schema)
    data, path = table_bytes(table), layout.subscriptions(seen.snapshot_id)
    create_file(path, data)
    return SubscriptionsFile(name=path.name, rows=len(table), sha256=hashlib.sha256(data).hexdigest())


def read_subscriptions(layout: Layout, manifest: SnapshotManifest) -> dict[GroupId, frozenset[str]] | None:
    """Return the topics of each group whose subscriptions are known; ``None`` for a snapshot of an earlier version.

    Raises ``SnapshotError`` if the table is missing or not what the manifest vouches for, and ``StorageError``.
    """
    sealed = manifest.subscriptions
    if sealed is None:
        return None
    path = layout.subscriptions(manifest.snapshot_id)
    table = read_sealed(path, "subscriptions", SUBSCRIPTION_COLUMNS, sha256=sealed.sha256, rows=sealed.rows)
    rows = zip(table["group_id"].to_pylist(), table["topics"].to_pylist(), strict=True)
    return {group_id: frozenset(topics) for group_id, topics in rows}
