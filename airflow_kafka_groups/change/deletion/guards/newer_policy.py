"""What the policy file says now of the groups of a plan that it made: what a newer version keeps is kept.

A plan may wait for its approval while owners answer by an edit of the policy, or of a file beside it. So the file is
read again before a deletion. An edit can only keep groups of the plan, and never adds one. Where it cannot be read,
nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from airflow_kafka_groups.change.deletion.recheck import keep
from airflow_kafka_groups.change.plan.caps import capped
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.matching import RulesBefore
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule
from airflow_kafka_groups.judge.verdict_names import KeptName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.outcomes import Decision, Reason
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup
from airflow_kafka_groups.ledger.sealed_plan import SealedPlan
from airflow_kafka_groups.observe.patterns import GroupFilter


def kept_by_newer_policy(plan: DeletionPlan, now_file: PolicyFile | None, now: datetime) -> dict[str, Decision]:
    """Return the groups of a plan that its policy file keeps by now, with the reason.

    :param now_file: the policy file as it is now; ``None`` if nobody read it.

    Raises as ``kept_by_edit`` does.
    """
    return kept_by_edit(plan, now_file, now, partial(_kept, plan))


def kept_by_edit(
    plan: SealedPlan,
    now_file: PolicyFile | None,
    now: datetime,
    kept: Callable[[PolicyFile], Iterable[tuple[str, str]]],
) -> dict[str, Decision]:
    """Return what an edited policy file keeps of a plan, with the reason; nothing if it was not edited.

    :param now_file: the policy file as it is now; ``None`` if nobody read it.
    :param kept: returns what the edited file keeps, and why.

    Raises ``PlanError`` where the plan was made by a file that was not read, or that demands more of a complete plan by
    now.
    """
    source = plan.policy.file
    if source is None:
        return {}
    if now_file is None:
        raise PlanError(f"plan {plan.plan_id} was made by the policy {source.path}, which was not read again: read it")
    if now_file.digest == source.sha256:
        return {}
    require_limits(plan, now_file, now)
    return {
        name: keep(Reason.POLICY, f"the policy was edited after the plan was made, and {why}: a new plan goes by it")
        for name, why in kept(now_file)
    }


def idle_times_by_edit(plan: SealedPlan, now_file: PolicyFile | None, groups: Sequence[tuple[str, str]]) -> list[float]:
    """Return the idle time that an edited policy demands of each group until the plan, in seconds; 0 if not edited.

    It counts from what is on record, too, such as a restore: a verdict may know nothing of it. It has to have passed
    when the plan's snapshot was taken, as for a new plan, so the time between the two is added.

    :param now_file: the policy file as it is now; ``None`` if nobody read it.
    :param groups: the id and the type of each.
    """
    source = plan.policy.file
    if source is None or now_file is None or now_file.digest == source.sha256:
        return [0.0] * len(groups)
    since = seconds_to_plan(plan)
    return [ruling.rule.min_idle_seconds + since for _, ruling in now_file.rule(tuple(groups))]


def seconds_to_plan(plan: SealedPlan) -> float:
    """Return how long after its snapshot a plan was made: by so much, less had passed when somebody looked."""
    return max((plan.created_at - _taken_at(plan)).total_seconds(), 0.0)


def require_limits(plan: SealedPlan, file: PolicyFile, now: datetime) -> None:
    """Raise ``PlanError`` where the newer file demands more of a complete plan than the older one did."""
    old, new = plan.policy, plan.policy.by_file(file)
    for name in ("require_commit_log", "max_gap_seconds"):
        if getattr(new, name) != getattr(old, name):
            raise PlanError(
                f"plan {plan.plan_id}: the policy demands another {name} by now, {getattr(new, name)}: make a new plan"
            )
    if now >= _taken_at(plan) + timedelta(seconds=new.max_plan_age_seconds):
        raise PlanError(f"plan {plan.plan_id} is older than its policy allows by now: take a snapshot, make a new one")


def _taken_at(plan: SealedPlan) -> datetime:
    """Return when the snapshot of a plan was begun."""
    return plan.expires_at - timedelta(seconds=plan.policy.max_plan_age_seconds)


_ANOTHER_OWNER = "it has another owner, who was not notified"
_UNKNOWN_OWNER = "the group's last client may own it, which is not known to a deletion"
"""Of a group that its last client owned, and of one that the edit took from another owner."""


@dataclass(frozen=True, slots=True)
class _Ruled:
    """A planned group with the newer rule, and those that may match, too."""

    group_id: str
    idle_seconds: float | None
    rule: str
    undecided: tuple[str, ...]


def _demands(group: PlannedGroup, rules: Mapping[str, Rule], before: RulesBefore) -> Rule | None:
    """Return the rule that decided, with the longest notice and any approval; ``None`` if it is not known.

    :param rules: the older rules, by name.
    :param before: those that may match, too.
    """
    if (rule := rules.get(group.rule or "")) is None:
        return None
    every = before.of(group.decided)
    notice, approval = max(each.notice_seconds for each in every), any(each.approval for each in every)
    return replace(rule, notice_seconds=notice, approval=approval)


def _kept(plan: DeletionPlan, file: PolicyFile) -> Iterator[tuple[str, str]]:
    rules, before = {rule.name: rule for rule in plan.policy.rules}, plan.policy.rules_before()
    protected = GroupFilter(protected=file.protected)
    by_client = any(one.match.clients for one in file.rules)  # then owners are found by last client, too
    left, groups = [], list(plan.groups)
    ruled = file.rule(tuple((group.group_id, group.group_type) for group in groups))  # the strictest demands hold
    for group, (known, (rule, undecided)) in zip(groups, ruled, strict=True):
        owner = rule.owner or known.owner
        if protected.protects(group.group_id):
            yield group.group_id, "protects it"
        elif (why := _stricter(group, rule, _demands(group, rules, before))) is not None:
            yield group.group_id, f"rule {rule.name!r} {why}"
        elif rule.notice_seconds and owner != group.owner:
            why = _UNKNOWN_OWNER if owner is None and by_client else _ANOTHER_OWNER
            yield group.group_id, why
        elif rule.notice_seconds and file.owners.contact_of(owner) != plan.policy.contact_of(owner):
            yield group.group_id, "its owner has another contact, which was not notified"
        else:
            left.append(_Ruled(group.group_id, group.idle_seconds, rule.name, undecided))
    more = plan.counts.get(KeptName.OVER_CAP.value, 0)
    for over in capped(left, plan.counts.get("found", 0), plan.policy.by_file(file), more=more)[1]:
        yield over.group_id, "its caps leave it for a later plan"


def _stricter(group: PlannedGroup, rule: Rule, before: Rule | None) -> str | None:
    """Return what the newer rule demands that is not known to hold, ``None`` if nothing."""
    if not rule.deletes:
        return f"says {rule.action.value}"
    if group.idle_seconds is None or group.idle_seconds < rule.min_idle_seconds:
        return f"requires an idle time of {show_duration(rule.min_idle_seconds)}"
    if before is None:
        return "replaces one that is not known"
    if rule.min_observations > before.min_observations:
        return f"requires {rule.min_observations} snapshots"
    if rule.notice_seconds > before.notice_seconds:
        return f"demands a notice of {show_duration(rule.notice_seconds)}"
    if rule.approval and not before.approval:
        return "demands an approval"
    return None
