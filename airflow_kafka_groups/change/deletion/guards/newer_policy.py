"""What the policy file says now of a plan that it made: an edit, such as an owner's late answer, can only keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_kafka_groups.change.plan.abandoned_topics import why_not_ruled
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.observe.patterns import GroupFilter


def kept_by_newer_policy(plan: DeletionPlan, now_file: PolicyFile | None) -> dict[str, GroupOutcome]:
    """Return what an edited policy file keeps of a plan by now, with the reason; nothing if it was not edited.

    :param now_file: the policy file as it is now; ``None`` if nobody read it.

    Raises ``PlanError`` where the plan was made by a file that was not read, or that has other limits by now.
    """
    if plan.policy.file is None:
        return {}
    path = plan.policy.file.path
    if now_file is None:
        raise PlanError(f"plan {plan.plan_id} was made by the policy {path}, which was not read again: read it")
    if plan.policy.file.sha256 == now_file.digest:
        return {}
    old, new = plan.policy, plan.policy.by_file(now_file)
    if replace(new, **{name: getattr(old, name) for name in _OF_GROUPS}) != old:
        raise PlanError(
            f"plan {plan.plan_id}: a limit of the policy {path} was edited after the plan was made: make a new plan"
        )
    edited = "the policy was edited after the plan was made"
    return {
        name: kept(name, Reason.POLICY, f"{edited}, and {why}: a new plan goes by it")
        for name, why in _kept(plan, now_file)
    }


_OF_GROUPS = ("file", "rules", "min_idle_seconds", "min_observations", "protected", "contacts", "notify")
"""What of a policy is no limit of a complete plan."""


def _kept(plan: DeletionPlan, file: PolicyFile) -> Iterator[tuple[str, str]]:
    protected, planned = GroupFilter(protected=file.protected), list(plan.groups)
    before = {rule.name: rule for rule in plan.policy.rules}
    same = {rule.name for rule in file.rules if _is_as_before(rule, before.get(rule.name))}
    # Neither topics nor last clients are known here: a rule that asks for them may match, and keeps then.
    ruled = file.rule([(item.group_id, item.group_type) for item in planned])
    for item, (known, ruling) in zip(planned, ruled, strict=True):
        rule, owner = ruling.rule, ruling.rule.owner or known.owner
        names = {rule.name, *ruling.undecided}
        contacts = file.owners.contact_of(owner), plan.policy.contact_of(item.owner)
        if protected.protects(item.group_id):
            yield item.name, "protects it"
        elif plan.prunes and (why := why_not_ruled(ruling, item.group_id)) is not None:
            yield item.name, why
        elif not plan.prunes and (why := rule.why_kept(item.group_type)) is not None:
            yield item.name, f"rule {rule.name!r} {why}"
        elif item.rule not in names or not names <= same:
            yield item.name, f"rule {rule.name!r} is another one than the one that decided, or demands something else"
        elif owner != item.owner or (rule.notice_seconds and contacts[0] != contacts[1]):
            yield item.name, "its owner, or their contact, is not the one that the plan knows"


def _is_as_before(rule: Rule, before: Rule | None) -> bool:
    """Return whether a rule demands what the plan's did, whose idle time the site's floor may have lengthened."""
    if before is None:
        return False
    longer = max(rule.min_idle_seconds, before.min_idle_seconds)
    return replace(rule, match=before.match, min_idle_seconds=longer) == before
