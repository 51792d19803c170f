"""Delete the offsets of topics that live groups have left: the rules of the policy with the action prune-topics."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, chain

from airflow_kafka_groups.operators.dag_params import SCOPE, dag_params, dry_run_argument, scope_arguments
from airflow_kafka_groups.operators.prune_topics import PlanTopicPruningOperator, PruneTopicOffsetsOperator
from airflow_kafka_groups.operators.run_conf import refuse_unknown_conf

with DAG(
    dag_id="prune_topics",
    description="Delete the offsets of topics that live Kafka consumer groups have left.",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    params=dag_params("policy_file", "dry_run", *SCOPE),
    default_args={**scope_arguments(), "pre_execute": refuse_unknown_conf},
    tags=["kafka", "consumer-groups"],
    doc_md=__doc__,
):
    plan = PlanTopicPruningOperator(task_id="plan", policy_file="{{ params.policy_file or '' }}")
    prune = PruneTopicOffsetsOperator(
        task_id="prune",
        plan_id="{{ ti.xcom_pull('plan')['plan_id'] }}",
        plan_digest="{{ ti.xcom_pull('plan')['digest'] }}",
        dry_run=dry_run_argument(),
    )
    chain(plan, prune)
