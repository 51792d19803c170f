"""Offsets that are no longer seen, since their topic was deleted or hidden from this user: no proof of life, and kept.

Brokers leave out both without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from airflow_kafka_groups.change.backup.file import groups_of
from airflow_kafka_groups.exceptions import KafkaGroupsError
from airflow_kafka_groups.kafka.models import GroupOffsets, TopicPartition
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import OFFSET_COLUMNS, committed_partitions, fingerprint
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout

Judged = Callable[[Collection[str]], Mapping[str, GroupOffsets]]
"""Returns the offsets by which groups were judged, as far as they are known. Raises ``KafkaGroupsError``."""

_SHOWN = 3


def offsets_in_snapshot(layout: Layout, snapshot_id: str, group_ids: Collection[str]) -> dict[str, GroupOffsets]:
    """Return the offsets that groups had in a snapshot. Raises ``SnapshotError`` and ``StorageError``."""
    found: dict[str, GroupOffsets] = {}
    for block in SnapshotReader(layout, snapshot_id).blocks(group_ids, (*OFFSET_COLUMNS, "log_start", "log_end")):
        entries = [Target(group_id, "", "", "") for group_id in block.group_ids]
        found |= {group.entry.group_id: group.offsets for group in groups_of(block, entries)}
    return found


def by_unseen_offsets(judged: Judged, changed: Collection[tuple[Target, GroupOffsets]]) -> dict[str, GroupOutcome]:
    """Return the outcomes of groups that lack offsets and are otherwise as they were judged.

    Where that is not known, or any other offset moved, a group is left out.

    :param changed: groups whose fingerprint differs, with their offsets now.
    """
    of_groups = ((group, now) for group, now in changed if group.topic is None)
    fewer = {group.group_id: (group, now) for group, now in of_groups if committed_partitions(now) < group.partitions}
    try:
        known = judged(list(fewer)) if fewer else {}
    except KafkaGroupsError:
        return {}
    return {
        group_id: kept(group_id, Reason.OFFSETS_UNSEEN, _sentence(topics))
        for group_id, (group, now) in fewer.items()
        if (then := known.get(group_id)) is not None
        and fingerprint(then) == group.fingerprint
        and (topics := unseen_topics(then, now))
    }


def unseen_topics(then: GroupOffsets, now: GroupOffsets) -> set[str]:
    """Return the topics that lack offsets; none if any other offset differs."""
    before, found = _rows(then), _rows(now)
    return {at.topic for at in before.keys() - found.keys()} if found.items() <= before.items() else set()


def _rows(offsets: GroupOffsets) -> dict[TopicPartition, tuple[int, int, str]]:
    every = ((part.topic, row) for part in offsets.topics for row in part.rows())
    return {TopicPartition(topic, row[0]): (row[1], max(row[2], -1), row[3]) for topic, row in every if row[1] >= 0}


def _sentence(topics: Collection[str]) -> str:
    names = sorted(topics)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"its offsets in {len(names)} topic(s) are no longer seen: {shown}{more}: deleted, or hidden from this user"
