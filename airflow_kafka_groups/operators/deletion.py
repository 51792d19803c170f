"""Delete groups: those of a plan, or those that are named. Every doubt keeps a group, every run leaves a record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_duration,
    read_flag,
    read_group_ids_once,
    read_number,
    read_switch,
    read_text,
    read_type_names,
)
from airflow_kafka_groups.hooks.links import CleanupReportLink
from airflow_kafka_groups.ledger.approval_rules import ApprovalTerms
from airflow_kafka_groups.operators.support.deleting import DeletingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.change.deletion.request import DeletionLimits, DeletionRequest
    from airflow_kafka_groups.operators.support.deleting import Deletion
    from airflow_kafka_groups.storage.layout import Layout


class DeleteGroupsOperator(DeletingOperator):
    """Delete the groups of a plan, or named groups, if they are empty and have not moved.

    Each group is read again a moment before it is deleted: one that has members, is not empty, moved since the plan (or
    while it was watched), was deleted or found in use before, is not backed up, or cannot be read is kept. By plan, the
    backup must have been made (``BackupGroupOffsetsOperator``); named groups are watched for a while and backed up
    here. The journal has the intent to delete before a request leaves, and the outcome after it, so a task that is
    killed and cleared deletes no group twice. What was deleted is looked for once more.

    :param plan_id: the plan to apply; or ``group_ids`` (templated).
    :param plan_digest: with ``plan_id``: its digest as ``PlanCleanupOperator`` returned it (templated).
    :param group_ids: the groups to delete by name; or ``plan_id``. A duplicate is an error (templated).
    :param ignore_missing: with ``group_ids``: groups that do not exist are fine. Default false: it fails before
        anything is deleted, unless earlier tries of it deleted them, or found them gone.
    :param observe_seconds: with ``group_ids``: how long they are watched, such as ``"5min"``, or seconds. Default 60
        (templated).
    :param types: with ``group_ids``: ``share`` or ``streams``, whose groups are kept otherwise; a policy names them in
        its rules. Default: none (templated).
    :param ignore_signs_of_life: with ``group_ids``: delete also groups that somebody saw alive within the site's least
        idle time, or a day where it has none. Default false (templated).
    :param allow_hidden_topics: with ``group_ids``: delete also where the connection's user may not describe all topics,
        so that groups may have offsets that it does not see. A plan has its own. Default false (templated).
    :param dry_run: make the checks of each group and delete nothing. Default false (templated).
    :param groups_per_second: the most groups deleted a second, on average, to spare busy brokers; 0 for no limit.
        Default 0 (templated).
    :param bytes_per_second: the most bytes a second that brokers write for it, before replication and estimated from
        the number of offsets; 0 for no limit. Default 0 (templated).
    :param fail_if_kept: fail the task when a group was kept. Default: true for ``group_ids``, false for a plan.

    Returns ``{"audit_path", "dry_run", "counts", "kept_reasons", "kept": {group: reason}, "verification", …}`` with the
    first 20 kept groups. Fails before anything is deleted when the connection is read-only, the plan is of another
    cluster, was changed, is not approved, has expired or names a protected group, or a broker did not answer the
    listing. Fails after writing the record when a group could not be deleted, nobody knows whether it was, the lease
    was lost on the way, or the task was killed: the groups that were left are kept.
    """

    operator_extra_links = (CleanupReportLink(),)
    plan_id = Argument(optional(read_text))
    plan_digest = Argument(optional(read_text))
    group_ids = Argument(optional(read_group_ids_once))
    ignore_missing = Argument(read_switch, templated=False)
    observe_seconds = Argument(partial(read_duration, maximum=86_400))
    types = Argument(read_type_names)
    ignore_signs_of_life = Argument(read_flag)
    allow_hidden_topics = Argument(read_flag)
    groups_per_second = Argument(read_number)
    bytes_per_second = Argument(read_number)
    fail_if_kept = Argument(optional(read_switch), templated=False)

    def __init__(
        self,
        *,
        plan_id: str | None = None,
        plan_digest: str | None = None,
        group_ids: Sequence[str] | str | None = None,
        ignore_missing: bool = False,
        observe_seconds: float | str = 60,
        types: Sequence[str] | str = (),
        ignore_signs_of_life: bool | str = False,
        allow_hidden_topics: bool | str = False,
        groups_per_second: float | str = 0,
        bytes_per_second: float | str = 0,
        fail_if_kept: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (plan_id is None) == (group_ids is None):
            raise ConfigurationError("plan_id, group_ids", None, "give exactly one of them")
        if (plan_id is None) != (plan_digest is None):
            raise ConfigurationError("plan_digest", plan_digest, "belongs to plan_id: give both or none")

    def delete(self, context: Context) -> dict[str, Any]:
        result = self.delete_with(context, partial(self._deletion, self.layout()))
        fail_if_kept = self.group_ids is not None if self.fail_if_kept is None else self.fail_if_kept
        return self.conclude(context, result, "Deletion", fail_if_kept=fail_if_kept)

    def limits(self) -> DeletionLimits:
        from airflow_kafka_groups.change.deletion.request import DeletionLimits

        return DeletionLimits(
            groups_per_second=self.groups_per_second or None, bytes_per_second=self.bytes_per_second or None
        )

    def _deletion(self, layout: Layout, request: DeletionRequest) -> Deletion:
        from airflow_kafka_groups.change.deletion.ad_hoc import delete_by_name
        from airflow_kafka_groups.change.deletion.delete_by_plan import delete_by_plan
        from airflow_kafka_groups.checks import check_digest
        from airflow_kafka_groups.hooks.storage import policy_reader
        from airflow_kafka_groups.ledger.deletion_plan import policy_of_plan

        floors = self.floors()
        plan_id, group_ids = self.plan_id, self.group_ids
        if plan_id is not None:
            digest = check_digest("plan_digest", self.plan_digest)
            terms = ApprovalTerms(rule=self.approval_rule, approve_above=self.approve_above)
            policy = policy_reader(policy_of_plan(layout, plan_id))
            return lambda admin: delete_by_plan(
                admin, layout, plan_id, digest, request, approval=terms, floors=floors, policy=policy
            )
        return lambda admin: delete_by_name(
            admin,
            layout,
            group_ids or (),
            request,
            observe_seconds=self.observe_seconds,
            protected=self.hook.settings.kept_patterns,
            types=self.types,
            allow_hidden_topics=self.allow_hidden_topics,
            ignore_missing=self.ignore_missing,
            ignore_signs_of_life=self.ignore_signs_of_life,
            floors=floors,
        )
