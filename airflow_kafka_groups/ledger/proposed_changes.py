"""A proposed change of a group's committed offsets, and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_kafka_groups.kafka.models import GroupOffsets, GroupType, OffsetAndMetadata, TopicPartition

Commits = Mapping[TopicPartition, OffsetAndMetadata]


class ChangeOutcome(StrEnum):
    """The outcome of a proposed change."""

    CHANGED = "changed"
    WOULD_CHANGE = "would_change"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A proposed change of one group.

    :param before: all its committed offsets when the proposal was made.
    :param after: the offsets to commit; other partitions are not changed.
    :param skipped: partitions that are left out, with the reason.
    :param kept: why the group must not be changed at all.
    :param topic_ids: the ids that topics must still have when it is committed. Default: any.
    :param skips: the most records that the group would not read any more. Default 0, also where nobody asks.
    :param rereads: the most records that it would read again.
    :param as_of: of when the new offsets are: signs of life since then count. Default: since it was proposed.
    :param alive: such a sign, for which the group is kept if it exists. Default: none is known.
    :param group_type: the type that its offsets are of. Default: a consumer's, classic or new.
    """

    group_id: str
    before: Commits = field(default_factory=dict)
    after: Commits = field(default_factory=dict)
    skipped: Mapping[TopicPartition, str] = field(default_factory=dict)
    kept: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    skips: int = 0
    rereads: int = 0
    group_type: str = GroupType.CLASSIC
    as_of: datetime | None = None
    alive: str | None = None

    @property
    def is_committed(self) -> bool:
        """Whether the new offsets are committed already."""
        return all(self.before.get(where) == value for where, value in self.after.items())

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON values: a record that allows undoing it."""
        return {
            "group_id": self.group_id,
            "before": _columns(self.before),
            "after": _columns(self.after),
            "skipped": {partition_name(where): reason for where, reason in self.skipped.items()},
            "kept": self.kept,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of one group's change.

    :param partitions: the number of offsets that are known to be committed, or would be.
    :param skips: the most records that the group does not read any more, or would not; the markers of transactions
        count. Default 0.
    :param rereads: the most records that it reads again, or would.
    """

    group_id: str
    outcome: ChangeOutcome
    reason: str
    partitions: int
    skipped: Mapping[str, str] = field(default_factory=dict)
    skips: int = 0
    rereads: int = 0

    @property
    def name(self) -> str:
        """What the result is of, for messages: the group."""
        return self.group_id

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__} | {"outcome": self.outcome.value}


def counts_of(results: Iterable[ChangeResult]) -> dict[str, int]:
    """Count the results by outcome, including outcomes that did not occur."""
    found = Counter(result.outcome for result in results)
    return {outcome.value: found.get(outcome, 0) for outcome in ChangeOutcome}


def commits_in(offsets: GroupOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the partitions that have a commit."""
    return {where: value for where, value in offsets.items() if value is not None}


def is_same(found: OffsetAndMetadata | None, wanted: OffsetAndMetadata | None) -> bool:
    """Return whether two commits have the same offset and metadata; the leader epoch is no matter."""
    if found is None or wanted is None:
        return found is wanted
    return (found.offset, found.metadata) == (wanted.offset, wanted.metadata)


def commits_from(columns: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the commits that ``Change.to_json`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    found = {}
    for topic in columns:
        numbers = (topic["partitions"], topic["offsets"], topic["leader_epochs"])
        metadata = topic["metadata"] if topic["metadata"] is not None else [""] * len(topic["partitions"])
        for partition, offset, epoch, text in zip(*numbers, metadata, strict=True):
            where = TopicPartition(str(topic["topic"]), int(partition))
            found[where] = OffsetAndMetadata(int(offset), str(text), int(epoch) if epoch >= 0 else None)
    return found


def partition_name(where: TopicPartition) -> str:
    """Format a partition for messages."""
    return f"{where.topic}[{where.partition}]"


def _columns(commits: Commits) -> list[dict[str, Any]]:
    """Return the offsets of each topic, column by column: a record can have millions of them."""
    offsets = commits if isinstance(commits, GroupOffsets) else GroupOffsets.from_mapping("", commits)
    flat = [(topic, topic.flat_rows()) for topic in offsets.topics]
    return [
        {
            "topic": topic.topic,
            "partitions": list(rows[0::3]),
            "offsets": list(rows[1::3]),
            "leader_epochs": list(rows[2::3]),
            "metadata": topic.metadata,
        }
        for topic, rows in flat
    ]
