"""What the policy says of each judged group, and why a plan keeps one that the job found stale. Every doubt keeps."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.judge.policy.families import GROWTH_SECONDS, FastFamily, Member, NewGroup, summarize, too_fast
from airflow_kafka_groups.judge.policy.notice import Notice, why_not_noticed
from airflow_kafka_groups.judge.policy.owners import OwnerRules
from airflow_kafka_groups.judge.policy.plan_policy import ARGUMENTS_RULE, PlanPolicy
from airflow_kafka_groups.judge.policy.rules import Rule, RuleAction, RuleMatcher, Ruling, facts_of_all
from airflow_kafka_groups.judge.verdict_names import KeptName, VerdictName
from airflow_kafka_groups.kafka.models import GroupState, has_judged_kind
from airflow_kafka_groups.ledger.history import IdleReset
from airflow_kafka_groups.ledger.life.signs import news_of
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.ledger.verdicts import Verdict, Verdicts
from airflow_kafka_groups.observe.snapshot.members import QuietSince, last_client_ids
from airflow_kafka_groups.observe.snapshot.reader import GroupSummary, SnapshotReader, seen_before
from airflow_kafka_groups.storage.schemas import utc_times

if TYPE_CHECKING:
    from airflow_kafka_groups.ledger.ledger import Known


class RuledGroups:
    """The judged groups, in the order of their verdicts.

    :param snapshot: the judged snapshot. Its topics and last clients are read only if a rule asks for them.
    """

    def __init__(self, verdicts: Verdicts, snapshot: SnapshotReader, policy: PlanPolicy, owners: OwnerRules) -> None:
        ids = verdicts.table["group_id"].to_pylist()
        types = verdicts.table["group_type"].to_pylist()
        # Where topics may be hidden, a group may have others than those that are visible.
        asked = any(rule.match.topics for rule in policy.rules) and snapshot.manifest.sees_all_topics
        topics = snapshot.topics() if asked else None
        clients = {}
        if any(rule.match.clients for rule in policy.rules):
            times = (utc_times(verdicts.table[name]) for name in QuietSince._fields[1:])
            quiet = map(QuietSince, ids, *times)
            gap, cluster_id = timedelta(seconds=policy.max_gap_seconds), snapshot.manifest.kafka_cluster_id
            clients = last_client_ids(snapshot.layout, quiet, cluster_id, gap)
        last = list(map(clients.get, ids))
        read = [None if topics is None else topics.get(group_id, frozenset()) for group_id in ids]
        self._facts = facts_of_all(ids, owners, types, read, last)
        self._verdicts, self._snapshot = verdicts, snapshot
        self._by_file = bool(policy.rules)
        self._notices = any(rule.deletes and rule.notice_seconds for rule in policy.rules)
        self._before = policy.rules_before()
        self.rulings: list[Ruling] = RuleMatcher(policy.every_rule).rule_all(self._facts)

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {facts.group_id: number for number, facts in enumerate(self._facts)}

    def _rule(self, number: int) -> str | None:
        return self.rulings[number].rule.name if self._by_file else None

    def owner(self, number: int) -> str | None:
        """Return the owner of the group with this place among the verdicts."""
        return self.rulings[number].rule.owner or self._facts[number].owner

    def notice_rule(self, number: int) -> Rule:
        """Return the rule with the longest notice of the group with this place among the verdicts: its own, or before.

        The deletion knows neither topics nor last clients. What it demands is demanded here, too: it would keep a group
        of which no plan has its owner notified.
        """
        if not self._notices:
            return self.rulings[number].rule
        return max(self._asked_by_deletion(number), key=lambda each: each.notice_seconds)

    def idle_seconds(self, number: int) -> float:
        """Return the idle time that a deletion asks for after what is on record of the group with this place."""
        return max(each.min_idle_seconds for each in self._asked_by_deletion(number))

    def _asked_by_deletion(self, number: int) -> list[Rule]:
        rule, facts = self.rulings[number].rule, self._facts[number]
        return [*self._before.of(facts._replace(owner=self.owner(number), rule=rule.name)), rule]

    def describe(self, kept: KeptGroup) -> KeptGroup:
        """Return a kept group with its rule, owner and family."""
        number = self._numbers[kept.group_id]
        return replace(kept, rule=self._rule(number), owner=self.owner(number), family=self._facts[number].family)

    def columns(self, numbers: Sequence[int], reasons: Sequence[str]) -> dict[str, list[Any]]:
        """Return the columns of planned groups.

        :param reasons: the job's reasons, to which the rule is added.
        """
        rules = list(map(self._rule, numbers))
        if self._by_file:
            reasons = [f"{reason}; rule {rule!r}" for reason, rule in zip(reasons, rules, strict=True)]
        return {
            "rule": rules,
            "owner": list(map(self.owner, numbers)),
            "family": [self._facts[number].family for number in numbers],
            "reason": list(reasons),
        }

    def growth(self) -> tuple[list[FastFamily], list[str]]:
        """Return the families that grow faster than their rules allow, and why this is not known.

        New is what no snapshot showed until a day before this one. Groups that were deleted since are not counted.
        Raises ``StorageError``.
        """
        if all(ruling.rule.max_growth_per_day is None for ruling in self.rulings):
            return [], []
        manifest, seen = self._snapshot.manifest, utc_times(self._verdicts.table["first_seen_at"])
        since = seen_before(self._snapshot.layout, manifest, timedelta(seconds=GROWTH_SECONDS))
        # The job may know less of the past than there are snapshots: then everything is new to it.
        if since is None or not any(at is not None and at <= since for at in seen):
            return [], ["the growth of families is not known: there is no judged snapshot of a day before this one"]
        new = [
            NewGroup(facts.family, ruling.rule.name, ruling.rule.max_growth_per_day)
            for facts, ruling, at in zip(self._facts, self.rulings, seen, strict=True)
            if at is not None and at > since and facts.family and ruling.rule.max_growth_per_day is not None
        ]
        return too_fast(new, (manifest.observed_at - since).total_seconds() / GROWTH_SECONDS), []

    def families(
        self, observed_at: datetime, planned: Collection[int], fast: Sequence[FastFamily]
    ) -> tuple[Mapping[str, Any], ...]:
        """Return the families in numbers, as the plan's header has them.

        :param planned: the places of the planned groups among the verdicts.
        :param fast: the families that grow faster than their rules allow.
        """
        seen = utc_times(self._verdicts.table["first_seen_at"])
        members = [
            Member(facts.group_id, facts.family, self.owner(number), number in planned, seen[number])
            for number, facts in enumerate(self._facts)
            if facts.family is not None
        ]
        return tuple(family.to_json() for family in summarize(members, observed_at, fast))


COUNTS_ANEW = "its idle time counts from then on"
"""How the reason ends of a group that needs time, and no edit of a pattern."""

_STALE, _EMPTY = VerdictName.STALE.value, GroupState.EMPTY.value


def keep(group_id: str, why: str, reason: str) -> KeptGroup:
    """Return a group that is kept."""
    return KeptGroup(group_id=group_id, verdict=str(why), reason=reason)


def keep_by_verdict(verdict: Verdict, ruling: Ruling, refused: Mapping[str, str]) -> KeptGroup | None:
    """Return the group as kept if its verdict, a pattern or its rule is against a deletion.

    :param refused: the groups that the plan's patterns refuse, with the reason. No rule overrides these.
    """
    if verdict.verdict != _STALE:
        return keep(verdict.group_id, verdict.verdict, verdict.reason)
    if (reason := refused.get(verdict.group_id)) is not None:
        name = KeptName.PROTECTED if reason.startswith("protected") else KeptName.EXCLUDED
        return keep(verdict.group_id, name, reason)
    rule = ruling.rule
    if (why := rule.why_kept(verdict.group_type)) is not None:
        name = KeptName.REPORTED if rule.action is RuleAction.REPORT else KeptName.BY_RULE
        return keep(verdict.group_id, name, f"rule {rule.name!r} {why}{_may_match(ruling)}")
    idle = verdict.idle_seconds
    if idle is None or not math.isfinite(idle) or verdict.idle_since is None:
        return keep(verdict.group_id, KeptName.DOUBT, "the verdict lacks the group's idle time")
    # Both must agree; if the job contradicts itself, the shorter time counts.
    idle = min(idle, (verdict.observed_at - verdict.idle_since).total_seconds())
    if idle >= rule.min_idle_seconds and verdict.observations >= rule.min_observations:
        return None
    by_arguments = rule.name == ARGUMENTS_RULE
    name = KeptName.DOUBT if by_arguments else KeptName.WAITING
    who = "the policy" if by_arguments else f"rule {rule.name!r}"
    if idle < rule.min_idle_seconds:
        found = f"idle for {show_duration(max(int(idle), 0))}; {who} requires {show_duration(rule.min_idle_seconds)}"
    else:
        found = f"seen in {verdict.observations} snapshot(s); {who} requires {rule.min_observations}"
    return keep(verdict.group_id, name, f"{found}{_may_match(ruling)}")


def _may_match(ruling: Ruling) -> str:
    if not ruling.undecided:
        return ""
    rules = ", ".join(map(repr, ruling.undecided))
    return f"; the type, the topics or the last client that {rules} asks for are not known"


def doubt(group: GroupSummary, verdict: Verdict) -> str | None:
    """Return the objection in the snapshot to deleting the group, or ``None``."""
    if group.error is not None:
        return f"could not be read: {group.error}"
    if verdict.observed_at != group.observed_at:
        return "the verdict is about another observation"
    if verdict.group_type != group.group_type:
        return f"the verdict is about a group of the type {verdict.group_type!r}"
    if not has_judged_kind(group.group_type, group.protocol_type):
        return f"its protocol type is {group.protocol_type!r}: another program stores its state in it"
    if group.state != _EMPTY:
        return f"its state was {group.state}"
    if group.members != 0:
        return "it had members, or their number is unknown"
    if group.partitions == 0:
        return "no committed offset is visible"
    return None


@dataclass(frozen=True, slots=True)
class Objections:
    """The possible objections to deleting a group, except for the caps. ``number`` is the place of its verdict.

    :param refused: the groups that the plan's patterns refuse, with the reason.
    :param resets: the journal's restarts of idle times.
    """

    ruled: RuledGroups
    policy: PlanPolicy
    refused: Mapping[str, str]
    resets: Mapping[str, IdleReset]
    notices: Mapping[str, Notice]
    known: Known

    def by_record(self, number: int, verdict: Verdict) -> KeptGroup | None:
        """Return the group as kept if its verdict, its rule, or what is on record of it is against a deletion."""
        if (against := keep_by_verdict(verdict, self.ruled.rulings[number], self.refused)) is not None:
            return against
        kept, reset = self.known.kept_alive.get(verdict.group_id), self._reset(verdict)
        least_idle = self.ruled.idle_seconds(number) if kept is not None or reset is not None else 0.0
        if kept is not None and kept.holds(verdict.observed_at, verdict.observed_at, least_idle):
            wants = f"{kept.what} of {kept.at.isoformat()} wants it to stay"
            return keep(verdict.group_id, KeptName.EXCLUDED, f"{wants}: {COUNTS_ANEW}")
        if reset is not None and not reset.has_passed(verdict.observed_at, least_idle):  # snapshots may not show it
            return keep(verdict.group_id, KeptName.DOUBT, f"{reset.reason}: {COUNTS_ANEW}")
        return None

    def _reset(self, verdict: Verdict) -> IdleReset | None:
        """Return when the idle time of a group restarted: by the journal, or by a sign that the judge has not seen."""
        news = news_of(self.known.seen.get(verdict.group_id), verdict.idle_since)
        return max(filter(None, (self.resets.get(verdict.group_id), news)), key=lambda each: each.at, default=None)

    def by_snapshot(self, number: int, verdict: Verdict, group: GroupSummary) -> KeptGroup | None:
        """Return the group as kept if the snapshot is against a deletion, or its owner had no notice."""
        if (objection := doubt(group, verdict)) is not None:
            return keep(group.group_id, KeptName.DOUBT, objection)
        demands = self.ruled.notice_rule(number)
        if not demands.notice_seconds and verdict.group_id not in self.notices:
            return None
        return self._by_notice(number, verdict, group, demands)

    def _by_notice(self, number: int, verdict: Verdict, group: GroupSummary, demands: Rule) -> KeptGroup | None:
        """Keep a group whose owner has not had the notice that its rule demands for long enough.

        :param demands: the rule with the longest notice: its own, or one before it that the deletion, which knows less
            of the group, asks for.
        """
        owner, reset, kept = self.ruled.owner(number), self._reset(verdict), self.known.kept_alive.get(verdict.group_id)
        signs = verdict.idle_since, None if reset is None else reset.at, None if kept is None else kept.at
        alive_at = max(sign for sign in signs if sign is not None)
        why = why_not_noticed(
            self.notices.get(verdict.group_id),
            demands.notice_seconds,
            fingerprint=group.fingerprint,
            at=verdict.observed_at,
            alive_at=alive_at,
            owner=owner,
            contact=self.policy.contact_of(owner),
        )
        if why is None:
            return None
        decided = self.ruled.rulings[number].rule.name
        who = f"rule {demands.name!r}{'' if demands.name == decided else ', which may match it,'}"
        return KeptGroup(
            group_id=verdict.group_id,
            verdict=KeptName.NOTICE.value,
            reason=f"{why}; {who} demands it" if demands.notice_seconds else why,
            group_type=verdict.group_type,
            idle_since=alive_at,
            fingerprint=group.fingerprint,
        )
