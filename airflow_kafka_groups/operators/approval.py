"""Ask a human before a plan is carried out, or topics of live groups are pruned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param
from airflow.sdk.definitions.param import ParamsDict

from airflow_kafka_groups.exceptions import ConfigurationError, PlanError, StorageError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import one_of, read_integer, read_text
from airflow_kafka_groups.hooks.links import CleanupReportLink, push_report_path, report_url_of
from airflow_kafka_groups.ledger.approval_rules import RULES, ApprovalTerms
from airflow_kafka_groups.operators.support.base import DryRunOperator, actor_of

if TYPE_CHECKING:
    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan
    from airflow_kafka_groups.storage.layout import Layout


APPROVE = "Approve"
CONFIRM, EXCLUDE, PLAN = "confirm_groups", "exclude_groups", "plan_digest"
"""The fields of the form. The last one is filled in: Airflow takes an answer for a task, whatever that has asked."""


class ApproveCleanupOperator(ApprovalOperator, DryRunOperator):
    """Ask a human to approve a plan, where that is needed; no answer in time means no.

    The question shows the totals, the first groups with reasons, and where the report is. Who approves types the number
    of planned groups, and may name groups to keep. A rejection skips the deletion. ``DeleteGroupsOperator`` checks the
    answer itself, so that marking this task as success deletes nothing. Takes ``response_timeout``, ``assigned_users``
    and ``notifiers`` of Airflow's ``ApprovalOperator`` too.

    :param plan_id: the plan.
    :param plan_digest: its digest as ``PlanCleanupOperator`` returned it.
    :param dry_run: a dry run needs no approval; default false.
    :param approval_rule: ask ``"always"`` (default), ``"never"``, or ``"above_cap"``, for more than ``approve_above``.
    :param approve_above: the most groups, or topics, that ``"above_cap"`` lets pass. Default 100.

    Returns ``{"required": false}``, or the answer: ``{"required", "plan_id", "plan_digest", "chosen_options",
    "params_input", "responded_at", "responded_by_user"}``.
    """

    _own_fields = ("plan_id", "plan_digest", "approval_rule", "approve_above")
    template_fields: Sequence[str] = (*DryRunOperator.template_fields, *_own_fields)
    operator_extra_links = (CleanupReportLink(),)
    mended_by_retry = (PlanError,)  # a wrong number: the next try asks again
    final_here = (StorageError,)  # an answer that could not be sealed: who gave it is not asked again by itself

    prunes: ClassVar[bool] = False
    counted: ClassVar[str] = "groups"
    """What a plan is about, in the form."""
    planned: ClassVar[str] = "groups are planned to be deleted"
    names: ClassVar[str] = "groups or families (report-<uuid>)"
    default_subject: ClassVar[str] = "Delete stale consumer groups?"

    plan_id = Argument(read_text)
    plan_digest = Argument(read_text)
    approval_rule = Argument(one_of(*RULES))
    approve_above = Argument(read_integer)

    def __init__(
        self,
        *,
        plan_id: str,
        plan_digest: str,
        approval_rule: str = "always",
        approve_above: int | str = 100,
        **kwargs: Any,
    ) -> None:
        kwargs.pop("params", None)  # those of the DAG, which Airflow puts there, and adds once more by itself
        super().__init__(subject=self.default_subject, defaults="Reject", params=self._form(), **kwargs)
        if self.assigned_users is not None and not self.assigned_users:  # Airflow would let everybody answer
            remedy = 'give people by their ids and names in Airflow, [{"id": "42", "name": "Ann"}], or leave it out'
            raise ConfigurationError("assigned_users", self.assigned_users, remedy)

    def _form(self) -> dict[str, Param]:
        number = f"Number of {self.counted}", f"To approve, type how many {self.planned}."
        keep = f"{self.counted.capitalize()} to keep", f"Planned {self.names} to keep: exact names, one per line."
        listed: Any = {"type": ["array", "null"], "items": {"type": "string"}}
        return {CONFIRM: _field("", *number, type="string"), EXCLUDE: _field([], *keep, **listed)}

    def execute(self, context: Context) -> Any:
        from airflow.sdk.execution_time.hitl import HITLUser

        from airflow_kafka_groups.ledger.approval import may_approve, seal_question
        from airflow_kafka_groups.storage.layout import utc_now

        layout, plan, terms = self._plan_to_approve()
        if (why := terms.why(len(plan.groups), plan.noun)) is None:
            self.log.info("No approval is needed")
            return {"required": False}
        self.log.info("Asking: %s", why)
        people: dict[str, Any] = {each["id"]: each for each in self.assigned_users or ()}
        approvers = may_approve(layout, plan, terms.approvers, people.keys() if people else None)
        if approvers is not None:
            self.assigned_users = [people.get(id_) or HITLUser(id=id_, name=id_) for id_ in sorted(approvers)]
        self.subject, self.body = self._question(context, layout, plan, why)
        fields = {name: self.params.get_param(name) for name in self.params}
        # Airflow has put there what the run's configuration has under these names: who triggers a run confirms none.
        # By its digest, an answer names the plan of its question: a page may be older than the task's try.
        digest = "Digest of the plan", "Leave it as it is: it says which question this answer is to."
        self.params = ParamsDict({**fields, **self._form(), PLAN: _field(plan.digest, *digest, type="string")})
        self._require_shown(context, plan)  # the first to ask is the one that Airflow shows
        seal_question(layout, plan, _asked_by(context), utc_now(), approvers)
        return super().execute(context)

    def _require_shown(self, context: Context, plan: DeletionPlan) -> None:
        """Raise ``PlanError`` where people would be shown a question about another plan.

        Airflow keeps a task's first question, with its form and ``assigned_users``, and tells what it keeps.
        """
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

        if (airflow := getattr(task_runner, "SUPERVISOR_COMMS", None)) is None:  # outside of Airflow
            return
        people: Any = self.assigned_users or []
        question: Any = {name: getattr(self, name) for name in ("options", "subject", "body", "defaults", "multiple")}
        asked = CreateHITLDetailPayload(
            ti_id=context["ti"].id, params=self.serialized_params, assigned_users=people, **question
        )
        shown = airflow.send(msg=asked)
        if plan.digest not in (getattr(shown, "body", None) or ""):
            why = "this task has asked about another plan, and Airflow still shows that question"
            remedy = "Start a new DAG run. Nothing was deleted"
            raise PlanError(f"plan {plan.plan_id} cannot be asked about here: {why}. {remedy}")
        if {str(one["id"]) for one in people} != {str(one.id) for one in getattr(shown, "assigned_users", None) or ()}:
            why = "other people may answer than assigned_users says: Airflow still shows the question of an earlier try"
            raise PlanError(f"{why}. Start a new DAG run. Nothing was deleted")

    def _question(self, context: Context, layout: Layout, plan: DeletionPlan, why: str) -> tuple[str, str]:
        from airflow_kafka_groups.change.plan.question import FIRST_GROUPS, counted, pruning_question, question
        from airflow_kafka_groups.observe.snapshot.members import last_members
        from airflow_kafka_groups.report.html import make_report

        if self.prunes:
            subject = f"Prune {counted(len(plan.groups), 'topic')} of live groups of {layout.cluster}?"
            return subject, pruning_question(plan, why)
        report, _ = make_report(layout, plan, actor_of(context).get("dag_id"))
        push_report_path(context, report)
        last = last_members(layout, plan.group_ids[:FIRST_GROUPS], plan.kafka_cluster_id)
        subject = f"Delete {counted(len(plan.groups), 'consumer group')} of {layout.cluster}?"
        return subject, question(plan, report, why, report_url_of(context), last)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Seal the answer with which Airflow resumes the task into the storage, and return its summary.

        Airflow's API server makes the event when a person answers this very question, with the name under which they
        are logged in; nothing that a user can write by the API becomes one. Later tasks get XComs only, which users can
        write: so the answer is sealed here. Raises ``PlanError`` for an approval that is not clear, such as a wrong
        number of groups: the next try asks again.
        """
        from airflow_kafka_groups.change.plan.question import kept_names
        from airflow_kafka_groups.ledger.approval import refused, seal_answer

        if "error" in event:  # no answer in time, and no default: raised by Airflow's own operator
            return super().execute_complete(context, event)
        layout, plan, terms = self._plan_to_approve()
        values, person = dict(event["params_input"] or {}), event["responded_by_user"]
        approved = list(event["chosen_options"]) == [APPROVE]
        form = dict(self.params)
        if values.pop(PLAN, plan.digest) != plan.digest and approved:
            raise refused(plan, "the answer is to a question about another plan: read the one that is asked now")
        if approved and (unknown := sorted(values.keys() - form.keys())):  # Airflow's API takes any
            raise refused(plan, f"{unknown[0]!r} is no field of the form: give {' and '.join(form)}")
        responded_by = None if person is None else dict(person)
        answer = {"responded_at": event["responded_at"].isoformat(), "responded_by_user": responded_by}
        seal_answer(
            layout,
            plan,
            asked_by=_asked_by(context),
            approved=approved,
            person=answer["responded_by_user"],
            responded_at=answer["responded_at"],
            confirmed=values.get(CONFIRM),
            excluded=kept_names(plan, values.get(EXCLUDE)),
            approvers=terms.approvers,
        )
        # Airflow's operator refuses an answer that leaves a field out, or has a number for a string: after it counts.
        given = {CONFIRM: str(values.get(CONFIRM)), EXCLUDE: values.get(EXCLUDE)} if approved else {}
        known = {**form, **given} if values else {}
        super().execute_complete(context, {**event, "params_input": known})
        return {"required": True, "approved": approved, "plan_id": plan.plan_id, "plan_digest": plan.digest, **answer}

    def _plan_to_approve(self) -> tuple[Layout, DeletionPlan, ApprovalTerms]:
        """Return the plan, and when and by whom it has to be approved."""
        from airflow_kafka_groups.checks import check_digest
        from airflow_kafka_groups.ledger.deletion_plan import load_plan

        digest = check_digest("plan_digest", self.plan_digest)
        terms = ApprovalTerms(rule=self.approval_rule, approve_above=self.approve_above)
        layout = self.layout()
        plan = load_plan(layout, self.plan_id, prunes=self.prunes)
        if self.dry_run or plan.digest != digest:  # a wrong digest is the deletion's to refuse
            return layout, plan, ApprovalTerms()
        return layout, plan, self.floors().approval(terms, plan)


def _field(default: Any, title: str, description: str, **schema: Any) -> Param:
    return Param(default, source="task", title=title, description=description, **schema)


def _asked_by(context: Context) -> dict[str, str]:
    """Return the asking task: another try, or the task cleared, is another one."""
    task = context["ti"]
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number", "id")
    return {name: str(getattr(task, name, None)) for name in names}


class ApprovePruningOperator(ApproveCleanupOperator):
    """Ask a human to approve a plan of ``PlanTopicPruningOperator``, where that is needed; no answer in time means no.

    Who approves types the number of planned topics, and may name some to keep, as ``group [topic]``.
    ``PruneTopicOffsetsOperator`` checks the answer itself. All else is as of ``ApproveCleanupOperator``.

    :param plan_digest: its digest as ``PlanTopicPruningOperator`` returned it.

    Returns ``{"required": false}``, or the answer, as ``ApproveCleanupOperator``.
    """

    prunes = True
    counted = "topics"
    planned = "topics are planned to have their offsets deleted"
    names = "topics, as group [topic],"
    default_subject = "Delete offsets of topics that live groups stopped reading?"
    operator_extra_links = ()  # type: ignore[assignment]  # there is no report of a pruning
