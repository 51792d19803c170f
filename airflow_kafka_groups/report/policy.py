"""The policy, the families and the owners of a plan, for the report."""

from __future__ import annotations

from collections import Counter
from typing import Any

from markupsafe import Markup

from airflow_kafka_groups.judge.evidence import recorded_sentence
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.report.page import SHOWN, duration, part
from airflow_kafka_groups.storage.formats import plain


def families_section(plan: DeletionPlan) -> Markup:
    """Return the families of groups in the order of the plan; nothing where there are none."""
    if not plan.families:
        return Markup()
    every = plan.planned_by_family  # the header has the first ones only
    note = f"{sum(every.values()):,} of {len(plan.groups):,} planned groups" if plan.groups else "No group is planned"
    return part("families", plan.families[:SHOWN], len(every), note)


def owners_section(plan: DeletionPlan) -> Markup:
    """Return how many groups each owner has in the plan; nothing where no owner is known."""
    planned, kept = Counter(plan.planned.column("owner")), Counter(plan.all_kept.column("owner"))
    owners = sorted({*planned, *kept} - {None}, key=lambda owner: (-planned[owner], owner))
    if not owners:
        return Markup()
    rows = [(owner, planned[owner], kept[owner], plan.policy.contact_of(owner)) for owner in owners[:SHOWN]]
    note = f"{planned[None]:,} planned groups have no known owner" if planned[None] else ""
    return part("owners", rows, len(owners), note)


def policy_section(plan: DeletionPlan) -> Markup:
    """Return the limits of the plan, and the rules of its policy file."""
    return part("policy", plan, _limits(plan), recorded_sentence(plan.evidence)) + _rules_section(plan)


def _limits(plan: DeletionPlan) -> dict[str, Any]:
    own = ("file", "rules", "contacts", "notify")  # shown elsewhere, or not at all
    limits = {name: value for name, value in plain(plan.policy).items() if name not in own}
    # One that demands nothing is 0 or null.
    return {name: value for name, value in limits.items() if name == "allow_hidden_topics" or value not in (None, 0)}


def _rules_section(plan: DeletionPlan) -> Markup:
    if not plan.policy.rules:
        return Markup()
    planned, kept = Counter(plan.planned.column("rule")), Counter(plan.all_kept.column("rule"))
    shown = plan.policy.rules[:SHOWN]
    rows = [(rule, _demands(rule), planned[rule.name], kept[rule.name]) for rule in shown]
    return part("rules", rows, len(plan.policy.rules))


def _demands(rule: Rule) -> str:
    growth = rule.max_growth_per_day
    told = [] if growth is None else [f"at most {growth:g} new groups a day in a family, or a warning"]
    if not rule.deletes:
        return ", ".join(told) or "-"
    parts = [f"idle for {duration(rule.min_idle_seconds)} in {rule.min_observations} snapshots", *told]
    parts += [f"notice of {duration(rule.notice_seconds)}"] if rule.notice_seconds else []
    parts += ["an approval"] if rule.approval else []
    parts += [f"at most {rule.max_groups:,} groups"] if rule.max_groups is not None else []
    parts += [f"at most {rule.max_share * 100:.10g}% of all groups"] if rule.max_share is not None else []
    return ", ".join(parts)
