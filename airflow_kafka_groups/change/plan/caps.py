"""The caps of a plan and of its rules: the longest idle groups come first, the others wait for a later plan. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy, share_of
from airflow_kafka_groups.judge.verdict_names import KeptName
from airflow_kafka_groups.ledger.plan_rows import KeptGroup
from airflow_kafka_groups.shown import first_of


class Ranked(NamedTuple):
    """A group that may be planned.

    :param rule: the name of the rule that decides; ``None`` without a policy file.
    :param undecided: the names of rules that may match, too: their caps count for it as well.
    :param number: its place among the judged groups. Default: none.
    """

    group_id: str
    idle_seconds: float | None
    rule: str | None
    undecided: Sequence[str] = ()
    number: int = -1


_MAY = "may be deleted"


def capped(
    planned: Sequence[Ranked], found: int, policy: PlanPolicy, *, what: str = _MAY
) -> tuple[list[Ranked], list[KeptGroup], list[str]]:
    """Apply the caps, the longest idle first; return the planned groups, the others, and warnings.

    :param planned: the groups that nothing speaks against.
    :param what: what planned groups are, or have, for warnings. Default: they may be deleted; more are stale.

    Raises ``PlanError`` for more groups than the policy's ``refuse_share``.
    """
    refused, wanted = policy.refuse_share, len(planned)
    if refused is not None and wanted > share_of(found, refused):
        raise PlanError(
            f"{wanted} of {found} groups would be planned, more than the policy's limits.refuse_share of "
            f"{refused:.12g} allows: nothing is planned. Check that this cluster's consumers are not merely down, and "
            "the last edit of the policy; then narrow its rules, or raise refuse_share"
        )
    longest_first = sorted(planned, key=lambda group: (-(group.idle_seconds or 0.0), group.group_id))
    within, over, warnings = _capped_by_rule(longest_first, found, policy, what)
    by_share = share_of(found, policy.max_share)
    allowed = min(policy.max_groups, by_share)
    if len(planned) > by_share:  # whatever the caps of rules leave: it is a sign of consumers that are down
        down = ". Check that this cluster's consumers are not merely down" if what == _MAY else ""
        warnings.append(
            f"{len(planned)} of {found} groups {what}, more than max_share {policy.max_share:.12g} allows: "
            f"{len(within[:allowed])} are planned, the longest idle first{down}"
        )
    if len(planned) > policy.max_groups:
        warnings.append(f"{len(planned)} groups {what}; max_groups allows {policy.max_groups} per plan")
    reason = f"stale, but over the plan's cap of {allowed} group(s): left for a later plan"
    over += [_over(group.group_id, reason) for group in within[allowed:]]
    return within[:allowed], over, warnings


def _capped_by_rule(
    longest_first: Sequence[Ranked], found: int, policy: PlanPolicy, what: str
) -> tuple[list[Ranked], list[KeptGroup], list[str]]:
    caps = {
        rule.name: min(
            found if rule.max_groups is None else rule.max_groups,
            found if rule.max_share is None else share_of(found, rule.max_share),
        )
        for rule in policy.rules
        if rule.max_groups is not None or rule.max_share is not None
    }
    if not caps:
        return list(longest_first), [], []
    stale, taken = Counter[str](), Counter[str]()
    within, over = list[Ranked](), list[KeptGroup]()
    for group in longest_first:
        bound_by = [name for name in (group.rule or "", *group.undecided) if name in caps]
        stale.update(bound_by)
        full = next((name for name in bound_by if taken[name] >= caps[name]), None)
        if full is None:
            taken.update(bound_by)
            within.append(group)
        else:
            reason = f"stale, but over the cap of {caps[full]} group(s) of rule {full!r}: left for a later plan"
            over.append(_over(group.group_id, reason))
    warnings = [
        f"{stale[name]} groups {what} by rule {name!r}; its cap allows {cap} per plan"
        for name, cap in caps.items()
        if stale[name] > cap
    ]
    return within, over, first_of(warnings, f"rule(s) have caps below the groups that {what}")


def _over(group_id: str, reason: str) -> KeptGroup:
    return KeptGroup(group_id=group_id, verdict=KeptName.OVER_CAP.value, reason=reason)
