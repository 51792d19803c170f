"""The approvals that are sealed into the log of the cluster.

Airflow resumes a task with the answer to its own question; anything a later task can read there (an XCom) may have been
written by somebody else. So the asking task seals question and answer in the log, where users of Airflow's UI and API
cannot write, and the deletion believes nothing else. A new question withdraws what was answered before. Whatever is
unclear is not approved, and nothing is where the log cannot be read, or does not know the plan.

Airflow binds ``assigned_users`` to one task. Whoever is left out there could carry the plan's id to another DAG and be
asked. So each question records who may answer it, and only who may answer all of them can approve the plan; and the
site's approvers count wherever the answer was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_groups.exceptions import PlanError
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
from airflow_kafka_groups.ledger.ledger import Ledger
from airflow_kafka_groups.observe.cluster_log import Entry, EntryKind
from airflow_kafka_groups.storage.layout import Layout

_ASKED = (EntryKind.QUESTION, EntryKind.ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A valid approval.

    :param approved_by: the person, as Airflow named them to the asking task.
    :param excluded: groups of the plan that are kept.
    :param path: the sealed answer.
    """

    approved_by: str
    approved_at: str
    path: str
    excluded: frozenset[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "excluded": sorted(self.excluded)}


def may_approve(layout: Layout, plan: DeletionPlan, *approvers: Set[str] | None) -> frozenset[str] | None:
    """Return the ids of the users who may approve the plan, ``None`` for everybody.

    :param approvers: those whom this question and the site allow; ``None`` for everybody.

    Raises ``PlanError`` if nobody may, by these and by whom the plan was asked before.
    """
    return _may_approve(_asked(Ledger(layout, plan.kafka_cluster_id), plan), plan, *approvers)


def seal_question(
    layout: Layout, plan: DeletionPlan, asked_by: Mapping[str, Any], at: datetime, approvers: Set[str] | None = None
) -> None:
    """Record a question, which withdraws all earlier answers.

    :param asked_by: the asking task: DAG, run, task, try, and the id of its task instance.
    :param approvers: the ids of the users who may approve the plan from now on. Default: everybody.

    Raises ``StorageError`` or ``JournalError``: then nobody may be asked.
    """
    ledger = Ledger(layout, plan.kafka_cluster_id)
    _asked(ledger, plan)
    question = {"kind": EntryKind.QUESTION, "at": at.isoformat(), "asked_by": dict(asked_by)}
    _append(ledger, plan, {**question, "approvers": None if approvers is None else sorted(approvers)})


def seal_answer(
    layout: Layout,
    plan: DeletionPlan,
    *,
    asked_by: Mapping[str, Any],
    approved: bool,
    person: Mapping[str, Any] | None,
    responded_at: str,
    confirmed: Any,
    excluded: Any,
    approvers: Set[str] | None = None,
) -> None:
    """Record the answer to the latest question, which has to be this task's own.

    :param person: who answered, as Airflow names them to the asking task; ``None`` when nobody did.
    :param confirmed: the number of groups or topics that the person typed.
    :param excluded: what the person keeps of the plan; ``None`` for nothing.
    :param approvers: the ids of the site's approvers. Default: everybody.

    Raises ``PlanError`` when the answer approves and is not clear (a wrong number, an unknown group, nobody's name) or
    not the person's to give, or its question was withdrawn or about another version of the plan; ``StorageError`` or
    ``JournalError`` when it cannot be sealed.
    """
    ledger = Ledger(layout, plan.kafka_cluster_id)
    asked = _asked(ledger, plan)
    question = asked[-1] if asked else None
    data = {} if question is None else question.data
    if question is None or data["kind"] != EntryKind.QUESTION or data.get("asked_by") != dict(asked_by):
        raise refused(plan, "the question was withdrawn by a later one: answer that one")
    if data.get("plan_digest") != plan.digest:
        raise refused(plan, "the question was about another version of this plan: ask again")
    answer = {
        "kind": EntryKind.ANSWER,
        "at": responded_at,
        "question": question.sha256,
        "approved": approved,
        "person": None if person is None else dict(person),
        "excluded": _excluded(excluded, plan) if approved else [],
    }
    if approved:
        _approver(person, plan, _may_approve(asked, plan, approvers))
        if str(confirmed if confirmed is not None else "").strip() != str(len(plan.groups)):
            planned = len(plan.groups)
            why = f"{planned} {plan.noun} are planned, and {confirmed!r} were confirmed"
            raise refused(plan, f"{why}: type {planned} to approve it")
    _append(ledger, plan, answer)


