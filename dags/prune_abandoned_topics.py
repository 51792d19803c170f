"""Delete the offsets of topics that live consumer groups have stopped reading. A dry run by default.

Topics are judged by the snapshots of `snapshot_group_offsets`: enable it first. The offsets are backed up before they
are deleted, and the groups live on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, chain

from airflow_kafka_groups.operators.approval import ApprovePruningOperator
from airflow_kafka_groups.operators.dag_params import SCOPE, approval_arguments, dag_arguments
from airflow_kafka_groups.operators.pruning import PlanTopicPruningOperator, PruneTopicOffsetsOperator

SAFETY = ("dry_run", "require_approval", "approve_above", "lease")

with DAG(
    dag_id="prune_abandoned_topics",
    description="Delete the offsets of topics that live Kafka consumer groups have stopped reading.",
    schedule=CronTriggerTimetable("@daily", timezone="UTC", run_immediately=timedelta(0)),  # not when first unpaused
    doc_md=__doc__,
    **dag_arguments(*SAFETY, "policy_file", "topic_idle_seconds", "include", "exclude", *SCOPE),
):
    plan = PlanTopicPruningOperator(
        task_id="plan",
        policy_file="{{ params.policy_file or '' }}",
        min_idle_seconds="{{ params.topic_idle_seconds }}",
        include="{{ params.include | tojson }}",
        exclude="{{ (params.exclude or []) | tojson }}",
    )
    asked: dict[str, Any] = {
        "plan_id": "{{ ti.xcom_pull('plan')['plan_id'] }}",
        "plan_digest": "{{ ti.xcom_pull('plan')['digest'] }}",
        **approval_arguments(),
    }
    approve = ApprovePruningOperator(task_id="approve", response_timeout=timedelta(hours=12), **asked)
    prune = PruneTopicOffsetsOperator(task_id="prune", lease="{{ params.lease }}", retries=0, **asked)
    chain(plan, approve, prune)
