"""Ask a human before topics of live groups are pruned."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.support.question import FIRST_GROUPS, as_typed, counted, plain

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_kafka_groups.ledger.prune_plan import PrunePlan
    from airflow_kafka_groups.ledger.sealed_plan import SealedPlan
    from airflow_kafka_groups.storage.layout import Layout


class ApprovePruningOperator(ApproveCleanupOperator):
    """Ask a human to approve a plan of ``PlanTopicPruningOperator``, where that is needed; no answer in time means no.

    Who approves types the number of planned topics, and may name some to keep, as ``group [topic]``.
    ``PruneTopicOffsetsOperator`` checks the answer itself. All else is as of ``ApproveCleanupOperator``.

    :param plan_digest: its digest as ``PlanTopicPruningOperator`` returned it (templated).

    Returns ``{"required": false}``, or the answer, as ``ApproveCleanupOperator``.
    """

    counted = "topics"
    planned = "topics are planned to have their offsets deleted"
    names = "topics, as group [topic],"
    default_subject = "Delete offsets of topics that live groups stopped reading?"
    operator_extra_links = ()  # type: ignore[assignment]  # there is no report of a pruning

    def load(self, layout: Layout) -> SealedPlan:
        """Read the plan. Raises ``PlanError``."""
        from airflow_kafka_groups.ledger.prune_plan import load_prune_plan

        return load_prune_plan(layout, self.plan_id)

    def exceptions(self, plan: Any, names: Any) -> Any:
        """Return what is to be kept, as it was typed."""
        return as_typed(names, set(plan.group_ids))

    def question_of(self, context: Context, layout: Layout, plan: Any, why: str) -> tuple[str, str]:
        """Return the subject and the text of the question."""
        count = counted(len(plan.groups), "topic")
        return f"Prune {count} of live groups of {layout.cluster}?", pruning_question(plan, why)


def pruning_question(plan: PrunePlan, why: str) -> str:
    """Write the question in Markdown. Names come from the cluster: nothing in them is taken for markup."""
    topics, partitions = counted(len(plan.groups), "topic"), counted(plan.partitions, "partition")
    lines = [
        f"The committed offsets of **{topics}** ({partitions}) of {counted(plan.group_count, 'live group')} "
        f"of cluster **{plain(plan.cluster)}** (Kafka id "
        f"{plain(plan.kafka_cluster_id)}) will be deleted if you approve. They are backed up first. You are asked "
        f"because {plain(why)}.",
        "",
        f"Plan {plan.plan_id}, digest {plan.digest}, valid until {plan.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC.",
        *[f"- Warning: {plain(warning)}" for warning in plan.warnings],
        "",
        "| group [topic] | why | owner |",
        "|---|---|---|",
        *[
            f"| {plain(item.name)} | {plain(item.reason)} | {plain(item.owner or '-')} |"
            for item in plan.groups[:FIRST_GROUPS]
        ],
    ]
    if len(plan.groups) > FIRST_GROUPS:
        lines.append(f"| … and {len(plan.groups) - FIRST_GROUPS} more | see the plan | |")
    return "\n".join(lines)
