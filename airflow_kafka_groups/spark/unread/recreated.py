"""Topics that were deleted and created again since a snapshot: its offsets mean other records now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Protocol

from airflow_kafka_groups.observe.offset_values import LogEnds, Partition
from airflow_kafka_groups.spark.unread.commit import OffsetsClient
from airflow_kafka_groups.storage.manifest import SnapshotManifest

RECREATED = "was recreated or truncated since it was committed at {}"
FORSAKEN = (
    "was committed at {}, and none of these groups has a commit in its topic any more: it may have been recreated, and "
    "the snapshot does not have its id"
)


class TopicAdmin(OffsetsClient, Protocol):
    """A client that also knows the ids of topics."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of these topics; those that do not exist, or have none, are omitted."""
        ...


def with_other_ids(ids: Mapping[str, str], others: Mapping[str, str]) -> set[str]:
    """Return the topics that have another id in one of two readings than in the other."""
    return {topic for topic in ids.keys() & others.keys() if ids[topic] != others[topic]}


def logs_since(
    admin: TopicAdmin,
    snapshot: SnapshotManifest,
    logs_of: Callable[[Collection[Partition]], Mapping[Partition, LogEnds]],
    wanted: Set[Partition],
    groups: Mapping[str, Collection[Partition]] | None = None,
) -> tuple[dict[Partition, LogEnds], dict[Partition, str], dict[str, str]]:
    """Return the logs of partitions as they are now, why partitions are not the snapshot's, and the topics' ids.

    A partition is not the snapshot's if its topic has another id, or its log went backwards. A snapshot has the ids of
    some topics only; of the others, brokers have removed the commits of all groups with the topic.

    :param logs_of: returns the logs of partitions as the snapshot has them.
    :param wanted: partitions of the snapshot; those that do not exist any more are left out.
    :param groups: the partitions in which groups had commits, to ask whether they have some. Default: nobody is asked.
    """
    topics = {where.topic for where in wanted}
    ids, known = admin.topic_ids(topics), (snapshot.view or {}).get("topic_ids") or {}
    logs = admin.log_ends(wanted & admin.partitions(topics), read_committed=False)
    others = with_other_ids(known, ids)
    went_back = went_backwards(logs_of(logs), logs)
    doubtful = {where for where in logs if where.topic not in known.keys() & ids.keys()}
    why = dict.fromkeys(_forsaken(admin, groups, doubtful), FORSAKEN) if groups else {}
    why |= {where: RECREATED for where in logs if where.topic in others or where in went_back}
    return logs, why, ids


def _forsaken(
    admin: OffsetsClient, groups: Mapping[str, Collection[Partition]], doubtful: Set[Partition]
) -> Set[Partition]:
    """Return the partitions in whose topics none of the groups has a commit any more."""
    topics = {where.topic for where in doubtful}
    for group_id, commits in groups.items():
        if not topics.isdisjoint(where.topic for where in commits):
            topics -= {where.topic for where in admin.known(group_id)}
    return {where for where in doubtful if where.topic in topics}


def went_backwards(then: Mapping[Partition, LogEnds], now: Mapping[Partition, LogEnds]) -> set[Partition]:
    """Return the partitions whose log begins or ends before where it did then."""
    both = then.keys() & now.keys()
    return {where for where in both if now[where].start < then[where].start or now[where].end < then[where].end}
