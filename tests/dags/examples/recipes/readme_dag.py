"""A clean-up of one's own, in fifteen lines: shown in README.md."""

from __future__ import annotations

# [START readme_dag]
from datetime import datetime

from airflow.sdk import DAG, chain

from airflow_kafka_groups.operators.approval import ApproveCleanupOperator
from airflow_kafka_groups.operators.backup import BackupGroupOffsetsOperator
from airflow_kafka_groups.operators.dag_params import dag_params, scope_arguments, spark_arguments
from airflow_kafka_groups.operators.deletion import DeleteGroupsOperator
from airflow_kafka_groups.operators.offsets import ListGroupOffsetsOperator
from airflow_kafka_groups.operators.plan import PlanCleanupOperator
from airflow_kafka_groups.operators.spark import KafkaSparkSubmitOperator

arguments = scope_arguments()
with DAG("my_cleanup", start_date=datetime(2026, 1, 1), params=dag_params(), default_args=arguments):
    snapshot = ListGroupOffsetsOperator(task_id="snapshot")
    snapshot_id = "{{ ti.xcom_pull('snapshot')['snapshot_id'] }}"
    judge = KafkaSparkSubmitOperator(task_id="judge", **spark_arguments(snapshot_id))
    plan = PlanCleanupOperator(task_id="plan", snapshot_id=snapshot_id, exclude=["payments-*"])
    plan_id, digest = "{{ ti.xcom_pull('plan')['plan_id'] }}", "{{ ti.xcom_pull('plan')['digest'] }}"
    backup = BackupGroupOffsetsOperator(task_id="backup", plan_id=plan_id, plan_digest=digest)
    approve = ApproveCleanupOperator(task_id="approve", plan_id=plan_id, plan_digest=digest)
    delete = DeleteGroupsOperator(
        task_id="delete", plan_id=plan_id, plan_digest=digest, approval_rule="always", retries=0
    )
    chain(snapshot, judge, plan, backup, approve, delete)
# [END readme_dag]
