"""What the policy file says now of a plan that it made: what a newer version keeps is kept.

A plan may wait for its approval while owners answer by an edit of the policy, or of a file beside it. So the file is
read again before a deletion. An edit can only keep what is in the plan, and adds nothing. Where it cannot be read,
nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_kafka_groups.change.plan.abandoned_topics import why_not_ruled
from airflow_kafka_groups.change.plan.caps import Ranked, capped
from airflow_kafka_groups.durations import show_duration
from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
from airflow_kafka_groups.judge.policy.rules import Rule, RulesBefore
from airflow_kafka_groups.judge.verdict_names import KeptName
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan, least_idle_times
from airflow_kafka_groups.ledger.outcomes import GroupOutcome, Reason, kept
from airflow_kafka_groups.ledger.plan_rows import PlannedGroup
from airflow_kafka_groups.observe.patterns import GroupFilter


def kept_by_newer_policy(plan: DeletionPlan, now_file: PolicyFile | None, now: datetime) -> dict[str, GroupOutcome]:
    """Return what an edited policy file keeps of a plan by now, with the reason; nothing if it was not edited.

    :param now_file: the policy file as it is now; ``None`` if nobody read it.

    Raises ``PlanError`` where the plan was made by a file that was not read, or that demands more of a complete plan by
    now.
    """
    if plan.policy.file is not None and now_file is None:
        path = plan.policy.file.path
        raise PlanError(f"plan {plan.plan_id} was made by the policy {path}, which was not read again: read it")
    if now_file is None or not _is_edited(plan, now_file):
        return {}
    _require_limits(plan, now_file, now)
    edited = "the policy was edited after the plan was made"
    return {
        name: kept(name, Reason.POLICY, f"{edited}, and {why}: a new plan goes by it")
        for name, why in _kept(plan, now_file)
    }


def idle_times(plan: DeletionPlan, now_file: PolicyFile | None) -> dict[str, float]:
    """Return the idle time that each target of a plan has to have, in seconds, by name: by its rules, then and now.

    What an edited policy demands counts from what is on record, too, such as a restore: a verdict may know nothing of
    it. It has to have passed when the plan's snapshot was taken, as for a new plan: the time until the plan is added.

    :param now_file: the policy file as it is now; ``None`` if nobody read it.
    """
    targets = list(plan.targets())
    found = least_idle_times(plan)
    if now_file is None or not _is_edited(plan, now_file):
        return found
    since = max((plan.created_at - _taken_at(plan)).total_seconds(), 0.0)
    ruled = now_file.rule(tuple((target.group_id, target.group_type) for target in targets))
    for target, (_, ruling) in zip(targets, ruled, strict=True):
        found[target.name] = max(found[target.name], ruling.rule.min_idle_seconds + since)
    return found


def _is_edited(plan: DeletionPlan, file: PolicyFile) -> bool:
    return plan.policy.file is not None and plan.policy.file.sha256 != file.digest


def _require_limits(plan: DeletionPlan, file: PolicyFile, now: datetime) -> None:
    """Raise ``PlanError`` where the newer file demands more of a complete plan than the older one did."""
    old, new = plan.policy, plan.policy.by_file(file)
    for name in ("require_commit_log", "max_gap_seconds"):
        if getattr(new, name) != getattr(old, name):
            raise PlanError(
                f"plan {plan.plan_id}: the policy demands another {name} by now, {getattr(new, name)}: make a new plan"
            )
    if now >= _taken_at(plan) + timedelta(seconds=new.max_plan_age_seconds):
        raise PlanError(f"plan {plan.plan_id} is older than its policy allows by now: take a snapshot, make a new one")


def _taken_at(plan: DeletionPlan) -> datetime:
    """Return when the snapshot of a plan was begun."""
    return plan.expires_at - timedelta(seconds=plan.policy.max_plan_age_seconds)


_ANOTHER_OWNER = "it has another owner, who was not notified"
_UNKNOWN_OWNER = "the group's last client may own it, which is not known to a deletion"
"""Of a group that its last client owned, and of one that the edit took from another owner."""


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
    planned = list(plan.groups)
    left: dict[str, Ranked] = {}
    # The strictest demands hold. Of a topic, a rule that asks for topics or clients may match: then it is kept.
    ruled = file.rule(tuple((item.group_id, item.group_type) for item in planned))
    for item, (known, ruling) in zip(planned, ruled, strict=True):
        rule = ruling.rule
        owner = rule.owner or known.owner
        if protected.protects(item.group_id):
            why: str | None = "protects it"
        elif plan.prunes:
            why = why_not_ruled(ruling, item.group_id) or _stricter_of_topic(item, rule, rules.get(item.rule or ""))
        elif (stricter := _stricter(item, rule, _demands(item, rules, before))) is not None:
            why = f"rule {rule.name!r} {stricter}"
        elif rule.notice_seconds and owner != item.owner:
            why = _UNKNOWN_OWNER if owner is None and by_client else _ANOTHER_OWNER
        elif rule.notice_seconds and file.owners.contact_of(owner) != plan.policy.contact_of(owner):
            why = "its owner has another contact, which was not notified"
        else:
            why = None
        if why is not None:
            yield item.name, why
        else:
            left.setdefault(item.group_id, Ranked(item.group_id, item.idle_seconds, rule.name, ruling.undecided))
    # The caps of the file as it is now, by groups: those of the rule that decides by now, not of the plan's.
    others = zip(plan.all_kept.column("group_id"), plan.all_kept.column("verdict"), strict=True)
    more = len({group_id for group_id, verdict in others if verdict == KeptName.OVER_CAP})
    over = capped([*left.values()], plan.counts.get("found", 0), plan.policy.by_file(file), more=more)[1]
    beyond = {group.group_id for group in over}
    yield from ((each.name, "its caps leave it for a later plan") for each in plan.targets() if each.group_id in beyond)


def _stricter_of_topic(topic: PlannedGroup, rule: Rule, before: Rule | None) -> str | None:
    """Return what the newer rule demands of a topic that is not known to hold, ``None`` if nothing."""
    if (topic.idle_seconds or 0.0) < rule.min_idle_seconds or (topic.observations or 0) < rule.min_observations:
        idle = show_duration(rule.min_idle_seconds)
        return f"rule {rule.name!r} requires {idle} and {rule.min_observations} snapshots"
    if rule.notice_seconds:
        return f"rule {rule.name!r} demands a notice, and a pruning gives none"
    if rule.approval and not (before is not None and before.approval):
        return f"rule {rule.name!r} demands an approval"
    return None


def _stricter(group: PlannedGroup, rule: Rule, before: Rule | None) -> str | None:
    """Return what the newer rule demands that is not known to hold, ``None`` if nothing."""
    if (why := rule.why_kept(group.group_type)) is not None:
        return why
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
