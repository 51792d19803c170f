"""When a human has to approve a plan, and what an approval is. Pure; whatever is unclear is not approved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError

if TYPE_CHECKING:
    from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan

ALWAYS, ABOVE_CAP, NEVER = "always", "above_cap", "never"
RULES = (ALWAYS, ABOVE_CAP, NEVER)
APPROVE = "Approve"
CONFIRM, EXCLUDE = "confirm_groups", "exclude_groups"
"""The fields of the form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Be an approval that holds.

    :param approved_by: who, for the audit.
    :param excluded: groups of the plan that must be kept.
    """

    approved_by: str
    approved_at: str
    excluded: frozenset[str] = frozenset()


def why_approval(rule: Any, approve_above: Any, *, planned: int, dry_run: bool) -> str | None:
    """Say why somebody has to approve, ``None`` when nobody has to.

    :param rule: ``"always"``; ``"above_cap"``: when more than ``approve_above`` groups are planned; ``"never"``.
    """
    from airflow_kafka_groups.hooks.arguments import read_integer

    if rule not in RULES:
        raise ConfigurationError("approval_rule", rule, f"must be one of {', '.join(RULES)}")
    cap = read_integer("approve_above", approve_above)
    if dry_run or not planned or rule == NEVER:
        return None
    if rule == ALWAYS:
        return "every deletion has to be approved"
    return f"{planned} groups are planned, and more than {cap} have to be approved" if planned > cap else None


def check_approval(payload: Any, plan: DeletionPlan) -> Approval:
    """Read the answer of the approval task; raises ``PlanError`` unless it clearly approves this very plan."""
    if isinstance(payload, str):
        try:
            payload = json.loads(payload)
        except ValueError:
            payload = None
    if not isinstance(payload, Mapping) or "chosen_options" not in payload:
        raise _refused(plan, "there is no answer of a human; an approval task that is marked as success has none")
    if payload["chosen_options"] != [APPROVE]:
        raise _refused(plan, f"the answer was {payload['chosen_options']!r}")
    if (payload.get("plan_id"), payload.get("plan_digest")) != (plan.plan_id, plan.digest):
        raise _refused(plan, f"the approval is of plan {payload.get('plan_id')!r}, or of another version of this one")
    answers = payload.get("params_input")
    answers = answers if isinstance(answers, Mapping) else {}
    planned = len(plan.groups)
    if str(answers.get(CONFIRM, "")).strip() != str(planned):
        raise _refused(plan, f"{planned} groups are planned, and {answers.get(CONFIRM)!r} were confirmed")
    return Approval(
        approved_by=_name_of(payload.get("responded_by_user"), plan),
        approved_at=str(payload.get("responded_at")),
        excluded=_excluded(answers.get(EXCLUDE), plan),
    )


def _excluded(value: Any, plan: DeletionPlan) -> frozenset[str]:
    groups = [] if value is None else value
    if not isinstance(groups, list) or not all(isinstance(group_id, str) for group_id in groups):
        raise _refused(plan, f"the groups to keep cannot be read: {value!r}")
    if unknown := sorted(set(groups) - set(plan.group_ids)):
        raise _refused(plan, f"{unknown[0]!r} was to be kept and is not in the plan: is it misspelt?")
    return frozenset(groups)


def _name_of(user: Any, plan: DeletionPlan) -> str:
    if not isinstance(user, Mapping) or not (user.get("name") or user.get("id")):
        raise _refused(plan, "nobody is named as the one who approved it")
    name, user_id = user.get("name") or user.get("id"), user.get("id") or user.get("name")
    return str(name) if name == user_id else f"{name} ({user_id})"


def _refused(plan: DeletionPlan, why: str) -> PlanError:
    return PlanError(f"plan {plan.plan_id} is not approved, nothing was deleted: {why}")
