"""What an edit of a policy changes: the groups of a snapshot for which two policies say different things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.judge.policy.matching import RuleMatcher, facts_of
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.observe.patterns import ALWAYS_PROTECTED, GroupFilter

NO_POLICY = "keep (no policy)"


class ChangedGroup(NamedTuple):
    """A group of which two policies say different things, each with the rule that decides."""

    group_id: str
    before: str
    after: str


def compare_policies(
    before: PolicyFile | None,
    after: PolicyFile,
    groups: Iterable[tuple[str, str]],
    topics: Mapping[str, frozenset[str]] | None,
) -> list[ChangedGroup]:
    """Return the groups that an edit changes, in their order.

    A condition on a group's last client is undecided here, and the stricter rule then counts, as in a plan.

    :param before: the policy before the edit; ``None``: there was none, and every group was kept.
    :param groups: the id and the type of each group.
    :param topics: the topics with committed offsets of each group; ``None``: not known.
    """
    listed = list(groups)
    said = [_said(policy, listed, topics) for policy in (before, after)]
    rows = zip(listed, *said, strict=True)
    return [ChangedGroup(group_id, old, new) for (group_id, _), old, new in rows if old != new]


def _said(
    policy: PolicyFile | None, groups: list[tuple[str, str]], topics: Mapping[str, frozenset[str]] | None
) -> list[str]:
    if policy is None:
        return [NO_POLICY] * len(groups)
    matcher, safe = RuleMatcher(policy.rules), GroupFilter(protected=(*ALWAYS_PROTECTED, *policy.protected))
    found = list[str]()
    for group_id, group_type in groups:
        known = None if topics is None else topics.get(group_id, frozenset())
        facts = facts_of(group_id, policy.owners, group_type=group_type, topics=known)
        rule = matcher.rule_for(facts).rule
        found.append("keep (protected)" if rule.deletes and safe.protects(group_id) else _demand(rule))
    return found


def _demand(rule: Rule) -> str:
    if not rule.deletes:
        return f"{rule.action.value} (rule {rule.name!r})"
    parts = [f"delete after {show_duration(rule.min_idle_seconds)}, {rule.min_observations} snapshots"]
    parts += [f"notice {show_duration(rule.notice_seconds)}"] if rule.notice_seconds else []
    parts += ["approval"] if rule.approval else []
    return f"{', '.join(parts)} (rule {rule.name!r})"
