"""The question about a plan in Markdown, and what people type into its form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from airflow_kafka_groups.judge.evidence import recorded_sentence
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.plan_rows import PlannedGroups
from airflow_kafka_groups.observe.snapshot.members import LastMembers
from airflow_kafka_groups.shown import MOST, NO_LINK, shortened, without_links

FIRST_GROUPS = 10
"""How many groups the question shows: the form is below them, and is not to be out of sight."""

_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_SENTENCE = 500
"""The most characters of what a judgement rests on: it ends with a remedy."""


def question(
    plan: DeletionPlan,
    report: str,
    why: str,
    report_url: str | None = None,
    last: Mapping[str, LastMembers] | None = None,
) -> str:
    """Write the question in Markdown. Names come from the cluster: nothing in them is taken for markup."""
    known = {} if last is None else {group_id: members.sentence() for group_id, members in last.items()}
    link = f"[Report with all groups]({report_url})" if report_url else "Report with all groups"
    counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in plan.counts.items() if count)
    about = (
        f"**{counted(len(plan.groups), 'group')}** of cluster **{plain(plan.cluster)}** "
        f"(Kafka id {plain(plan.kafka_cluster_id)}) will be deleted if you approve. Their offsets are backed up."
    )
    facts = [
        f"All groups: {plain(counts)}.",
        f"Judged by {plain(recorded_sentence(plan.evidence), _SENTENCE)}.",
        f"{link}: {_markup(report)}",
    ]
    rows = [(group.group_id, group.reason, known.get(group.group_id, "not known")) for group in _first(plan)]
    return _written(plan, about, why, facts, _families(plan), ("group", "why", "last members"), rows, "report")


def pruning_question(plan: DeletionPlan, why: str) -> str:
    """Write the question about a pruning in Markdown, as ``question`` does."""
    topics, partitions = counted(len(plan.groups), "topic"), counted(plan.planned.total("partitions"), "partition")
    about = (
        f"The committed offsets of **{topics}** ({partitions}) of {counted(plan.group_count, 'live group')} "
        f"of cluster **{plain(plan.cluster)}** (Kafka id {plain(plan.kafka_cluster_id)}) will be deleted if you "
        "approve. They are backed up first."
    )
    rows = [(item.name, item.reason, item.owner or "-") for item in _first(plan)]
    return _written(plan, about, why, [], [], ("group [topic]", "why", "owner"), rows, "plan")


def _first(plan: DeletionPlan) -> Any:
    return plan.groups[:FIRST_GROUPS]


def _written(
    plan: DeletionPlan,
    about: str,
    why: str,
    facts: Sequence[str],
    families: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    where: str,
) -> str:
    lines = [
        f"{about} You are asked because {plain(why)}.",
        *(line for fact in facts for line in ("", fact)),
        "",
        f"Plan {plan.plan_id}, digest {plan.digest}, valid until {plan.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC.",
        *[f"- Warning: {plain(warning)}" for warning in plan.warnings],
        *families,
        "",
        f"| {' | '.join(columns)} |",
        "|---|---|---|",
        *[f"| {' | '.join(map(plain, row))} |" for row in rows],
    ]
    if len(plan.groups) > FIRST_GROUPS:
        lines.append(f"| … and {len(plan.groups) - FIRST_GROUPS} more | see the {where} | |")
    return "\n".join(lines)


def _families(plan: DeletionPlan) -> list[str]:
    """Return the families with planned groups as a table: 208 groups become 8 lines."""
    planned = [family for family in plan.families if family["planned"]]
    if not planned:
        return []
    lines = ["", "| family | planned | of | new a day | owners |", "|---|---|---|---|---|"]
    for family in planned[:FIRST_GROUPS]:
        growth = "-" if family["growth_per_day"] is None else f"{family['growth_per_day']:g}"
        owners = ", ".join(family["owners"][:3]) or "-"
        numbers = f"{family['planned']:,} | {family['groups']:,} | {growth}"
        lines.append(f"| {plain(family['name'])} | {numbers} | {plain(owners)} |")
    every = sum(number > 0 for number in plan.planned_by_family.values())  # ``families`` has the first ones
    if (more := every - FIRST_GROUPS) > 0:
        lines.append(f"| … and {more:,} more | | | | see the report |")
    return lines


def kept_names(plan: DeletionPlan, names: Any) -> Any:
    """Return the planned groups, or topics, that are to be kept by what was typed; a family stands for its groups.

    The empty last line of the form is left out, and so is what ``plain`` puts into names.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return names
    known = {*plan.group_ids, *(() if plan.prunes else plan.planned.column("family"))}
    typed = [name if name in known else name.replace(NO_LINK, "") for name in names]
    typed = [name for name in typed if name or name in known]
    return typed if plan.prunes else with_families(plan.planned, typed)


def with_families(planned: PlannedGroups, names: Sequence[str]) -> list[str]:
    """Return names of groups, with the planned groups of a family in place of its name."""
    ids, families = planned.column("group_id"), planned.column("family")
    known, found, of_family = set(ids), list[str](), dict[str | None, list[str]]()
    for group_id, family in zip(ids, families, strict=True):
        of_family.setdefault(family, []).append(group_id)
    for name in names:
        members = of_family.get(name, [])
        # A group may be called like a family: then both are meant.
        found += [*([name] if name in known or not members else []), *members]
    return found


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def plain(value: str, most: int = MOST) -> str:
    """Return a string of the cluster, cut to a bearable length, of which nothing is markup and nothing a link.

    :param most: that length. Default 200.

    Links are made of plain text, also where it was written with character references: an invisible character in
    ``https://``, ``www.`` and before ``@`` prevents that. Characters that turn the text around them become numbers.
    """
    return _markup(without_links(_TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", shortened(value, most))))


def _markup(value: str) -> str:
    """Replace all that Markdown or HTML could understand by character references, on one line."""
    return re.sub(r"[^\w .,;:/()=+-]|_", lambda found: f"&#{ord(found[0])};", value)
