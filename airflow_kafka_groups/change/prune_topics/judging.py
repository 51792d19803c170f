"""Which topics a live group has abandoned, by the history of snapshots. Every doubt keeps.

A topic of a group is abandoned if, for the complete idle time,

- no member was subscribed to it, in snapshots that saw the group Stable and could read every subscription,
- its committed offsets did not change, while those of a topic that the group is subscribed to did.

The history is read from the newest snapshot backwards. A snapshot *counts* if it is complete and proves the
subscription. One that proves nothing (a rebalance, a restart, an incomplete listing) does not count, and ends nothing
either, as long as the offsets are the same and the time between two that count is not too long. A subscription, other
offsets, an error, or a group that is absent ends the idle time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from airflow_kafka_groups.change.prune_topics.observed import ObservedGroup, ObservedTopic, observe
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.kafka.models import GroupId
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, looked_for, snapshot_ids
from airflow_kafka_groups.observe.snapshot.subscriptions import Subscriptions, read_subscriptions
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest


@dataclass(slots=True, kw_only=True)
class UnreadTopic:
    """A topic that nobody in its group is subscribed to, and since when.

    :param idle_since: the oldest snapshot that counts.
    :param observations: the number of those.
    :param ended_by: what the snapshot before them showed; ``None`` if there was none.
    """

    topic: str
    offsets: ObservedTopic
    idle_since: datetime
    observations: int = 1
    ended_by: str | None = None


@dataclass(slots=True, kw_only=True)
class JudgedGroup:
    """A group with topics that no member is subscribed to.

    :param newest: what the newest snapshot shows.
    :param subscribed: the topics that its members are subscribed to.
    :param topics: the other ones with committed offsets, by name.
    :param moved_after: the snapshot after which offsets of a subscribed topic changed; ``None`` if they never did.
    """

    newest: ObservedGroup
    subscribed: frozenset[str]
    topics: Mapping[str, UnreadTopic]
    moved_after: datetime | None = None
    _later: ObservedGroup = field(init=False)
    _counted_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._later = self.newest
        self._counted_at = self.newest.observed_at

    @property
    def open(self) -> list[UnreadTopic]:
        """The topics whose idle time may be longer than is known."""
        return [topic for topic in self.topics.values() if topic.ended_by is None]

    def idle_seconds(self, topic: UnreadTopic) -> float:
        """Return how long a topic has been idle."""
        return (self.newest.observed_at - topic.idle_since).total_seconds()

    def look_back(
        self,
        group: ObservedGroup | None,
        subscribed: Subscriptions,
        manifest: SnapshotManifest,
        max_gap: timedelta | None,
        *,
        looked: bool = True,
        proves: bool = True,
    ) -> None:
        """Take an older snapshot into account.

        :param group: what it shows of the group; ``None`` if it lacks it.
        :param subscribed: what it shows of the subscriptions.
        :param max_gap: the longest time between two snapshots that count. Default: any.
        :param looked: whether it looked for the group: if not, its absence means nothing. Default true.
        :param proves: whether it can prove that a topic was idle; if not, it can only end an idle time. Default true.
        """
        shown, group_id = f"snapshot {manifest.snapshot_id}", self.newest.group_id
        seen = subscribed.seen.get(group_id, frozenset())
        for topic in self.open:
            offsets = topic.offsets.fingerprint
            if (sign := sign_of_life(topic.topic, offsets, group, seen, manifest, looked=looked)) is not None:
                self._end([topic], f"{shown} {sign}")
        if group is None or group.error is not None or not proves:
            return
        if group.observed_at >= self._later.observed_at:
            self._end(self.open, f"{shown} is older by its id and newer by its time")
            return
        if max_gap is not None and self._counted_at - group.observed_at > max_gap:
            self._end(
                self.open,
                f"no snapshot proves its subscriptions for more than {show_duration(max_gap.total_seconds())}",
            )
            return
        if self.moved_after is None and any(_moved(group, self._later, topic) for topic in self.subscribed):
            self.moved_after = group.observed_at
        self._later = group
        if group_id in subscribed.proven and manifest.complete:
            self._counted_at = group.observed_at
            for topic in self.open:
                topic.idle_since = group.observed_at
                topic.observations += 1

    def is_settled(self, enough: timedelta, observations: int) -> bool:
        """Return whether no older snapshot is worth reading.

        A movement of subscribed topics is looked for twice as far back as is asked for, and no further: a group whose
        topics stand still for good would have the complete history read every time. Without one, nothing is pruned.
        """
        seconds = enough.total_seconds()
        return all(
            topic.observations >= observations
            and (idle := self.idle_seconds(topic)) >= seconds
            and ((self.moved_after is not None and self.moved_after >= topic.idle_since) or idle >= 2 * seconds)
            for topic in self.open
        )

    @staticmethod
    def _end(topics: Iterable[UnreadTopic], why: str) -> None:
        for topic in topics:
            topic.ended_by = why


def judge(
    layout: Layout,
    snapshot: SnapshotReader,
    groups: Mapping[GroupId, frozenset[str]],
    *,
    enough: timedelta,
    observations: int,
    max_gap: timedelta | None,
) -> Iterator[JudgedGroup]:
    """Yield each group that has committed offsets of topics to which none of its members is subscribed, sorted by id.

    :param snapshot: the newest snapshot, a complete one.
    :param groups: the groups to judge, with the topics that it proves their members are subscribed to.
    :param enough: the longest idle time that is asked for: snapshots older than twice that are not read.
    :param observations: the most snapshots that are asked for.
    :param max_gap: the longest time between two snapshots that count, ``None`` for any.

    Raises ``SnapshotError`` for a snapshot that is damaged, and ``StorageError``.
    """
    judged = {}
    for group_id, group in observe(snapshot, groups).items():
        unread = {
            topic: UnreadTopic(topic=topic, offsets=offsets, idle_since=group.observed_at)
            for topic, offsets in group.topics.items()
            if topic not in groups[group_id]
        }
        if unread and group.error is None:
            judged[group_id] = JudgedGroup(newest=group, subscribed=groups[group_id], topics=unread)
    left = judged
    newest = snapshot.manifest
    for snapshot_id in reversed(snapshot_ids(layout)):
        left = {id_: group for id_, group in left.items() if not group.is_settled(enough, observations)}
        if not left:
            break
        if snapshot_id >= newest.snapshot_id:
            continue
        older = SnapshotReader(layout, snapshot_id)
        cluster_id = older.manifest.kafka_cluster_id
        if cluster_id not in (newest.kafka_cluster_id, None):
            continue
        shown, subscribed = observe(older, left), read_subscriptions(layout, older.manifest)
        asked = looked_for(older.manifest, left)
        for group_id, judged_group in left.items():
            proves = cluster_id is not None  # brokers that start may not know their cluster's id yet
            found, looked = shown.get(group_id), group_id in asked
            judged_group.look_back(found, subscribed, older.manifest, max_gap, looked=looked, proves=proves)
    yield from (judged[group_id] for group_id in sorted(judged))


def sign_of_life(
    topic: str,
    fingerprint: str,
    group: ObservedGroup | None,
    seen: Collection[str],
    manifest: SnapshotManifest,
    *,
    looked: bool,
) -> str | None:
    """Return why a snapshot ends the idle time of a topic, ``None`` if it does not.

    :param fingerprint: of the offsets that it must have.
    :param group: what the snapshot shows of its group; ``None`` if it lacks it.
    :param seen: the topics that it saw members of the group subscribe to, even if there are more.
    :param looked: whether it looked for the group.
    """
    if topic in seen:  # whatever else is not known
        return "has members that are subscribed to it"
    if group is None:
        return "does not have the group" if manifest.complete and looked else None
    if group.error is not None:
        return "could not read the group completely" if manifest.complete else None
    then = group.topics.get(topic)
    if then is None or then.fingerprint != fingerprint:
        return "has other offsets"
    return None


def _moved(then: ObservedGroup, later: ObservedGroup, topic: str) -> bool:
    """Whether a topic has offsets that an older snapshot does not show."""
    now, before = later.topics.get(topic), then.topics.get(topic)
    return now is not None and (before is None or before.fingerprint != now.fingerprint)
