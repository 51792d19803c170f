"""Prune topics that live groups have stopped reading: shown in docs/prune-topics.md."""

from __future__ import annotations

# [START recipe_prune_topics]
from datetime import datetime

from airflow.sdk import DAG

from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.prune_approval import ApprovePruningOperator
from airflow_kafka_groups.operators.prune_topics import PlanTopicPruningOperator, PruneTopicOffsetsOperator

with DAG(dag_id="prune_topics", schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False):
    snapshot = ListGroupOffsetsOperator(
        task_id="snapshot", kafka_groups_conn_id="prod", storage_path="/srv/kafka-groups"
    )
    plan = PlanTopicPruningOperator(
        task_id="plan",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        min_idle_seconds="3d",
        max_groups=20,
    )
    approve = ApprovePruningOperator(
        task_id="approve",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        plan_id="{{ ti.xcom_pull('plan')['plan_id'] }}",
        plan_digest="{{ ti.xcom_pull('plan')['digest'] }}",
        approval_rule="above_cap",  # asks for more than 100 topics
    )
    prune = PruneTopicOffsetsOperator(
        task_id="prune",
        kafka_groups_conn_id="prod",
        storage_path="/srv/kafka-groups",
        plan_id="{{ ti.xcom_pull('plan')['plan_id'] }}",
        plan_digest="{{ ti.xcom_pull('plan')['digest'] }}",
        approval_rule="above_cap",
        dry_run=True,  # look at the first plans; then False
    )
    snapshot >> plan >> approve >> prune
# [END recipe_prune_topics]
