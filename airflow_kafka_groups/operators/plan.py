"""Operators that plan a deletion from the verdicts of the Spark job, and that check a policy file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context

from airflow_kafka_groups.hooks.argument_validation import Argument, DeclaredArguments
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_duration,
    read_flag,
    read_integer,
    read_number,
    read_patterns,
    read_place_or_nothing,
    read_text,
)
from airflow_kafka_groups.hooks.links import CleanupReportLink, push_report_path
from airflow_kafka_groups.judge.evidence import recorded_sentence
from airflow_kafka_groups.kafka.admin.results import collection_paused
from airflow_kafka_groups.operators.support.base import (
    FIRST_FAILURES,
    MatchingOperator,
    StoredOperator,
    actor_of,
    gauges,
    update_asset_events,
)
from airflow_kafka_groups.shown import one_line, shortened, storable

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan


class _JudgingArguments(DeclaredArguments, BaseOperator):
    """The limits by which a group is judged, and the policy file that has others. Each operator describes its own."""

    policy_file = Argument(optional(read_place_or_nothing))
    min_idle_seconds = Argument(read_duration)
    min_observations = Argument(partial(read_integer, minimum=2))
    max_gap_seconds = Argument(read_duration)

    def __init__(
        self,
        *,
        policy_file: str | None = None,
        min_idle_seconds: float | str | timedelta = 7 * 86_400,
        min_observations: int | str = 2,
        max_gap_seconds: float | str | timedelta = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)


class _PlanningOperator(_JudgingArguments, MatchingOperator, StoredOperator):
    """The base class of operators that write a plan. Each says what its evidence and its policy file are.

    :param include: patterns of the groups to consider: ``orders-*``, ``re:orders-.*``. Default: all that have a name.
    :param exclude: patterns of groups to keep; platform groups (``connect-*``, ``__*`` …) are kept, too. Default: none.
    :param protected: patterns of groups to keep; replaces the built-in list, including ``connect-*``: use ``exclude``
        to add patterns. Default: the built-in list.
    :param max_groups: maximum number of groups in a plan, the longest idle first. Default 500.
    :param max_share: maximum share of all groups in a plan, above 0 and at most 1. Default 0.5.
    :param max_plan_age_seconds: maximum age of the snapshot when the plan is applied, such as ``"12h"``. Default 1d.
    """

    snapshot_id = Argument(optional(read_text))
    protected = Argument(optional(read_patterns))
    max_groups = Argument(partial(read_integer, minimum=1))
    max_share = Argument(partial(read_number, maximum=1))
    max_plan_age_seconds = Argument(read_duration)

    def __init__(
        self,
        *,
        snapshot_id: str | None = None,
        protected: Sequence[str] | str | None = None,
        max_groups: int | str = 500,
        max_share: float | str = 0.5,
        max_plan_age_seconds: float | str | timedelta = 86_400,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def open_policy_file(self) -> PolicyFile | None:
        from airflow_kafka_groups.hooks.storage import open_policy

        return open_policy("policy_file", self.policy_file, self.floors()) if self.policy_file else None

    def policy(self) -> PlanPolicy:
        from airflow_kafka_groups.hooks.floors import plan_policy

        return plan_policy(self, self.hook.settings)

    def emit_plan(
        self, context: Context, plan: DeletionPlan, path: Any, metric: str, facts: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Log a plan, emit its counts as metrics and asset events, and return what every plan's summary has."""
        gauges(self.cluster_name, {f"{metric}.{name}": count for name, count in plan.counts.items()})
        update_asset_events(self, context, {"plan_id": plan.plan_id, **plan.counts, **(facts or {})})
        self.log.info("Plan %s: %s", plan.plan_id, ", ".join(f"{name} {n}" for name, n in plan.counts.items()))
        for warning in plan.warnings:
            self.log.warning("Plan %s: %s", plan.plan_id, warning)
        return {**storable(plan.summary()), "plan_path": str(path)}


