"""What speaks against pruning a planned topic, beside the reading a moment before: snapshots, policy, journal.

A plan may wait for its approval. Meanwhile, a snapshot may show that somebody used the topic, the policy may be edited,
and other runs may have deleted the group or the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from airflow_kafka_groups.change.deletion.guards.exclusions import exclusions, spare
from airflow_kafka_groups.change.deletion.guards.newer_policy import idle_times_by_edit, kept_by_edit, seconds_to_plan
from airflow_kafka_groups.change.deletion.recheck import keep
from airflow_kafka_groups.change.plan.caps import capped
from airflow_kafka_groups.change.prune_topics.abandoned_topics import Resets, observe, sign_of_life, why_not_ruled
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.ledger.journal.history import DeletionHistory
from airflow_kafka_groups.ledger.keep_alive_records import KeptAlive
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.outcomes import Decision, Reason
from airflow_kafka_groups.ledger.prune_plan import KeptTopic, PlannedTopic, PrunePlan
from airflow_kafka_groups.observe.patterns import GroupFilter
from airflow_kafka_groups.observe.snapshot.newer import is_news, may_see_less
from airflow_kafka_groups.observe.snapshot.reader import looked_for
from airflow_kafka_groups.observe.snapshot.subscriptions import read_subscriptions
from airflow_kafka_groups.storage.paths import parse_time


def used_since(ledger: Ledger, plan: PrunePlan) -> dict[str, Decision]:
    """Return the topics of a plan whose idle time a snapshot ends that the plan does not know, with the reason.

    Those are later ones, and those of other connections since the topics are idle.

    :param ledger: what it yielded before is not read again.

    Raises ``SnapshotError`` for a later snapshot that is damaged: what it shows is not known.
    """
    found: dict[str, Decision] = {}
    group_ids = {item.group_id for item in plan.groups}
    since = min((parse_time(item.idle_since) for item in plan.groups), default=None)
    every = ledger.later(plan.snapshot_id, plan.kafka_cluster_id, since)
    for reader in every:
        sees_less = may_see_less(reader, ledger.layout, plan.view)
        shown = {} if sees_less and not reader.manifest.sees_all_topics else observe(reader, group_ids)
        subscribed = read_subscriptions(reader.layout, reader.manifest)
        asked = set() if sees_less else looked_for(reader.manifest, group_ids)
        for item in plan.groups:
            if not is_news(reader.manifest, plan.snapshot_id, parse_time(item.idle_since)):
                continue
            group, seen = shown.get(item.group_id), subscribed.seen.get(item.group_id, frozenset())
            looked = item.group_id in asked
            sign = sign_of_life(item.topic, item.fingerprint, group, seen, reader.manifest, looked=looked)
            if sign is not None:
                reason = f"snapshot {reader.manifest.snapshot_id}, which the plan does not know, {sign}"
                found[item.name] = keep(Reason.ALIVE_BEFORE, reason)
    return found


def kept_by_policy(plan: PrunePlan, file: PolicyFile | None, now: datetime) -> dict[str, Decision]:
    """Return the topics of a plan that its policy file keeps by now: an edit can only keep.

    :param file: the policy file as it is now; ``None`` if nobody read it.

    Raises as ``kept_by_edit`` does.
    """
    return kept_by_edit(plan, file, now, partial(_kept, plan))


def _kept(plan: PrunePlan, file: PolicyFile) -> Iterator[tuple[str, str]]:
    before = {rule.name: rule for rule in plan.policy.rules}
    protected = GroupFilter(protected=file.protected)
    left: dict[str, PlannedTopic] = {}
    # A rule that asks for topics or clients may match, and then the topic is kept.
    ruled = file.rule(tuple((item.group_id, item.group_type) for item in plan.groups))
    for item, (_, ruling) in zip(plan.groups, ruled, strict=True):
        why = why_not_ruled(ruling, item.group_id) or _stricter(item, ruling.rule, before.get(item.rule or ""))
        if protected.protects(item.group_id):
            why = "it protects the group"
        if why is not None:
            yield item.name, why
        else:
            left.setdefault(item.group_id, replace(item, rule=ruling.rule.name))
    # The caps of the file as it is now, by groups: those of the rule that decides by now, not of the plan's.
    more = len({item.group_id for item in plan.kept if item.verdict == KeptTopic.OVER_CAP})
    over = capped(list(left.values()), plan.counts.get("found", 0), plan.policy.by_file(file), more=more)[1]
    beyond = {group.group_id for group in over}
    for item in plan.groups:
        if item.group_id in beyond:
            yield item.name, "its caps leave the group for a later plan"


def _stricter(item: PlannedTopic, rule: Rule, before: Rule | None) -> str | None:
    if item.idle_seconds < rule.min_idle_seconds or item.observations < rule.min_observations:
        return (
            f"rule {rule.name!r} requires {show_duration(rule.min_idle_seconds)} and {rule.min_observations} snapshots"
        )
    if rule.notice_seconds:
        return f"rule {rule.name!r} demands a notice, and a pruning gives none"
    if rule.approval and not (before is not None and before.approval):
        return f"rule {rule.name!r} demands an approval"
    return None


def kept_by_journal(
    plan: PrunePlan,
    history: DeletionHistory,
    kept_alive: Mapping[str, KeptAlive],
    now: datetime,
    least_idle: float,
    policy: PolicyFile | None,
) -> dict[str, Decision]:
    """Return the topics of a plan that were deleted or found in use before, or whose group somebody keeps alive.

    :param history: the journal, as it is when the run has begun.
    :param least_idle: the least idle time of the site, in seconds.
    :param policy: the plan's policy file as it is now, which may demand longer idle times; ``None`` if nobody read it.
    """
    by_rule: dict[str | None, float] = {rule.name: rule.min_idle_seconds for rule in plan.policy.rules}
    by_edit = idle_times_by_edit(plan, policy, [(item.group_id, item.group_type) for item in plan.groups])
    since, idle = seconds_to_plan(plan), dict[str, float]()
    for item, seconds in zip(plan.groups, by_edit, strict=True):
        asked = by_rule.get(item.rule, plan.policy.min_idle_seconds)
        raised = least_idle + since if least_idle > asked else 0.0  # the plan has not asked for it
        idle[item.name] = max(asked, raised, seconds)
    judged_at = min(plan.created_at, now)
    before = exclusions(history, plan.plan_id, now=now, judged_at=judged_at, min_idle_seconds=idle)
    of_group: dict[str, float] = {}
    for item in plan.groups:
        of_group[item.group_id] = max(idle[item.name], of_group.get(item.group_id, 0.0))
    resets, spared = Resets(history), spare(kept_alive, now, judged_at, of_group)
    found: dict[str, Decision] = {}
    for item in plan.groups:
        decision = before.get(item.name) or spared.get(item.group_id)
        reset = resets.why_reset(item.group_id, item.name, judged_at, idle[item.name])
        if decision is None and reset is not None:
            decision = keep(reset.code, f"{reset.reason}; its idle time restarts since then")
        if decision is not None:
            found[item.name] = decision
    return found
