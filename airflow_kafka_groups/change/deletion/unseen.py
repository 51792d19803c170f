"""Offsets that are no longer seen: their topic was deleted, or hidden from this user. Nobody used the group by that.

Brokers remove the offsets of a deleted topic, and leave out those of a topic that a user may not describe, both without
an error. The group is kept: it is not what was judged. It is no proof of life, unless another of its offsets moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from airflow_kafka_groups.change.backup.file import groups_of
from airflow_kafka_groups.exceptions import BrokerError, KafkaGroupsError
from airflow_kafka_groups.kafka.models import GroupOffsets, OffsetSpec, TopicPartition
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import Target
from airflow_kafka_groups.observe.fingerprint import OFFSET_COLUMNS, committed_partitions, fingerprint
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader
from airflow_kafka_groups.storage.layout import Layout

if TYPE_CHECKING:
    from airflow_kafka_groups.kafka import AdminClient


Judged = Callable[[Collection[str]], Mapping[str, GroupOffsets]]
"""Returns the offsets by which groups were judged, as far as they are known. Raises ``KafkaGroupsError``."""

_SHOWN = 3
_SECONDS = 3.0
_WHY = {
    "UNKNOWN_TOPIC_OR_PARTITION": "it does not exist any more",
    "TOPIC_AUTHORIZATION_FAILED": "this user may not describe it",
}


def offsets_in_snapshot(layout: Layout, snapshot_id: str, group_ids: Collection[str]) -> dict[str, GroupOffsets]:
    """Return the offsets that groups had in a snapshot. Raises ``SnapshotError`` and ``StorageError``."""
    return offsets_in(SnapshotReader(layout, snapshot_id), group_ids)


def offsets_in(reader: SnapshotReader, group_ids: Collection[str]) -> dict[str, GroupOffsets]:
    """Return the offsets that groups had in a snapshot that is open. Raises as ``offsets_in_snapshot``."""
    found: dict[str, GroupOffsets] = {}
    for block in reader.blocks(group_ids, (*OFFSET_COLUMNS, "log_start", "log_end")):
        entries = [Target(group_id, "", "", "") for group_id in block.group_ids]
        found |= {group.entry.group_id: group.offsets for group in groups_of(block, entries)}
    return found


async def by_unseen_offsets(
    admin: AdminClient, judged: Judged, changed: Collection[tuple[Target, GroupOffsets]]
) -> dict[str, GroupOutcome]:
    """Return the outcomes of groups that lack offsets and are otherwise as they were judged.

    Where that is not known, or any other offset moved, a group is left out.

    :param changed: groups whose fingerprint differs, with their offsets now.
    """
    lost = await asyncio.to_thread(lost_topics, judged, changed)
    why = await _why(admin, {topic: at for topics in lost.values() for topic, at in topics.items()})
    return {id_: kept(id_, Reason.OFFSETS_UNSEEN, sentence(topics, why)) for id_, topics in lost.items()}


def lost_topics(
    judged: Judged, changed: Collection[tuple[Target, GroupOffsets]]
) -> dict[str, dict[str, TopicPartition]]:
    """Return the topics that lack offsets of groups that are otherwise as judged; see ``by_unseen_offsets``."""
    of_groups = ((group, now) for group, now in changed if group.topic is None)
    fewer = {group.group_id: (group, now) for group, now in of_groups if committed_partitions(now) < group.partitions}
    try:
        known = judged(list(fewer)) if fewer else {}
    except KafkaGroupsError:
        return {}
    return {
        group_id: topics
        for group_id, (group, now) in fewer.items()
        if (then := known.get(group_id)) is not None
        and fingerprint(then) == group.fingerprint
        and (topics := unseen_topics(then, now))
    }


def unseen_topics(then: GroupOffsets, now: GroupOffsets) -> dict[str, TopicPartition]:
    """Return the topics that lack offsets, each with a partition of it; none if any other offset differs."""
    before, found = _rows(then), _rows(now)
    return {at.topic: at for at in before.keys() - found.keys()} if found.items() <= before.items() else {}


def _rows(offsets: GroupOffsets) -> dict[TopicPartition, tuple[int, int, str]]:
    every = ((part.topic, row) for part in offsets.topics for row in part.rows())
    return {TopicPartition(topic, row[0]): (row[1], max(row[2], -1), row[3]) for topic, row in every if row[1] >= 0}


async def _why(admin: AdminClient, lost: Mapping[str, TopicPartition]) -> dict[str, str]:
    """Return why topics are not seen, where brokers say so."""
    try:
        async with asyncio.timeout(_SECONDS):  # the readings of other groups grow old
            answers = await admin.list_offsets(dict.fromkeys(lost.values(), OffsetSpec.latest())) if lost else {}
    except (KafkaGroupsError, TimeoutError):
        return {}
    return {
        at.topic: _WHY[answer.name]
        for at, answer in answers.items()
        if isinstance(answer, BrokerError) and answer.name in _WHY
    }


def sentence(topics: Collection[str], why: Mapping[str, str]) -> str:
    """Return the reason to keep a group, with why each topic is not seen, as far as that is known."""
    names = sorted(topics)
    shown = [f"{name!r} ({why[name]})" if name in why else repr(name) for name in names[:_SHOWN]]
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return f"its offsets in {len(names)} topic(s) are no longer seen: {', '.join([*shown, *more])}"
