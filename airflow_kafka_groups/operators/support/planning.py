"""What the operators that plan have in common: the policy's arguments, and the summary of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_kafka_groups.hooks.argument_validation import Argument
from airflow_kafka_groups.hooks.arguments import (
    optional,
    read_duration,
    read_integer,
    read_number,
    read_patterns,
    read_place_or_nothing,
    read_text,
)
from airflow_kafka_groups.operators.support.base import MatchingOperator, StoredOperator
from airflow_kafka_groups.shown import storable

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_kafka_groups.judge.policy.plan_policy import PlanPolicy
    from airflow_kafka_groups.judge.policy.policy_file import PolicyFile
    from airflow_kafka_groups.ledger.deletion_plan import DeletionPlan


class PlanningOperator(MatchingOperator, StoredOperator):
    """The base class of operators that write a plan. Each says what its evidence and its policy file are.

    :param include: patterns of the groups to consider, such as ``orders-*``, or ``re:`` and a regular expression.
        Default: all that have a name (templated).
    :param exclude: patterns of the groups to keep; platform groups (``connect-*``, ``__*`` …) are kept, too. Default:
        none (templated).
    :param protected: patterns of groups to keep; replaces the built-in list, including ``connect-*``: use ``exclude``
        to add patterns. Default: the built-in list (templated).
    :param max_groups: maximum number of groups in a plan, the longest idle first. Default 500 (templated).
    :param max_share: maximum share of all groups in a plan, above 0 and at most 1. Default 0.5 (templated).
    :param max_plan_age_seconds: maximum age of the snapshot when the plan is applied, such as ``"12h"``, or seconds.
        Default 1d (templated).
    """

    seldom_counted: ClassVar[Mapping[str, int]] = {}
    """The counts that a plan leaves out where they are 0."""

    snapshot_id = Argument(optional(read_text))
    protected = Argument(optional(read_patterns))
    policy_file = Argument(optional(read_place_or_nothing))
    min_idle_seconds = Argument(read_duration)
    min_observations = Argument(partial(read_integer, minimum=2))
    max_groups = Argument(partial(read_integer, minimum=1))
    max_share = Argument(partial(read_number, maximum=1))
    max_plan_age_seconds = Argument(read_duration)
    max_gap_seconds = Argument(read_duration)

    def __init__(
        self,
        *,
        snapshot_id: str | None = None,
        protected: Sequence[str] | str | None = None,
        policy_file: str | None = None,
        min_idle_seconds: float | str | timedelta = 7 * 86_400,
        min_observations: int | str = 2,
        max_groups: int | str = 500,
        max_share: float | str = 0.5,
        max_plan_age_seconds: float | str | timedelta = 86_400,
        max_gap_seconds: float | str | timedelta = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

    def open_policy_file(self) -> PolicyFile | None:
        """Read the policy file, if there is one. Raises ``PolicyError``."""
        from airflow_kafka_groups.hooks.storage import open_policy

        return open_policy("policy_file", self.policy_file, self.floors()) if self.policy_file else None

    def policy(self) -> PlanPolicy:
        """Build the policy from the arguments and the connection's protected groups."""
        from airflow_kafka_groups.hooks.floors import plan_policy

        return plan_policy(self, self.hook.settings)

    def emit_plan(
        self, context: Context, plan: DeletionPlan, path: Any, metric: str, facts: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Log a plan, emit its counts, and return what every plan's summary has.

        :param metric: the metrics' first name.
        :param facts: what events of assets have beside the counts. Default: nothing.
        """
        from airflow_kafka_groups.operators.support.telemetry import gauges, update_asset_events

        shown = {**self.seldom_counted, **plan.counts}  # a statsd server keeps a gauge that is not sent
        gauges(self.cluster_name, {f"{metric}.{name}": count for name, count in shown.items()})
        update_asset_events(self, context, {"plan_id": plan.plan_id, **plan.counts, **(facts or {})})
        self.log.info("Plan %s: %s", plan.plan_id, ", ".join(f"{name} {n}" for name, n in plan.counts.items()))
        for warning in plan.warnings:
            self.log.warning("Plan %s: %s", plan.plan_id, warning)
        return {**storable(plan.summary()), "plan_path": str(path)}
