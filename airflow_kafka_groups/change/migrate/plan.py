"""A plan of a migration: which group is set to what in the target, by which method, and how far it can be off.

It is written by a dry run, and applied as it is by whoever names its id and the SHA-256 of its file::

    <storage>/<cluster>/changes/<id>-plan.json
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, NamedTuple

from airflow_kafka_groups.change.restore.current_logs import unread_of
from airflow_kafka_groups.exceptions import MaintenanceError
from airflow_kafka_groups.kafka.models import OffsetAndMetadata, TopicPartition
from airflow_kafka_groups.ledger.proposed_changes import Commits
from airflow_kafka_groups.observe.log_ends import Unread
from airflow_kafka_groups.storage.access import unless_damaged
from airflow_kafka_groups.storage.file_storage import FILES
from airflow_kafka_groups.storage.formats import FORMAT
from airflow_kafka_groups.storage.json_files import parse_json, write_listing
from airflow_kafka_groups.storage.layout import Layout, check_id
from airflow_kafka_groups.storage.paths import CHANGES

_WHAT = "the plan of the migration"


class PlannedOffset(NamedTuple):
    """An offset to commit: of which one of the source it is the translation, and its distance (see ``Translated``)."""

    source_topic: str
    source_partition: int
    source_offset: int
    topic: str
    partition: int
    offset: int
    distance: int
    metadata: str = ""

    @property
    def target(self) -> TopicPartition:
        """The partition of the target."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is planned for a group.

    :param refused: the partitions of the source that are left out, with the reason.
    :param kept: why the group is left out.
    """

    rows: tuple[PlannedOffset, ...] = ()
    refused: Mapping[TopicPartition, str] = field(default_factory=dict)
    kept: str | None = None

    @property
    def commits(self) -> Commits:
        """What is committed in the target."""
        return {row.target: OffsetAndMetadata(row.offset, row.metadata) for row in self.rows}

    def why_none(self) -> str:
        """Return why nothing is committed."""
        if self.kept is not None or not self.refused:
            return self.kept or "it has no committed offsets to migrate"
        if (unread := unread_of(self.refused.values())) is not None:
            return Unread(f"nothing can be migrated: {unread}")
        return f"nothing can be migrated: {next(iter(self.refused.values()))}"

    def to_json(self, group_id: str) -> dict[str, Any]:
        """Return the plan of the group as JSON values. What could not be read is left out by whoever approves it."""
        refused = [(*where, why) for where, why in self.refused.items()]
        return {"group_id": group_id, "partitions": self.rows, "refused": refused, "kept": self.kept}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupPlan:
        """Return what ``to_json`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        refused = {TopicPartition(topic, partition): why for topic, partition, why in data["refused"]}
        return cls(rows=tuple(starmap(PlannedOffset, data["partitions"])), refused=refused, kept=data["kept"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """A plan as it was written.

    :param facts: what was asked for: the method, the position, the source.
    :param kafka_cluster_id: the target.
    :param topic_ids: the ids of the target's topics, which they must still have.
    :param digest: the SHA-256 of its file.
    """

    plan_id: str
    facts: Mapping[str, Any]
    kafka_cluster_id: str | None
    topic_ids: Mapping[str, str]
    groups: Mapping[str, GroupPlan]
    digest: str = ""

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a row for each partition: both offsets and the distance, or why it is left out."""
        for group_id, group in self.groups.items():
            for row in group.rows:
                yield (group_id, *row[:-1], None)
            for where, why in group.refused.items():
                yield (group_id, *where, None, None, None, None, None, str(why))

    def summary(self) -> dict[str, Any]:
        """Return what a result has of the plan."""
        return {
            "plan_id": self.plan_id,
            "plan_digest": self.digest,
            "method": self.facts["method"],
            "position": self.facts["position"],
            "distance": sum(row.distance for group in self.groups.values() for row in group.rows),
            "refused": sum(len(group.refused) for group in self.groups.values()),
        }


def write_plan(layout: Layout, plan: MigrationPlan) -> str:
    """Write a plan, durably, and return its digest."""
    head = {
        "format": FORMAT,
        "run_id": plan.plan_id,
        "what": "migration plan",
        "dry_run": True,
        "cluster": layout.cluster,
        "kafka_cluster_id": plan.kafka_cluster_id,
        "facts": dict(plan.facts),
        "topic_ids": dict(plan.topic_ids),
    }
    rows = (group.to_json(group_id) for group_id, group in plan.groups.items())
    path = write_listing(layout.root / CHANGES, f"{plan.plan_id}-plan.json", head, "groups", rows)
    FILES.sync(path)
    return hashlib.sha256(FILES.read(path) or b"").hexdigest()


async def load_migration_plan(layout: Layout, plan_id: str, digest: str, kafka_cluster_id: str | None) -> MigrationPlan:
    """Read a plan that was approved by its digest.

    Raises ``MaintenanceError`` for one that is missing, was changed, or is of another target.
    """
    path = layout.root / CHANGES / f"{check_id('plan_id', plan_id)}-plan.json"
    data = await asyncio.to_thread(FILES.read, path)
    if data is None:
        raise MaintenanceError(f"there is no {path}: check the id, storage_path and cluster")
    if (found := hashlib.sha256(data).hexdigest()) != digest:
        raise MaintenanceError(f"{_WHAT} {path} is not the one that was approved: its SHA-256 is {found}")
    head = parse_json(data, path, _WHAT, MaintenanceError)
    with unless_damaged(MaintenanceError, f"{_WHAT} {path}"):
        plan = MigrationPlan(
            plan_id=plan_id,
            facts=head["facts"],
            kafka_cluster_id=head["kafka_cluster_id"],
            topic_ids=head["topic_ids"],
            groups={group["group_id"]: GroupPlan.from_json(group) for group in head["groups"]},
            digest=digest,
        )
    if plan.kafka_cluster_id != kafka_cluster_id:
        raise MaintenanceError(f"{_WHAT} {plan_id} is of Kafka cluster {plan.kafka_cluster_id!r}: check the connection")
    return plan
