"""Why a topic that nobody in its group is subscribed to is kept. Pure; every doubt keeps.

The rule that decides must certainly match the group, and match its id exactly: rules that do not delete groups match
generously, which would widen a pruning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_groups.change.prune_topics.judging import JudgedGroup, UnreadTopic
from airflow_kafka_groups.change.prune_topics.resets import Resets
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.judge.policy.matching import Ruling, matches_exactly
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.kafka.models.group_types import JUDGED_TYPES
from airflow_kafka_groups.ledger.prune_plan import KeptTopic, name_of
from airflow_kafka_groups.ledger.records import KeptAlive
from airflow_kafka_groups.observe.patterns import GroupFilter

CONSUMER_PROTOCOL = "consumer"
"""Of groups with another protocol type, brokers do not know what the members read."""

Objection = tuple[KeptTopic, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objections:
    """What may speak against a pruning.

    :param patterns: the patterns of the plan, which no rule overrides.
    """

    patterns: GroupFilter
    resets: Resets
    kept_alive: Mapping[str, KeptAlive]
    now: datetime

    def to_group(self, group: JudgedGroup, ruling: Ruling) -> Objection | None:
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

    def since_record(self, group: JudgedGroup, topic: UnreadTopic) -> UnreadTopic:
        """Return a topic that may be pruned, with the idle time that counts from a record of its group.

        A pruning of files may remove that while the plan waits, and its policy may demand a longer idle time by then.
        """
        kept = self.kept_alive.get(group.newest.group_id)
        return topic if kept is None else replace(topic, idle_since=max(topic.idle_since, kept.at))

    def to_topic(self, group: JudgedGroup, topic: UnreadTopic, rule: Rule) -> Objection | None:
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
    """Return what proves that a topic is abandoned, as a sentence.

    :param idle: how long it has been idle, in seconds.
    """
    return f"not subscribed to and unmoved for {show_duration(max(int(idle), 0))} ({topic.observations} snapshots)"
