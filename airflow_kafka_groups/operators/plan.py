"""The operator that plans a deletion from the verdicts of the Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.contracts.evidence import recorded_sentence
from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_duration,
    read_flag,
    read_integer,
    read_number,
    read_patterns,
    read_text,
    read_text_or_nothing,
)
from airflow_kafka_groups.links import CleanupReportLink, push_report_path
from airflow_kafka_groups.operators.support.base import StoredOperator

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_kafka_groups.maintenance.plan.deletion_plan import DeletionPlan
    from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy

FIRST_GROUPS = 20
"""The number of planned groups in the XCom and in the log."""


class PlanCleanupOperator(StoredOperator):
    """Check the Spark job's verdicts and write the plan: the groups to delete, fixed by a digest.

    Nothing is deleted. A plan may be empty. Groups protected by the connection are kept, as are platform groups
    (``connect-*``, ``__*`` and others) and those that ``exclude`` matches. Also writes the report, which later tasks of
    the run update.

    :param storage_path: folder above all clusters: an absolute path or a URL (templated).
    :param cluster: name of the cluster's folder. Default: the connection's id (templated).
    :param snapshot_id: the judged snapshot. Default: the newest complete one (templated).
    :param include: patterns of the groups to consider. Default: all (templated).
    :param exclude: patterns of the groups to keep. Default: none (templated).
    :param protected: patterns of platform groups to keep. Default: the package's list (templated).
    :param min_idle_seconds: how long a group must have been empty and unmoved: ``"7d"``, a ``timedelta`` or a number of
        seconds. Default: a week (templated).
    :param min_observations: number of complete snapshots that show it so. Default and minimum 2 (templated).
    :param max_groups: maximum number of groups in a plan. Default 500 (templated).
    :param max_share: maximum share of all groups in a plan, above 0 and at most 1. Default 0.5 (templated).
    :param max_plan_age_seconds: maximum age of the snapshot when the plan is applied, such as ``"12h"``, or seconds.
        Default: a day (templated).
    :param allow_hidden_topics: plan even if the connection's user may not describe all topics, so that groups may have
        offsets that are not visible. Default false (templated).
    :param max_gap_seconds: the longest time between two snapshots that the job may have bridged, such as ``"2d"``, or
        seconds; 0 for no limit. Pass the job's ``--max-gap-seconds``. Default 0 (templated).
    :param policy_file: a policy file: an absolute path or a URL. Its rules decide about idle time and number of
        snapshots instead of ``min_idle_seconds`` and ``min_observations``; patterns and limits here narrow it further.
        Default: none (templated).
    :param require_commit_log: plan only if the job read the log of commits until after the snapshot. Default false
        (templated).
    :param kafka_groups_conn_id: the connection. Default ``kafka_groups_default`` (templated).

    Returns ``{"plan_id", "plan_path", "digest", "snapshot_id", "expires_at", "counts", "evidence", "warnings",
    "first_groups"}``. Fails if the snapshot is incomplete, too old, not judged, or judged by less than asked for.
    """

    template_fields: Sequence[str] = (
        *StoredOperator.template_fields,
        "snapshot_id",
        "include",
        "exclude",
        "protected",
        "min_idle_seconds",
        "min_observations",
        "max_groups",
        "max_share",
        "max_plan_age_seconds",
        "allow_hidden_topics",
        "max_gap_seconds",
        "require_commit_log",
        "policy_file",
    )
    operator_extra_links = (CleanupReportLink(),)

    snapshot_id = Argument(optional(read_text))
    include = Argument(read_patterns)
    exclude = Argument(read_patterns)
    protected = Argument(optional(read_patterns))
    min_idle_seconds = Argument(read_duration)
    min_observations = Argument(partial(read_integer, minimum=2))
    max_groups = Argument(partial(read_integer, minimum=1))
    max_share = Argument(partial(read_number, maximum=1))
    max_plan_age_seconds = Argument(read_duration)
    allow_hidden_topics = Argument(read_flag)
    max_gap_seconds = Argument(read_duration)
    require_commit_log = Argument(read_flag)
    policy_file = Argument(optional(read_text_or_nothing))

    def __init__(
        self,
        *,
        snapshot_id: str | None = None,
        include: Sequence[str] | str = ("*",),
        exclude: Sequence[str] | str = (),
        protected: Sequence[str] | str | None = None,
        min_idle_seconds: float | str | timedelta = 7 * 86_400,
        min_observations: int | str = 2,
        max_groups: int | str = 500,
        max_share: float | str = 0.5,
        max_plan_age_seconds: float | str | timedelta = 86_400,
        allow_hidden_topics: bool | str = False,
        max_gap_seconds: float | str | timedelta = 0,
        require_commit_log: bool | str = False,
        policy_file: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.snapshot_id = snapshot_id
        self.include = include
        self.exclude = exclude
        self.protected = protected
        self.min_idle_seconds = min_idle_seconds
        self.min_observations = min_observations
        self.max_groups = max_groups
        self.max_share = max_share
        self.max_plan_age_seconds = max_plan_age_seconds
        self.allow_hidden_topics = allow_hidden_topics
        self.max_gap_seconds = max_gap_seconds
        self.require_commit_log = require_commit_log
        self.policy_file = policy_file

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the verdicts and the snapshot, write the plan."""
        from airflow_kafka_groups.hooks.floors import site_floors
        from airflow_kafka_groups.hooks.storage import open_policy
        from airflow_kafka_groups.maintenance.plan.plan_snapshot import plan_snapshot
        from airflow_kafka_groups.maintenance.report.write import make_report
        from airflow_kafka_groups.operators.support.telemetry import gauges, update_asset_events

        settings = self.hook.settings
        floors = site_floors(settings, self.storage_path)
        layout = self.layout()
        file = None if not self.policy_file else open_policy("policy_file", self.policy_file)
        plan, path = plan_snapshot(
            layout,
            self.policy(),
            floors,
            snapshot_id=self.snapshot_id,
            lease_group_id=settings.lease_group_id,
            file=file,
        )
        gauges(self.cluster_name, {f"plan.{name}": count for name, count in plan.counts.items()})
        update_asset_events(self, context, {"plan_id": plan.plan_id, **plan.counts})
        push_report_path(context, make_report(layout, plan)[0])
        return self._summary(plan, str(path))

    def policy(self) -> PlanPolicy:
        """Build the policy from the arguments and the connection's protected groups."""
        from airflow_kafka_groups.maintenance.patterns import DEFAULT_PROTECTED
        from airflow_kafka_groups.maintenance.plan.policy import PlanPolicy

        protected = DEFAULT_PROTECTED if self.protected is None else self.protected
        return PlanPolicy(
            include=self.include,
            exclude=self.exclude,
            protected=(*protected, *self.hook.settings.protected_groups),
            min_idle_seconds=self.min_idle_seconds,
            min_observations=self.min_observations,
            max_groups=self.max_groups,
            max_share=self.max_share,
            max_plan_age_seconds=self.max_plan_age_seconds,
            allow_hidden_topics=self.allow_hidden_topics,
            max_gap_seconds=self.max_gap_seconds,
            require_commit_log=self.require_commit_log,
        )

    def _summary(self, plan: DeletionPlan, path: str) -> dict[str, Any]:
        self.log.info("Plan %s: %s", plan.plan_id, ", ".join(f"{name} {n}" for name, n in plan.counts.items()))
        self.log.info("It is bound to: %s", plan.view or "the cluster's id alone, since its snapshot has no view of it")
        self.log.info("Plan %s: judged by %s", plan.plan_id, recorded_sentence(plan.evidence))
        for warning in plan.warnings:
            self.log.warning("Plan %s: %s", plan.plan_id, warning)
        first = plan.groups[:FIRST_GROUPS]
        for group in first:
            self.log.info("To delete: %s (%s)", group.group_id, group.reason)
        return {
            "plan_id": plan.plan_id,
            "plan_path": path,
            "digest": plan.digest,
            "snapshot_id": plan.snapshot_id,
            "expires_at": plan.expires_at.isoformat(),
            "counts": dict(plan.counts),
            "evidence": recorded_sentence(plan.evidence),
            "warnings": list(plan.warnings),
            "first_groups": [
                {
                    "group_id": group.group_id,
                    "idle_seconds": group.idle_seconds,
                    "lag": group.lag,
                    "reason": group.reason,
                }
                for group in first
            ],
        }
