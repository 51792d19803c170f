"""Topics that a live group has abandoned, by the snapshots, the journal and the policy. Pure; every doubt keeps.

The history is read from the newest snapshot backwards. A snapshot *counts* if it is complete and proves the
subscription. One that proves nothing (a rebalance, a restart, an incomplete listing) does not count, and ends nothing
either, as long as the offsets are the same. A subscription, other offsets, an error, or a group that is absent ends the
idle time; docs/howto/prune-topics.md has the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from airflow_kafka_groups.change.backup.file import BackedUpGroup, groups_of
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import SnapshotError
from airflow_kafka_groups.judge.policy.rules import Rule, Ruling, matches_exactly
from airflow_kafka_groups.judge.verdict_names import KeptTopic
from airflow_kafka_groups.kafka.models import JUDGED_TYPES, GroupId, GroupOffsets
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.history import DeletionHistory, IdleReset
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import Reason
from airflow_kafka_groups.ledger.plan_rows import Target, name_of
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.observe.fingerprint import OFFSET_COLUMNS, fingerprint
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, is_news, looked_for, may_see_less, snapshot_ids
from airflow_kafka_groups.observe.snapshot.subscriptions import CONSUMER_PROTOCOL, Subscriptions, read_subscriptions
from airflow_kafka_groups.storage.layout import Layout
from airflow_kafka_groups.storage.manifest import SnapshotManifest
from airflow_kafka_groups.storage.schemas import utc_times


class Resets:
    """When idle times of topics restarted."""

    def __init__(self, history: DeletionHistory) -> None:
        self._own = history.idle_resets()
        self._groups = history.deletions()
        self._gone = history.lives(gone=True)

    def why_reset(self, group_id: str, name: str, judged_at: datetime, min_idle_seconds: float) -> IdleReset | None:
        """Return why the idle time of a topic had not passed when it was judged, ``None`` if it had."""
        resets = [self._own[name]] if name in self._own else []
        if (deletion := self._groups.get(group_id)) is not None:
            reason = f"run {deletion.run_id} deleted the group, or may have, at {deletion.at:%Y-%m-%d %H:%M:%S %Z}"
            resets.append(IdleReset(deletion.at, Reason.DELETED_BEFORE, reason))
        if (gone := self._gone.get(group_id)) is not None:
            reason = f"run {gone.run_id} found the group gone at {gone.at:%Y-%m-%d %H:%M:%S %Z}"
            resets.append(IdleReset(gone.at, Reason.ALIVE_BEFORE, reason))
        return next((each for each in resets if not each.has_passed(judged_at, min_idle_seconds)), None)


_FACTS = ("group_type", "protocol_type")


class ObservedTopic(NamedTuple):
    """The committed offsets of one topic of a group.

    :param exists: whether the log of one of the partitions could be read.
    """

    fingerprint: str
    partitions: int
    exists: bool


class ObservedGroup(NamedTuple):
    """A group in a snapshot.

    :param error: why it could not be read completely; ``None`` if it could.
    """

    group_id: GroupId
    group_type: str
    protocol_type: str
    observed_at: datetime
    error: str | None
    topics: Mapping[str, ObservedTopic]


def observe(snapshot: SnapshotReader, group_ids: Collection[GroupId]) -> dict[GroupId, ObservedGroup]:
    """Return what a snapshot shows of these groups. Groups that it lacks are left out.

    Raises ``SnapshotError`` for rows that this package does not write.
    """
    found: dict[GroupId, ObservedGroup] = {}
    columns = ("observed_at", *_FACTS, "error", "log_start", "log_end", *OFFSET_COLUMNS)
    for block in snapshot.blocks(set(group_ids), columns):
        facts = [block.first(name).to_pylist() for name in _FACTS]
        errors, times = block.errors(), utc_times(block.first("observed_at"))
        if None in times or found.keys() & set(block.group_ids):
            raise SnapshotError(f"snapshot {snapshot.manifest.snapshot_id} lacks the time of a group, or has it twice")
        topics = map(_topics, groups_of(block, [Target(group_id, "", "", "") for group_id in block.group_ids]))
        groups = map(ObservedGroup, block.group_ids, *facts, times, errors, topics)
        found |= {group.group_id: group for group in groups}
    return found


def _topics(group: BackedUpGroup) -> dict[str, ObservedTopic]:
    found, ends = dict[str, ObservedTopic](), iter(group.bounds[1])
    for part in group.offsets.topics:
        logs = list(islice(ends, len(part)))
        if part.committed:
            alone = GroupOffsets(group.entry.group_id, (part,))
            exists = any(end >= 0 for end, row in zip(logs, part.rows(), strict=True) if row[1] >= 0)
            found[part.topic] = ObservedTopic(fingerprint(alone), part.committed, exists)
    return found


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
class PartlyReadGroup:
    """A group with topics that no member is subscribed to.

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
            return self._end(self.open, f"{shown} is older by its id and newer by its time")
        if max_gap is not None and self._counted_at - group.observed_at > max_gap:
            longest = show_duration(max_gap.total_seconds())
            return self._end(self.open, f"no snapshot proves its subscriptions for more than {longest}")
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
) -> Iterator[PartlyReadGroup]:
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
            judged[group_id] = PartlyReadGroup(newest=group, subscribed=groups[group_id], topics=unread)
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


