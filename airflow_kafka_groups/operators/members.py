"""The operator that removes members from a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import ConfigurationError, GroupsFailedError
from airflow_kafka_groups.hooks.argument_validation import Argument, sets_arguments
from airflow_kafka_groups.hooks.arguments import optional, read_distinct_names, read_flag, read_text
from airflow_kafka_groups.operators.support.base import DryRunOperator, first_failures
from airflow_kafka_groups.operators.support.tries import tries_of
from airflow_kafka_groups.shown import one_line, storable

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.change.remove_members import RemovedMembers


class RemoveMembersOperator(DryRunOperator):
    """Remove members from a consumer group: static members that do not come back, and zombies (LeaveGroup, KIP-345).

    Pass ``member_ids`` or ``instance_ids``, or both, or ``all_members``. A member that is alive joins again at once,
    and its group rebalances. Who is meant is written to ``changes/`` before. A retry, or the task cleared, removes
    nobody who has joined since the first try.

    :param group_id: the group (templated).
    :param member_ids: members by their ids; duplicates are ignored. Default: none (templated).
    :param instance_ids: static members by their ``group.instance.id``; duplicates are ignored. Default: none
        (templated).
    :param all_members: remove all members. Default false (templated).
    :param reason: what brokers log (KIP-800). Default ``"removed by airflow-kafka-groups"`` (templated).

    Returns ``{"dry_run", "counts", "members": [{"member_id", "group_instance_id", "client_id", "host", "outcome",
    "reason"}], "kept", "result_path"}``, with the first 20 members. Members that use the protocol of KIP-848 are kept:
    brokers let nobody else remove them. Fails before anybody is removed for a protected group and for one that is no
    consumer group, and afterwards if a member was not removed, or that is not known.
    """

    ui_color = "#f0e4d4"

    group_id = Argument(read_text)
    member_ids = Argument(optional(read_distinct_names))
    instance_ids = Argument(optional(read_distinct_names))
    all_members = Argument(read_flag)
    reason = Argument(read_text)

    @sets_arguments
    def __init__(
        self,
        *,
        group_id: str,
        member_ids: Sequence[str] | str | None = None,
        instance_ids: Sequence[str] | str | None = None,
        all_members: bool | str = False,
        reason: str = "removed by airflow-kafka-groups",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if member_ids is None and instance_ids is None and all_members in (False, "false", "False"):
            names = "member_ids, instance_ids, all_members"
            raise ConfigurationError(names, None, "name members, or ask for all of them: one of the two")

    def execute(self, context: Context) -> dict[str, Any]:
        """Remove the members with one client, and read the group back."""
        from dataclasses import asdict

        from airflow_kafka_groups.change.remove_members import RemoveMembersRequest, remove_members
        from airflow_kafka_groups.change.restore.offset_requests import ChangeTerms
        from airflow_kafka_groups.operators.support.base import FIRST_FAILURES

        self.require_read()
        request = RemoveMembersRequest(
            group_id=self.group_id,
            member_ids=self.member_ids or (),
            instance_ids=self.instance_ids or (),
            all_members=self.all_members,
            reason=self.reason,
        )
        layout, settings = self.site_layout(), self.hook.settings
        self.require_writable()
        terms = ChangeTerms(dry_run=self.dry_run, protects=settings.protects, tries=tries_of(context))
        done: RemovedMembers = self.hook.run(lambda admin: remove_members(admin, layout, request, terms))
        for each in done.results:
            self.log.info(
                "%s: %s (%s)", each.outcome.value, one_line(each.group_instance_id or each.member_id), each.reason
            )
        if failures := done.failures():
            raise GroupsFailedError(failures, len(done.results))
        members = [{**asdict(each), "outcome": each.outcome.value} for each in done.results[:FIRST_FAILURES]]
        kept = first_failures(done.kept())
        return {"dry_run": self.dry_run, **done.summary(), "members": [*map(storable, members)], "kept": kept}