def require_approval(ledger: Ledger, plan: DeletionPlan, terms: ApprovalTerms) -> Approval | None:
    """Return the approval of a plan, ``None`` where none is needed and nobody was asked.

    Once somebody was asked, the answer counts whatever the terms are: another run may come with other terms. Raises
    ``PlanError`` unless the log knows the plan, and the latest entry about it is an answer to the latest question that
    approves this very plan; ``JournalError`` and ``StorageError``.
    """
    why = terms.why(len(plan.groups), plan.noun)
    asked = _asked(ledger, plan)
    if not asked:
        if why is None:
            return None
        raise refused(plan, f"nobody was asked ({why}); an approval task that was marked as success asks nobody")
    latest, questions = asked[-1], [entry.sha256 for entry in asked if entry.data["kind"] == EntryKind.QUESTION]
    data = latest.data
    if data["kind"] != EntryKind.ANSWER or data.get("question") not in questions[-1:]:
        raise refused(plan, "the latest question was not answered")
    if data.get("approved") is not True:
        raise refused(plan, "it was rejected")
    if data.get("plan_digest") != plan.digest:
        raise refused(plan, "the approval is of another version of this plan")
    if not isinstance(data.get("at"), str):
        raise refused(plan, f"the answer in {latest.path} is damaged: it has no time")
    return Approval(
        approved_by=_approver(data.get("person"), plan, _may_approve(asked, plan, terms.approvers)),
        approved_at=data["at"],
        path=str(latest.path),
        excluded=frozenset(_excluded(data.get("excluded"), plan)),
    )


def _asked(ledger: Ledger, plan: DeletionPlan) -> list[Entry]:
    """Return the questions about a plan and their answers, oldest first. Raises ``PlanError`` if it was not sealed."""
    entries = ledger.of_plan(plan.plan_id, {EntryKind.PLAN, *_ASKED})
    if not any((each.data["kind"], each.data.get("plan_digest")) == (EntryKind.PLAN, plan.digest) for each in entries):
        raise refused(plan, "the log of the cluster does not know it: make a new plan")
    return [each for each in entries if each.data["kind"] in _ASKED]


def _append(ledger: Ledger, plan: DeletionPlan, data: Mapping[str, Any]) -> None:
    about = {"folder": ledger.layout.cluster, "plan_id": plan.plan_id, "plan_digest": plan.digest}
    ledger.append({**about, **data}, lambda records: records.of_plan(ledger.layout.cluster, plan.plan_id, _ASKED))


def _excluded(value: Any, plan: DeletionPlan) -> list[str]:
    groups = [] if value is None else value
    if not isinstance(groups, list) or not all(isinstance(group_id, str) for group_id in groups):
        raise refused(plan, f"the {plan.noun} to keep cannot be read: {value!r}")
    if unknown := sorted(set(groups) - set(plan.group_ids)):
        raise refused(plan, f"{unknown[0]!r} was to be kept and is not in the plan: is it misspelt?")
    return sorted(set(groups))


def _may_approve(entries: Iterable[Entry], plan: DeletionPlan, *approvers: Set[str] | None) -> frozenset[str] | None:
    rules = list(approvers)
    for entry in entries:
        asked = entry.data.get("approvers")
        if entry.data.get("kind") == "question" and asked is not None:
            if not isinstance(asked, list):
                raise refused(plan, f"the question in {entry.path} is damaged: who may answer it cannot be read")
            rules.append(frozenset(map(str, asked)))
    narrow = [frozenset(rule) for rule in rules if rule is not None]
    if not narrow:
        return None
    if not (allowed := frozenset.intersection(*narrow)):
        raise refused(plan, "nobody may: its questions, and the site, name different users: make a new plan")
    return allowed


def _approver(person: Any, plan: DeletionPlan, allowed: Set[str] | None) -> str:
    """Return the approver's name for records. Raises ``PlanError`` if it is missing, or not one of those who may."""
    if not isinstance(person, Mapping) or not (person.get("name") or person.get("id")):
        raise refused(plan, "nobody is named as the one who approved it")
    name, user_id = person.get("name") or person.get("id"), person.get("id") or person.get("name")
    shown = str(name) if name == user_id else f"{name} ({user_id})"
    if allowed is not None and person.get("id") not in allowed:
        raise refused(plan, f"{shown} may not approve it, only the users with the ids {', '.join(sorted(allowed))}")
    return shown


def refused(plan: DeletionPlan, why: str) -> PlanError:
    """Return the error of a plan that is not approved."""
    return PlanError(f"plan {plan.plan_id} is not approved, nothing was deleted: {why}")