class PlanCleanupOperator(_PlanningOperator):
    """Check the Spark job's verdicts and write the plan: the groups to delete, fixed by a digest.

    Nothing is deleted. A plan may be empty. Groups protected by the connection are kept, as are platform groups
    (``connect-*``, ``__*`` and others) and those that ``exclude`` matches. Also writes the report.

    :param snapshot_id: the judged snapshot. Default: the newest complete one that is not of named groups.
    :param min_idle_seconds: how long a group must have had no member and no commit, such as ``"36h"``. Default 7d.
    :param min_observations: number of complete snapshots that show it so, at least 2. Default 2.
    :param allow_hidden_topics: plan even if the connection's user may not describe all topics, so that groups may have
        offsets that are not visible. Default false.
    :param max_gap_seconds: the longest time between two snapshots, such as ``"2d"``, or seconds; 0 for no limit. A
        longer one resets the idle time: pass the job's ``--max-gap-seconds``. Default 0.
    :param policy_file: a policy file: an absolute path or a URL. Its rules decide about idle time and number of
        snapshots instead of ``min_idle_seconds`` and ``min_observations``; patterns and limits here narrow it further.
        Default: none.
    :param require_commit_log: plan only if the job read the log of commits until after the snapshot. Default false.
    :param offsets_retention_minutes: the brokers' ``offsets.retention.minutes``; 0 for what the snapshot has. The plan
        shows when offsets expire, and warns of idle times that do not fit. Default 0.

    The event of an asset in ``outlets`` has the counts, and ``growing_families`` where some grow faster than allowed.

    Returns ``{"plan_id", "plan_path", "digest", "snapshot_id", "expires_at", "counts", "evidence", "warnings",
    "first_groups"}``. Fails if the snapshot is incomplete, too old, not judged, or judged by less than asked for.
    """

    operator_extra_links = (CleanupReportLink(),)

    allow_hidden_topics = Argument(read_flag)
    require_commit_log = Argument(read_flag)
    offsets_retention_minutes = Argument(read_integer)

    def __init__(
        self,
        *,
        allow_hidden_topics: bool | str = False,
        require_commit_log: bool | str = False,
        offsets_retention_minutes: int | str = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    @collection_paused()
    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.change.plan.make_plan import plan_snapshot
        from airflow_kafka_groups.report.html import make_report

        settings, layout, dag = self.hook.settings, self.layout(), context.get("dag")
        plan, path = plan_snapshot(
            layout,
            self.policy(),
            self.floors(),
            snapshot_id=self.snapshot_id,
            lease_group_id=settings.lease_group_id,
            file=self.open_policy_file(),
            offsets_retention_minutes=self.offsets_retention_minutes or None,
            notifies=any(getattr(task, "notifiers", ()) for task in (dag.tasks if dag else ())),
        )
        summary = self.emit_plan(context, plan, path, "plan", _growing(plan))
        push_report_path(context, make_report(layout, plan, actor_of(context).get("dag_id"))[0])
        evidence, first = recorded_sentence(plan.evidence), plan.groups[:FIRST_FAILURES]
        self.log.info("It is bound to: %s", plan.view or "the cluster's id alone, since its snapshot has no view of it")
        self.log.info("Plan %s: judged by %s", plan.plan_id, evidence)
        for group in first:
            self.log.info("To delete: %s (%s)", one_line(group.group_id), group.reason)
        names = ("group_id", "idle_seconds", "lag", "reason")
        rows = storable([{name: getattr(group, name) for name in names} for group in first])
        return {**summary, "evidence": evidence, "first_groups": rows}


def _growing(plan: DeletionPlan) -> dict[str, Any]:
    """Return the families that grow faster than their rules allow, for the events of assets."""
    growing = [family for family in plan.families if family.get("too_fast")]
    names: dict[str, list[Any]] = {}
    for family in growing[:FIRST_FAILURES]:  # they may differ only beyond what is shown of their names
        names.setdefault(shortened(family["name"]), []).extend(family["too_fast"])
    return {"growing_families": names} if names else {}


class CheckPolicyOperator(_JudgingArguments):
    """Check a policy file, and return what the Spark job has to be asked for so that every rule can be decided.

    The job judges by one idle time: the smallest of the policy's rules that delete. The plan then decides by each
    group's own rule. Without a file, the arguments are returned as they are.

    :param policy_file: the policy file: an absolute path or a URL; empty or ``None`` for none.
    :param min_idle_seconds: the idle time without a file, such as ``"36h"``, or seconds. Default 7d.
    :param min_observations: the number of snapshots without a file. Default 2.
    :param max_gap_seconds: the longest time between two snapshots that the job may bridge, such as ``"2d"``, or
        seconds; 0 for no limit. The stricter of this and the file's counts. Default 0.

    Returns ``{"policy_file", "digest", "rules", "warnings", "min_idle_seconds", "min_observations",
    "max_gap_seconds"}``. Fails if the file cannot be read, is wrong, or one of its tests fails.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_kafka_groups.hooks.floors import LIMITS, configured_floors
        from airflow_kafka_groups.hooks.storage import open_policy
        from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy

        policy = PlanPolicy(**{name: getattr(self, name) for name in LIMITS})
        file = open_policy("policy_file", self.policy_file, configured_floors()) if self.policy_file else None
        if file is not None:
            policy = policy.by_file(file)
            self.log.info("Policy %s, digest %s: %d rules", file.path, file.digest, len(file.rules))
            for warning in file.warnings:
                self.log.warning("Policy %s: %s", file.path, warning)
        return {
            "policy_file": file and file.path,
            "digest": file and file.digest,
            "rules": [rule.name for rule in policy.rules],
            "warnings": list(file.warnings) if file else [],
            **{name: getattr(policy, name) for name in LIMITS},
        }
