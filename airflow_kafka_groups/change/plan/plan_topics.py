"""Plans of a pruning, from snapshots, the policy, the journal and the floors; caps count groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_kafka_groups.change.plan.abandoned_topics import (
    PartlyReadGroup,
    Resets,
    TopicObjections,
    UnreadTopic,
    evidence_of,
    judge,
    used_since,
)
from airflow_kafka_groups.change.plan.caps import Ranked, capped
from airflow_kafka_groups.change.plan.make_plan import require_usable
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.owners import NO_OWNERS, OwnerRules
from airflow_kafka_groups.judge.policy.plan_policy import ARGUMENTS_RULE, PlanPolicy
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction, RuleMatcher, facts_of
from airflow_kafka_groups.judge.verdict_names import KeptTopic
from airflow_kafka_groups.kafka.models import GroupState
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, save_plan
from airflow_kafka_groups.ledger.floors import SiteFloors
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.ledger.plan_rows import KeptGroup, PlannedGroup
from airflow_kafka_groups.observe.cluster_view import recorded_view
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, latest_manifest
from airflow_kafka_groups.observe.snapshot.subscriptions import read_subscriptions
from airflow_kafka_groups.storage.layout import Layout, StoragePath, utc_now
from airflow_kafka_groups.storage.paths import new_id


def plan_topics(
    layout: Layout,
    policy: PlanPolicy,
    floors: SiteFloors,
    *,
    snapshot_id: str | None = None,
    file: PolicyFile | None = None,
    now: datetime | None = None,
) -> tuple[DeletionPlan, StoragePath]:
    """Make a plan within the site's floors, and write it; return it with its path.

    :param policy: the limits that were asked for.
    :param floors: what the site demands; it counts for a policy file, too.
    :param snapshot_id: the newest snapshot to judge by. Default: the newest complete one.
    :param file: the policy file whose rules decide. Default: none, so that the policy's patterns and idle time count.
    :param now: the current time. Default: the clock's.

    Raises ``PlanError``, ``PolicyError`` for a policy file of other clusters, ``SnapshotError``, ``JournalError``,
    ``StorageError``, or ``MaintenanceError`` for a damaged record of a keep-alive run; no plan is written then.
    """
    bounded, bound = floors.within(policy, file, layout.cluster)
    if bounded.require_commit_log:
        raise PlanError(
            "the log of commits is required (require_commit_log), and topics are judged without it: nothing is pruned"
        )
    newest = latest_manifest(layout, to_judge=True).snapshot_id if snapshot_id is None else snapshot_id
    snapshot = SnapshotReader(layout, newest)
    at = now or utc_now()
    expires_at = require_usable(snapshot.manifest, bounded, at)
    cluster_id = snapshot.manifest.kafka_cluster_id
    ledger = Ledger(layout, cluster_id)
    planned, kept, found, warnings = _sort_out(
        snapshot,
        bounded,
        bounded.rules or (replace(bounded.every_rule[0], action=RuleAction.PRUNE_TOPICS),),
        NO_OWNERS if file is None else file.owners,
        TopicObjections(bounded.groups, Resets(ledger.history()), ledger.wanted(), at),
    )
    plan = DeletionPlan(
        plan_id=new_id(at),
        cluster=layout.cluster,
        kafka_cluster_id=cluster_id or "",
        snapshot_id=snapshot.manifest.snapshot_id,
        created_at=at,
        expires_at=expires_at,
        policy=bounded,
        counts=_counts(found, planned, kept),
        warnings=(*bound, *floors.warnings(), *(file.warnings if file else ()), *warnings),
        groups=planned,
        kept=kept,
        prunes=True,
        view=recorded_view(snapshot.manifest.view, f"snapshot {snapshot.manifest.snapshot_id}"),
    )
    if used := used_since(ledger, plan):  # by a snapshot that their judgement does not know
        kept += [_kept(item, KeptTopic.DOUBT, used[item.name]) for item in planned if item.name in used]
        planned = [item for item in planned if item.name not in used]
        plan = replace(plan, groups=planned, kept=kept, counts=_counts(found, planned, kept))
    return plan, save_plan(layout, plan)


def _counts(found: Mapping[str, int], planned: Sequence[PlannedGroup], kept: Sequence[KeptGroup]) -> dict[str, int]:
    by_verdict = Counter(item.verdict for item in kept)
    return {
        **found,
        **{verdict.value: by_verdict.get(verdict.value, 0) for verdict in KeptTopic},
        "planned_groups": len({item.group_id for item in planned}),
        "planned": len(planned),
        "planned_partitions": sum(item.partitions for item in planned),
    }


def _kept(item: PlannedGroup, why: KeptTopic, reason: str) -> KeptGroup:
    return KeptGroup(
        group_id=item.group_id, topic=item.topic, verdict=why.value, reason=reason, rule=item.rule, owner=item.owner
    )


def _sort_out(
    snapshot: SnapshotReader,
    policy: PlanPolicy,
    rules: tuple[Rule, ...],
    owners: OwnerRules,
    objections: TopicObjections,
) -> tuple[list[PlannedGroup], list[KeptGroup], dict[str, int], list[str]]:
    """Return the topics to prune, the others without subscription, what was found, and warnings."""
    layout, subscriptions = snapshot.layout, read_subscriptions(snapshot.layout, snapshot.manifest)
    subscribed, committed = subscriptions.proven, snapshot.topics()
    unread = {id_: topics for id_, topics in subscribed.items() if not committed.get(id_, frozenset()) <= topics}
    pruning, gap = [rule for rule in rules if rule.prunes], policy.max_gap_seconds
    judged = judge(
        layout,
        snapshot,
        unread,
        enough=timedelta(seconds=max((rule.min_idle_seconds for rule in pruning), default=0.0)),
        observations=max((rule.min_observations for rule in pruning), default=1),
        max_gap=timedelta(seconds=gap) if gap else None,
    )
    groups = {group.newest.group_id: group for group in judged}
    facts = [
        facts_of(id_, owners, group_type=group.newest.group_type, topics=committed[id_])
        for id_, group in groups.items()
    ]
    kept: list[KeptGroup] = []
    candidates: dict[str, list[PlannedGroup]] = {}
    for each, ruling in zip(facts, RuleMatcher(rules).rule_all(facts), strict=True):
        group, rule = groups[each.group_id], ruling.rule
        against, name = objections.to_group(group, ruling), rule.name if policy.rules else None
        for topic in group.topics.values():
            why = against or objections.to_topic(group, topic, rule)
            item = _planned(group, topic, name, rule.owner or each.owner)
            if why is None:
                candidates.setdefault(each.group_id, []).append(item)
            else:
                kept.append(_kept(item, *why))
    for topics in candidates.values():
        topics.sort(key=lambda item: (-(item.idle_seconds or 0.0), item.topic or ""))
    longest = [Ranked(id_, topics[0].idle_seconds, topics[0].rule) for id_, topics in candidates.items()]
    within, over, warnings = capped(longest, snapshot.manifest.groups, policy, what="have topics to prune")
    for beyond in over:
        reason = beyond.reason.removeprefix("stale, but ")
        kept += [_kept(item, KeptTopic.OVER_CAP, reason) for item in candidates[beyond.group_id]]
    planned = [item for first in within for item in candidates[first.group_id]]
    found = {
        "found": snapshot.manifest.groups,
        "subscriptions_known": len(subscribed),
        "with_unread_topics": len(groups),
        "unread_topics": sum(len(group.topics) for group in groups.values()),
    }
    return planned, kept, found, [*warnings, *_warnings(pruning, snapshot.manifest.offsets_retention_minutes)]


def _warnings(pruning: Sequence[Rule], retention_minutes: int | None) -> Iterator[str]:
    if not pruning:
        yield "no rule of the policy has the action prune-topics: nothing is pruned"
    for rule in pruning:
        if retention_minutes is not None and rule.min_idle_seconds >= 60 * retention_minutes:
            who = "min_idle_seconds" if rule.name == ARGUMENTS_RULE else f"rule {rule.name!r}"
            yield (
                f"{who} requires {show_duration(rule.min_idle_seconds)}, and the brokers remove "
                f"offsets of topics without subscription by themselves after {show_duration(60 * retention_minutes)} "
                "(offsets.retention.minutes): few are found. Lower it, or leave them to the brokers"
            )


def _planned(group: PartlyReadGroup, topic: UnreadTopic, rule: str | None, owner: str | None) -> PlannedGroup:
    newest, idle = group.newest, group.idle_seconds(topic)
    return PlannedGroup(
        group_id=newest.group_id,
        topic=topic.topic,
        group_type=newest.group_type,
        protocol_type=newest.protocol_type,
        state=GroupState.STABLE.value,  # of no other one, the subscriptions are known
        partitions=topic.offsets.partitions,
        fingerprint=topic.offsets.fingerprint,
        idle_since=topic.idle_since,
        idle_seconds=idle,
        observations=topic.observations,
        rule=rule,
        owner=owner,
        reason=evidence_of(idle, topic) + (f"; rule {rule!r}" if rule else ""),
    )
