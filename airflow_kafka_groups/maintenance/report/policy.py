"""The policy, the families and the owners of a plan, for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from airflow_kafka_groups.contracts.evidence import recorded_sentence
from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
from airflow_kafka_groups.maintenance.policy.rules import Rule
from airflow_kafka_groups.maintenance.report.parts import (
    SHOWN,
    duration,
    group_name,
    pill,
    section,
    shown_time,
    table,
    text,
)

_OWNERS_SHOWN = 5


def families_section(plan: DeletionPlan) -> str:
    """Return the families of groups in the order of the plan; nothing where there are none."""
    if not plan.families:
        return ""
    rows = [
        [
            group_name(family["name"]),
            f"{family['groups']:,}",
            f"{family['planned']:,}",
            ("-" if family["growth_per_day"] is None else f"{family['growth_per_day']:g}") + _too_fast(family),
            "-" if family["newest"] is None else group_name(family["newest"]),
            _names(family["owners"], _OWNERS_SHOWN) or "-",
        ]
        for family in plan.families[:SHOWN]
    ]
    heads = ["Family", "Groups", "Planned", "New a day", "Newest", "Owners"]
    every = plan.planned_by_family  # the header has the first ones only
    note = f"{sum(every.values()):,} of {len(plan.groups):,} planned groups" if plan.groups else "No group is planned"
    shown = table(heads, rows, numeric=range(1, 4))
    return section("Families", len(every), shown, note, "No family.", anchor="families")


def _too_fast(family: Mapping[str, Any]) -> str:
    return "".join(
        f"<br>{pill('too fast', 'over_cap')} <small>{fast['per_day']:g}, allowed {fast['allowed_per_day']:g}</small>"
        for fast in family.get("too_fast", ())
    )


def owners_section(plan: DeletionPlan) -> str:
    """Return how many groups each owner has in the plan; nothing where no owner is known."""
    planned, kept = Counter(plan.planned.column("owner")), Counter(plan.all_kept.column("owner"))
    owners = sorted({*planned, *kept} - {None}, key=lambda owner: (-planned[owner], owner))
    if not owners:
        return ""
    rows = [
        [group_name(owner), f"{planned[owner]:,}", f"{kept[owner]:,}", text(plan.policy.contact_of(owner) or "-")]
        for owner in owners[:SHOWN]
    ]
    note = f"{planned[None]:,} planned groups have no known owner" if planned[None] else ""
    shown = table(["Owner", "Planned", "Kept", "Contact"], rows, numeric=(1, 2))
    return section("Owners", len(owners), shown, note, "No owner.", anchor="owners")


def policy_section(plan: DeletionPlan) -> str:
    """Return the limits of the plan, and the rules of its policy file."""
    rows = [[f"<code>{escape(name)}</code>", _setting(name, value)] for name, value in _limits(plan).items()]
    rows.append(["evidence", text(recorded_sentence(plan.evidence))])
    rows.append(["snapshot", f"<code>{escape(plan.snapshot_id)}</code>"])
    rows.append(["bound to", text(plan.view or "the cluster's id alone")])
    rows.append(["usable until", shown_time(plan.expires_at)])
    rows.append(["digest", f"<code>{plan.digest}</code>"])
    if (file := plan.policy.file) is not None:
        rows.append(["policy file", f"{text(file.path)} <code>{file.sha256}</code>"])
    return section("Policy", None, table(["Setting", "Value"], rows), "", "") + _rules_section(plan)


def _limits(plan: DeletionPlan) -> dict[str, Any]:
    own = ("file", "rules", "contacts", "notify")  # shown elsewhere, or not at all
    limits = {name: value for name, value in plan.policy.to_json().items() if name not in own}
    # One that demands nothing is 0 or null.
    return {name: value for name, value in limits.items() if name == "allow_hidden_topics" or value not in (None, 0)}


def _setting(name: str, value: Any) -> str:
    if isinstance(value, dict):  # the notifier, with its connection
        value = [f"{kind}: {conn_id}" for kind, conn_id in value.items()]
    shown = _names(value, SHOWN) or "none" if isinstance(value, list) else f"{value:,.10g}"
    return f"{shown} ({duration(value)})" if name.endswith("_seconds") else shown


def _names(names: Sequence[str], most: int) -> str:
    """Return names: the page is mailed, and each group of a family may have another owner, by its last client."""
    more = len(names) - most
    return " ".join([*map(group_name, names[:most]), *([f"and {more:,} more"] if more > 0 else [])])


def _rules_section(plan: DeletionPlan) -> str:
    if not plan.policy.rules:
        return ""
    planned, kept = Counter(plan.planned.column("rule")), Counter(plan.all_kept.column("rule"))
    rows = [
        [
            group_name(rule.name),
            text(rule.action.value),
            text(_demands(rule)),
            f"{planned[rule.name]:,}",
            f"{kept[rule.name]:,}",
        ]
        for rule in plan.policy.rules[:SHOWN]
    ]
    heads = ["Rule", "Action", "Demands", "Planned", "Kept"]
    return section("Rules", len(plan.policy.rules), table(heads, rows, numeric=(3, 4)), "", "No rule.")


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