def used_since(ledger: Ledger, plan: DeletionPlan) -> dict[str, str]:
    """Return the topics of a plan, by name, whose idle time a snapshot ends that the plan does not know, and why.

    Those are later ones, and those of other connections since the topics are idle.

    :param ledger: what it yielded before is not read again.

    Raises ``SnapshotError`` for a later snapshot that is damaged: what it shows is not known.
    """
    found: dict[str, str] = {}
    group_ids, planned = set(plan.touched), list(plan.groups)
    for reader in ledger.later(plan.snapshot_id, plan.kafka_cluster_id, plan.idle_from):
        sees_less = may_see_less(reader, ledger.layout, plan.view)
        shown = {} if sees_less and not reader.manifest.sees_all_topics else observe(reader, group_ids)
        subscribed = read_subscriptions(reader.layout, reader.manifest)
        asked = set() if sees_less else looked_for(reader.manifest, group_ids)
        for item in planned:
            if not is_news(reader.manifest, plan.snapshot_id, item.idle_since):
                continue
            group, seen = shown.get(item.group_id), subscribed.seen.get(item.group_id, frozenset())
            looked = item.group_id in asked
            sign = sign_of_life(item.topic or "", item.fingerprint, group, seen, reader.manifest, looked=looked)
            if sign is not None:
                found[item.name] = f"snapshot {reader.manifest.snapshot_id}, which the plan does not know, {sign}"
    return found


def _moved(then: ObservedGroup, later: ObservedGroup, topic: str) -> bool:
    """Whether a topic has offsets that an older snapshot does not show."""
    now, before = later.topics.get(topic), then.topics.get(topic)
    return now is not None and (before is None or before.fingerprint != now.fingerprint)


Objection = tuple[KeptTopic, str]


@dataclass(frozen=True, slots=True)
class TopicObjections:
    """The possible objections to a pruning.

    :param patterns: the patterns of the plan, which no rule overrides.
    """

    patterns: GroupFilter
    resets: Resets
    kept_alive: Mapping[str, KeptAlive]
    now: datetime

    def to_group(self, group: PartlyReadGroup, ruling: Ruling) -> Objection | None:
        """Return why no topic of a group may be pruned, ``None`` if some may."""
        newest, group_id = group.newest, group.newest.group_id
        if (reason := self.patterns.why_not(group_id)) is not None:
            return KeptTopic.PROTECTED if reason.startswith("protected") else KeptTopic.EXCLUDED, reason
        if (why := why_not_ruled(ruling, group_id)) is not None:
            return KeptTopic.BY_RULE, why
        if ruling.rule.notice_seconds:
            return KeptTopic.NOTICE, f"rule {ruling.rule.name!r} demands a notice, and a pruning gives none"
        if newest.group_type not in JUDGED_TYPES or newest.protocol_type != CONSUMER_PROTOCOL:
            return KeptTopic.KIND, f"it is a {newest.group_type} group of the protocol {newest.protocol_type!r}"
        kept = self.kept_alive.get(group_id)
        if kept is None or not kept.holds(self.now, newest.observed_at, ruling.rule.min_idle_seconds):
            return None
        return KeptTopic.EXCLUDED, (
            f"{kept.what} of {kept.at.isoformat()} wants its offsets to stay: its idle time begins again"
        )

    def to_topic(self, group: PartlyReadGroup, topic: UnreadTopic, rule: Rule) -> Objection | None:
        """Return why a topic may not be pruned, ``None`` if it may."""
        if not topic.offsets.exists:
            return KeptTopic.MISSING, (
                "the topic does not exist, or its log could not be read: brokers refuse to delete the offsets of a "
                "topic that does not exist, and forget them by themselves"
            )
        idle, before = group.idle_seconds(topic), f"; before that, {topic.ended_by}" if topic.ended_by else ""
        if idle < rule.min_idle_seconds or topic.observations < rule.min_observations:
            return KeptTopic.SETTLING, (
                f"{evidence_of(idle, topic)}; required are {show_duration(rule.min_idle_seconds)} and "
                f"{rule.min_observations} snapshots{before}"
            )
        if group.moved_after is None or group.moved_after < topic.idle_since:
            return KeptTopic.GROUP_IDLE, "no offset of the topics that the group is subscribed to moved meanwhile"
        group_id, at = group.newest.group_id, group.newest.observed_at
        why = self.resets.why_reset(group_id, name_of(group_id, topic.topic), at, rule.min_idle_seconds)
        return None if why is None else (KeptTopic.DOUBT, f"{why.reason}: its idle time counts from then on")


def why_not_ruled(ruling: Ruling, group_id: str) -> str | None:
    """Return why a ruling does not let topics of a group be pruned, ``None`` if it does."""
    rule = ruling.rule
    if not rule.prunes:
        return f"rule {rule.name!r} says {rule.action.value}"
    if ruling.undecided:
        return f"it is not known whether {', '.join(map(repr, ruling.undecided))} decides about it"
    if not matches_exactly(rule, group_id):
        return f"rule {rule.name!r} does not match its id exactly"
    return None


def evidence_of(idle: float, topic: UnreadTopic) -> str:
    """Return what proves that a topic is abandoned, as a sentence."""
    return f"not subscribed to and unmoved for {show_duration(max(int(idle), 0))} ({topic.observations} snapshots)"
