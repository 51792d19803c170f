"""What the policy says of each judged group: the deciding rule, the owner and the family, as columns of the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from airflow_kafka_groups.judge.policy.families import GROWTH_SECONDS, FastFamily, Member, NewGroup, summarize, too_fast
from airflow_kafka_groups.judge.policy.owners import OwnerRules
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
from airflow_kafka_groups.judge.policy.rules import Rule, RuleMatcher, Ruling, facts_of_all
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.ledger.verdicts import Verdicts
from airflow_kafka_groups.observe.snapshot.members import QuietSince, last_client_ids
from airflow_kafka_groups.observe.snapshot.reader import SnapshotReader, seen_before
from airflow_kafka_groups.storage.schemas import utc_times


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
