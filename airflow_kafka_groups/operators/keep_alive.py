"""The operator that keeps sleeping groups from being forgotten by the brokers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.exceptions import GroupsFailedError
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_duration,
    read_flag,
    read_integer,
    read_names,
    request_of,
)
from airflow_kafka_groups.operators.support.base import DryRunOperator, SelectingOperator, first_failures

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.change.keep_alive import KeepAliveReport


class KeepOffsetsAliveOperator(SelectingOperator, DryRunOperator):
    """Commit exactly the same offsets of sleeping groups again, before the brokers forget them.

    Run it on a schedule: a group is due when a third of ``offsets.retention.minutes`` is left, or when no earlier run
    is recorded. Groups that have members, moved, or are protected by the connection are left alone. Pass ``group_ids``
    or ``include``. What was committed is recorded in ``changes/`` before and afterwards.

    :param group_ids: the groups; duplicates are ignored. Default: those that ``include`` matches (templated).
    :param include: patterns of the groups. Default: none (templated).
    :param allow_membership: join and leave classic groups that had members: brokers count from when the last member
        left, and a commit does not change that. It adds to the group's generation. Default false (templated).
    :param assignors: the assignors that the brief member offers. Default: those of Kafka's own clients (templated).
    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``, where they do not report it. Default:
        what they report (templated).
    :param margin_seconds: the remaining time at which a group is due. Default: a third of the retention, and at least
        two intervals (templated).
    :param interval_seconds: the time between two runs of the schedule. Default: not known (templated).
    :param observe_seconds: the time between two readings of a group that must be equal. Default 10 (templated).

    Returns ``{"dry_run", "counts", "partitions", "retention_seconds", "margin_seconds", "next_due", "missing_brokers",
    "result_path", "left_alone", "not_kept"}``. Fails, after all other groups were kept alive, if a group failed, does
    not exist, or needs a membership that is not allowed, and if a broker did not list its groups.
    """

    ui_color = "#d4f0dc"

    allow_membership = Argument(read_flag)
    assignors = Argument(optional(read_names))
    offsets_retention_minutes = Argument(optional(partial(read_integer, minimum=1)))
    margin_seconds = Argument(optional(read_duration))
    interval_seconds = Argument(optional(read_duration))
    observe_seconds = Argument(read_duration)

    def __init__(
        self,
        *,
        include: Sequence[str] | str = (),
        allow_membership: bool | str = False,
        assignors: Sequence[str] | str | None = None,
        offsets_retention_minutes: int | str | None = None,
        margin_seconds: float | str | None = None,
        interval_seconds: float | str | None = None,
        observe_seconds: float | str = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(include=include, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.keep_alive import KeepAliveOutcome, KeepAliveRequest

        request = request_of(KeepAliveRequest, self)
        report: KeepAliveReport = self.carry_out(request)
        summary = report.summary()
        self.log.info("Keep-alive: %s; next due %s", summary["counts"], summary["next_due"])
        if not report.groups and not report.missing_brokers:
            self.log.warning("No group matches %s: nothing is kept alive. Check the patterns", request.include)
        left = {group.group_id: group.reason for group in report.groups if group.outcome is KeepAliveOutcome.LEFT_ALONE}
        problems = report.problems()
        self.warn_of("Not kept alive", left | problems)
        if problems and not self.dry_run:
            raise GroupsFailedError(problems, len(report.groups) + len(report.missing_brokers))
        return {
            "dry_run": self.dry_run,
            **summary,
            "left_alone": first_failures(left),
            "not_kept": first_failures(dict(problems)),
        }
